package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// network is the server's side of gnet: it runs the event loops. Nothing
// outside this file knows a gnet type.
//
// Connections are accepted from net.Listeners (accept.go) and enrolled in a
// gnet Client: gnet's own acceptor ends the server when descriptors run out,
// and removes whatever stands at the path of a unix socket.
type network struct {
	gnet.BuiltinEventEngine
	srv    *Server
	client *gnet.Client
	loops  sync.Map // gnet.EventLoop to *loop

	open  atomic.Int64 // connections gnet holds, or is about to
	lanes atomic.Int64

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	stopping  bool
	accepting sync.WaitGroup
}

func newNetwork(srv *Server) *network {
	return &network{srv: srv, listeners: make(map[net.Listener]struct{})}
}

// start starts the event loops.
func (n *network) start() error {
	client, err := gnet.NewClient(n,
		gnet.WithNumEventLoop(n.srv.cfg.Loops),
		gnet.WithLogger(gnetLog{n.srv.log}))
	if err != nil {
		return fmt.Errorf("event loops: %w", err)
	}
	if err := client.Start(); err != nil {
		return fmt.Errorf("event loops: %w", err)
	}
	n.client = client
	return nil
}

// shutdown stops accepting, waits until what is unsent is sent or ctx ends,
// and ends the loops.
func (n *network) shutdown(ctx context.Context) error {
	n.mu.Lock()
	n.stopping = true
	for l := range n.listeners {
		l.Close()
	}
	n.mu.Unlock()
	n.accepting.Wait()
	if n.client == nil {
		return nil
	}
	// Commands that a loop has read are answered in the same turn; what can
	// still be under way are replies that clients are slow to read.
	for n.lanes.Load() > 0 && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	return n.client.Stop()
}

// enroll hands a connection to the event loops; it is theirs even on error.
func (n *network) enroll(nc net.Conn) error {
	_, err := n.client.Enroll(nc)
	return err
}

// loopOf is the loop on top of gnet's, made when it is first met.
func (n *network) loopOf(el gnet.EventLoop) *loop {
	if l, ok := n.loops.Load(el); ok {
		return l.(*loop)
	}
	var l *loop
	drain := gnet.RunnableFunc(func(context.Context) error {
		l.drain()
		return nil
	})
	l = newLoop(n.srv, func() {
		el.Execute(context.Background(), drain) // fails only when all is over
	})
	n.loops.Store(el, l)
	n.srv.addLoop(l)
	return l
}

// socket is a connection as gnet has it. It implements Conn.
type socket struct {
	net    *network
	loop   *loop
	s      *session
	c      gnet.Conn
	fd     int // -1 once gnet has closed it
	lane   *lane
	busy   bool // in a callback of gnet's about this connection
	closed bool // by the session
	failed bool
}

// OnOpen implements gnet.EventHandler.
func (n *network) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	l := n.loopOf(c.EventLoop())
	k := &socket{net: n, loop: l, c: c, fd: c.Fd(), busy: true}
	c.SetContext(k)
	k.s = l.open(k)
	k.busy = false
	return nil, k.action()
}

// OnTraffic implements gnet.EventHandler.
func (n *network) OnTraffic(c gnet.Conn) gnet.Action {
	k := c.Context().(*socket)
	b, err := c.Next(-1)
	if err != nil || len(b) == 0 {
		return gnet.None
	}
	k.busy = true
	k.loop.input(k.s, b)
	k.busy = false
	return k.action()
}

// OnClose implements gnet.EventHandler: the client has closed its sending
// side, or the connection is broken, or the session wanted it. The descriptor
// is still good.
func (n *network) OnClose(c gnet.Conn, err error) gnet.Action {
	k, ok := c.Context().(*socket)
	if !ok {
		n.open.Add(-1)
		return gnet.None
	}
	k.busy = true
	switch {
	case k.closed:
	case errors.Is(err, io.EOF) && !k.failed:
		k.loop.event(k.s, (*session).endOfInput)
		if !k.closed {
			k.detach()
		}
	default:
		k.loop.event(k.s, (*session).abort)
	}
	k.fd = -1
	k.c = nil
	if k.lane == nil || !k.lane.inherit() {
		n.open.Add(-1)
	}
	return gnet.None
}

// action is what a callback tells gnet.
func (k *socket) action() gnet.Action {
	if k.closed || k.failed {
		return gnet.Close
	}
	return gnet.None
}

// Write implements Conn.
func (k *socket) Write(p []byte) { k.write(p, false) }

// WriteStable implements Conn.
func (k *socket) WriteStable(p []byte) { k.write(p, true) }

func (k *socket) write(p []byte, stable bool) {
	if k.failed || len(p) == 0 {
		return
	}
	if k.lane != nil {
		q := p
		if !stable {
			q = append([]byte(nil), p...)
		}
		if k.lane.add(q) {
			return
		}
		k.lane = nil
	}
	if k.fd < 0 {
		k.failed = true
		return
	}
	for len(p) > 0 {
		n, err := unix.Write(k.fd, p)
		switch {
		case n > 0:
			p = p[n:]
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if !stable {
				p = append([]byte(nil), p...)
			}
			k.startLane(p, false)
			return
		default:
			k.fail()
			return
		}
	}
}

// fail gives the connection up: it is broken.
func (k *socket) fail() {
	k.failed = true
	if !k.busy && k.c != nil {
		k.c.Close()
	}
}

// startLane goes on writing with a descriptor of its own.
func (k *socket) startLane(p []byte, stay bool) {
	nc, err := k.dup()
	if err != nil {
		k.net.srv.complain("closing a connection: no descriptor to wait with until its client reads", "err", err)
		k.fail()
		return
	}
	k.net.lanes.Add(1)
	k.lane = newLane(nc, p, stay,
		func() { k.loop.signal(k.s) },
		func(heir bool) {
			k.net.lanes.Add(-1)
			if heir {
				k.net.open.Add(-1)
			}
		})
}

func (k *socket) dup() (net.Conn, error) {
	fd, err := k.c.Dup()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "connection")
	defer f.Close()
	return net.FileConn(f)
}

// detach keeps the socket open after gnet has closed its side: there are
// still answers to come.
func (k *socket) detach() {
	if k.lane != nil && k.lane.keep() {
		return
	}
	if k.startLane(nil, true); k.failed {
		k.loop.event(k.s, (*session).abort)
	}
}

// Unsent implements Conn.
func (k *socket) Unsent() int {
	if k.lane == nil {
		return 0
	}
	return k.lane.len()
}

// Close implements Conn.
func (k *socket) Close() {
	k.closed = true
	if k.lane != nil {
		k.lane.finish()
	}
	if !k.busy && k.c != nil {
		k.c.Close()
	}
}

// Drop implements Conn.
func (k *socket) Drop() {
	if k.lane != nil {
		k.lane.drop()
	}
	k.Close()
}

// gnetLog passes gnet's log on. Its debug and info lines are about its own
// inside, so they are debug here.
type gnetLog struct{ log *slog.Logger }

func (g gnetLog) Debugf(f string, a ...any) { g.log.Debug("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Infof(f string, a ...any)  { g.log.Debug("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Warnf(f string, a ...any)  { g.log.Warn("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Errorf(f string, a ...any) { g.log.Error("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Fatalf(f string, a ...any) { g.log.Error("gnet: " + fmt.Sprintf(f, a...)) }
