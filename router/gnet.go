package router

import (
	"context"
	"errors"
	"fmt"
	"io"
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
// Connections are accepted by the loops of a gnet Client from net.Listeners (accept.go,
// door_linux.go): gnet's own acceptor ends the server when descriptors run out,
// and removes whatever stands at the path of a unix socket.
type network struct {
	gnet.BuiltinEventEngine
	srv    *Server
	client *gnet.Client
	loops  map[gnet.EventLoop]*loop // all of them; read only once started
	wakers []*waker

	open   atomic.Int64 // connections that there are, or are about to be
	full   atomic.Bool  // clients wait until one of them goes
	lanes  atomic.Int64
	byLane sync.Map // the same, *lane to nothing

	mu        sync.Mutex
	listeners map[net.Listener]served
	strange   error // a loop of gnet's that is not the known one
	noGear    bool  // new connections for Gearman are refused
	noneAtAll bool  // … all
	stopping  bool
	accepting sync.WaitGroup
}

func newNetwork(srv *Server) *network {
	return &network{srv: srv, loops: make(map[gnet.EventLoop]*loop), listeners: make(map[net.Listener]served)}
}

// start starts the event loops.
func (n *network) start() error {
	client, err := gnet.NewClient(n,
		gnet.WithNumEventLoop(n.srv.cfg.Loops),
		gnet.WithTCPNoDelay(gnet.TCPDelay), // net has set TCP_NODELAY on accepting
		gnet.WithLogger(gnetLog{n.srv.log}))
	if err != nil {
		return fmt.Errorf("event loops: %w", err)
	}
	if err := client.Start(); err != nil {
		return fmt.Errorf("event loops: %w", err)
	}
	n.client = client
	if err := n.startWakers(); err != nil {
		client.Stop()
		n.stopWakers()
		return fmt.Errorf("event loops: %w", err)
	}
	return nil
}

// socket is a connection as gnet has it. It implements Conn.
type socket struct {
	net      *network
	loop     *loop
	el       gnet.EventLoop
	s        *session
	c        gnet.Conn // nil while gnet does not have it
	fd       int       // -1 while gnet does not have it
	lane     *lane
	gear     bool // it speaks Gearman
	counted  bool // among those placed in its loop
	busy     bool // in a callback of gnet's about this connection
	closed   bool // by the session
	failed   bool
	parked   bool // see Pause
	wanted   bool // … and to be resumed once gnet has let go
	resumes  uint
	opening  bool // given back to gnet by Resume, and OnOpen was not there yet
	watching bool // a call of watchHangUp is under way
}

// OnOpen implements gnet.EventHandler: a new connection, or one that was
// paused.
func (n *network) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	l := n.loops[c.EventLoop()]
	if c.Context() == nil {
		c.SetContext(l.reactor.opening)
	}
	k, ok := c.Context().(*socket)
	if !ok {
		if w, ok := c.Context().(*waker); ok {
			n.meet(c.EventLoop(), w)
		}
		return nil, gnet.None
	}
	l.enter()
	defer l.exit()
	k.c, k.fd, k.opening = c, c.Fd(), false
	if k.s != nil {
		if k.lane != nil {
			k.lane.leave()
		}
		return nil, k.action()
	}
	k.el, k.loop = c.EventLoop(), l
	k.counted = true
	k.busy = true
	k.s = k.loop.open(k, k.gear)
	k.busy = false
	return nil, k.action()
}

// meet makes the loop on top of el, a loop of gnet's.
func (n *network) meet(el gnet.EventLoop, w *waker) {
	l := w.opened()
	r, err := newReactor(el, l)
	if err != nil {
		n.strange = err
		return
	}
	l.reactor = r
	n.loops[el] = l
}

// OnTraffic implements gnet.EventHandler.
func (n *network) OnTraffic(c gnet.Conn) gnet.Action {
	b, err := c.Next(-1)
	if err != nil || len(b) == 0 {
		return gnet.None
	}
	k, ok := c.Context().(*socket)
	if !ok {
		switch k := c.Context().(type) {
		case *waker:
			k.woken()
		case *door:
			k.knock()
		}
		return gnet.None
	}
	l := k.loop
	l.enter()
	k.busy = true
	l.input(k.s, b)
	k.busy = false
	action := k.action()
	l.exit()
	return action
}

// OnClose implements gnet.EventHandler: the client has closed its sending
// side, or the connection is broken, or the session wanted it. The descriptor
// is still good.
func (n *network) OnClose(c gnet.Conn, err error) gnet.Action {
	k, ok := c.Context().(*socket)
	if !ok {
		return gnet.None
	}
	k.loop.enter()
	defer k.loop.exit()
	if k.parked && !k.closed {
		k.c, k.fd = nil, -1
		if k.wanted {
			k.wanted = false
			if !k.Resume() {
				k.loop.event(k.s, (*session).abort)
			}
		}
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
	k.busy = false
	k.c, k.fd = nil, -1
	k.leave()
	return gnet.None
}

// leave takes the connection off the count, unless a lane still has it.
func (k *socket) leave() {
	if k.counted {
		k.counted = false
		k.loop.reactor.placed.Add(-1)
	}
	if k.lane == nil || !k.lane.inherit() {
		k.net.gone()
	}
}

// action is what a callback tells gnet.
func (k *socket) action() gnet.Action {
	if k.closed || k.failed || k.parked {
		return gnet.Close
	}
	return gnet.None
}

// Write implements Conn.
func (k *socket) Write(p []byte) { k.write(p, false, writeMax) }

// WriteStable implements Conn.
func (k *socket) WriteStable(pieces [][]byte) {
	left := writeMax
	for _, p := range pieces {
		k.write(p, true, left)
		left -= len(p)
	}
}

// write writes most bytes at once, or a little more.
func (k *socket) write(p []byte, stable bool, most int) {
	if k.failed || len(p) == 0 {
		return
	}
	if k.lane != nil {
		put := k.lane.write
		if most <= 0 {
			put = k.lane.add // a reader that keeps up would keep the loop as well
		}
		if put(p, stable) {
			return
		}
	}
	if k.fd < 0 {
		// The lane was all there was, and it has failed: its abort is under
		// way. It stays in place for Resume, Close and hungUp.
		k.failed = true
		return
	}
	k.lane = nil
	for sent := 0; len(p) > 0; {
		if sent >= most {
			// A reader that keeps up with a very large body would keep the
			// loop as well.
			k.startLane(p, stable)
			return
		}
		k.loop.tally[tallyWrites]++
		n, err := send(k.fd, p)
		switch {
		case n > 0:
			p = p[n:]
			sent += n
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			k.startLane(p, stable)
			return
		default:
			k.fail()
			return
		}
	}
}

// writeMax bytes are written at once by an event loop.
const writeMax = 1 << 20

// fail gives the connection up: it is broken.
func (k *socket) fail() {
	k.failed = true
	if !k.busy && k.c != nil {
		k.c.Close()
	}
}

// startLane goes on writing with a descriptor of its own.
func (k *socket) startLane(p []byte, stable bool) {
	if !k.openLane(p, stable, false) {
		k.fail()
	}
}

// openLane reports false, and says so in the log, when there is no descriptor.
func (k *socket) openLane(p []byte, stable, stay bool) bool {
	fd, err := k.c.Dup()
	if err != nil {
		k.net.srv.complain("closing a connection: no descriptor to wait with for its client", "conn", k.s, "err", err)
		return false
	}
	k.addLane(os.NewFile(uintptr(fd), "connection"), p, stable, stay)
	k.lane.direct = func(p []byte) (int, error) { return send(fd, p) } // as long as the lane is not over
	return true
}

func (k *socket) addLane(to *os.File, p []byte, stable, stay bool) {
	k.net.lanes.Add(1)
	k.loop.tally[tallyLanes]++
	var n *lane
	n = newLane(to, k.net.srv.acct, p, stable, stay,
		func() { k.loop.signal(k.s, (*session).drained) },
		func(heir, failed bool) {
			k.net.lanes.Add(-1)
			k.net.byLane.Delete(n)
			if heir {
				k.net.gone()
			}
			if failed {
				k.loop.signal(k.s, (*session).abort)
			}
		})
	k.net.byLane.Store(n, struct{}{})
	k.lane = n
	go n.run()
}

// detach keeps the socket open after gnet has closed its side: there are
// still answers to come.
func (k *socket) detach() {
	if !k.stayLane() {
		k.failed = true
		k.loop.event(k.s, (*session).abort)
	}
}

// stayLane has a lane that lasts, with a descriptor of its own.
func (k *socket) stayLane() bool {
	return k.lane != nil && k.lane.keep() || k.openLane(nil, false, true)
}

// Pause implements Conn. gnet has no way to stop reading, so the connection is
// taken away from it, and given back by Resume; a lane keeps it meanwhile.
func (k *socket) Pause() bool {
	k.parked = k.stayLane()
	if k.parked {
		k.loop.tally[tallyPauses]++
		k.watchHangUp()
	}
	return k.parked
}

// hangUpEvery is how often a paused connection is looked at: nobody else would
// notice that its client has gone.
const hangUpEvery = 100 * time.Millisecond

func (k *socket) watchHangUp() {
	if k.watching {
		return
	}
	k.watching = true
	time.AfterFunc(hangUpEvery, func() {
		k.loop.signal(k.s, func(s *session) {
			k.watching = false
			switch {
			case !k.parked || k.closed:
			case k.lane.hungUp():
				s.lastInput()
			default:
				k.watchHangUp()
			}
		})
	})
}

// Resume implements Conn.
func (k *socket) Resume() bool {
	switch {
	case k.c == nil:
	case k.busy:
		// Within the callback of its Pause: gnet still has it, and keeps it.
		k.parked = false
		k.lane.leave()
		return true
	default:
		// Behind it, while gnet is about to let go: a helper had the loop in
		// between. OnClose goes on.
		k.wanted = true
		return true
	}
	nc, err := k.lane.dup()
	if err != nil {
		k.net.srv.complain("closing a connection: no descriptor to read it again", "conn", k.s, "err", err)
		return false
	}
	if nc.RemoteAddr() == nil {
		nc.Close()
		return false // reset meanwhile; gnet would trip over it
	}
	opened, err := k.el.Enroll(gnet.NewContext(context.Background(), k), nc)
	if err != nil {
		nc.Close()
		return false
	}
	k.parked, k.opening = false, true
	k.resumes++
	resume := k.resumes
	go func() {
		r := <-opened
		k.loop.signal(k.s, func(*session) {
			// Late, the connection may have been paused and resumed again.
			if resume == k.resumes {
				k.enrolled(r.Err)
			}
		})
	}()
	return true
}

// enrolled is called when gnet has taken the connection back, or has not: then
// OnOpen was not called. It does not always say why.
func (k *socket) enrolled(err error) {
	if !k.opening {
		return
	}
	k.opening = false
	k.net.srv.complain("closing a connection: could not read it again", "conn", k.s, "err", err)
	if k.closed {
		k.leave() // Close left it to OnClose
		return
	}
	k.parked = true
	k.s.abort()
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
	switch {
	case k.busy:
	case k.c != nil:
		k.c.Close()
	case k.parked:
		k.leave() // OnClose was there already
	}
}

// Drop implements Conn.
func (k *socket) Drop() {
	if k.lane != nil {
		k.lane.drop()
	}
	if !k.closed {
		k.Close()
	}
}
