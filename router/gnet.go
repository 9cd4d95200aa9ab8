package router

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
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
	yields bool // see yieldEvery

	open    atomic.Int64 // connections that there are, or are about to be
	full    atomic.Bool  // clients wait until one of them goes
	behind  atomic.Int64 // connections with output that was not taken
	pump    *pump
	without map[*socket]struct{} // those that gnet has let go; guarded by mu

	mu        sync.Mutex
	listeners map[net.Listener]served
	strange   error // a loop of gnet's that is not the known one
	noGear    bool  // new connections for Gearman are refused
	noneAtAll bool  // … all
	stopping  bool
	accepting sync.WaitGroup
}

func newNetwork(srv *Server) *network {
	return &network{srv: srv, loops: make(map[gnet.EventLoop]*loop), pump: new(pump), without: make(map[*socket]struct{}), listeners: make(map[net.Listener]served)}
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
	n.yields = runtime.GOMAXPROCS(0) <= n.srv.cfg.Loops
	err = n.pump.start()
	if err == nil {
		err = n.startWakers()
	}
	if err != nil {
		client.Stop()
		n.stopWakers()
		n.pump.stop()
		return fmt.Errorf("event loops: %w", err)
	}
	return nil
}

// socket is a connection. It implements Conn. All of it belongs to who holds the loop.
type socket struct {
	net    *network
	loop   *loop
	s      *session
	c      gnet.Conn  // nil once gnet has let go: fd is ours then
	fd     int        // -1: closed
	unsent *sendQueue // what the socket did not take; nil: nothing

	gear     bool // it speaks Gearman
	counted  bool // among those placed in its loop
	busy     bool // in a callback of gnet's about this connection
	closed   bool // by the session
	parting  bool // … and what the client still sends is thrown away: see Part
	failed   bool
	paused   bool // the loop does not look at it
	watching bool // a call of watchHangUp is under way
	pumped   bool // the pump knows fd

	linger *time.Timer // drops it when it has been closed for long enough; nil: not before
}

// OnOpen implements gnet.EventHandler.
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
	k.c, k.fd, k.loop = c, c.Fd(), l
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
	now := l.batch.Now
	l.exit()
	if n.yields && l.mustYield(now) {
		runtime.Gosched()
	}
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
	k.busy = true
	switch {
	case k.closed:
	case errors.Is(err, io.EOF) && !k.failed:
		k.loop.event(k.s, (*session).endOfInput)
	default:
		k.failed = true
		k.loop.event(k.s, (*session).abort)
	}
	k.busy = false
	k.letGo()
	return gnet.None
}

// action is what a callback tells gnet.
func (k *socket) action() gnet.Action {
	if k.closed || k.failed {
		return gnet.Close
	}
	return gnet.None
}
