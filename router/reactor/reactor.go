package reactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"polystalk/router/session"
)

// Options configures a Reactor.
type Options struct {
	// Host is shared by the loops; Start adds the loops to it.
	Host *session.Host
	// Loops is the number of event loops, at least 1.
	Loops int
	// MaxConnections is how many clients are served at the same time; 0: as many as the
	// limit of descriptors allows.
	MaxConnections int
	// OtherDescriptors is how many descriptors the process needs for other purposes, such as
	// its journal.
	OtherDescriptors int
	// TLS reserves descriptors for handshakes, and allows them more processors; see Secure.
	TLS bool
	// Balancers are the networks of load balancers; see Balanced.
	Balancers []netip.Prefix
}

// A Reactor runs the event loops of a server, and accepts its connections. Any goroutine
// may call its methods.
type Reactor struct {
	gnet.BuiltinEventEngine
	opts Options
	host *session.Host

	client *gnet.Client
	loops  map[gnet.EventLoop]*eventLoop // all of them; read only once started
	wakers []*waker
	// unknown is the error if gnet's event loop is not the type that pollerOf knows; read
	// only once started.
	unknown error
	yields  bool // the event loops yield their processors; see session.Loop.MustYield

	limit    atomic.Pointer[connectionLimit]
	seats    seats
	behind   atomic.Int64 // connections with output that their sockets did not take
	notifier *notifier

	handshakes *handshakes // of clients with TLS
	headers    int         // the most incomplete headers of balancers, for each listener

	// afterFunc is time.AfterFunc, except in tests.
	afterFunc func(time.Duration, func()) *time.Timer

	mu        sync.Mutex           // guards what follows
	started   bool                 // all loops exist, and accept connections
	detached  map[*socket]struct{} // sockets with a descriptor of ours
	listeners map[net.Listener]served
	refused   refused
	accepting sync.WaitGroup // calls of Serve and Take
}

// New makes a Reactor that does nothing yet.
func New(o Options) *Reactor {
	r := &Reactor{
		opts:      o,
		host:      o.Host,
		loops:     make(map[gnet.EventLoop]*eventLoop),
		notifier:  new(notifier),
		afterFunc: time.AfterFunc,
		detached:  make(map[*socket]struct{}),
		listeners: make(map[net.Listener]served),
		refused:   refused{fronts: make(map[session.Front]struct{})},
	}
	r.handshakes = newHandshakes(o.Host, o.Loops, descriptors())
	if o.TLS {
		r.opts.OtherDescriptors += r.handshakes.most
		if os.Getenv("GOMAXPROCS") == "" {
			r.handshakes.procs = slotsFor(o.Loops)
		}
	}
	if len(o.Balancers) > 0 {
		r.headers = max(1, r.handshakes.most/listenersMost)
		r.opts.OtherDescriptors += listenersMost * r.headers
	}
	r.setLimit(r.opts.limitOf(descriptors()))
	return r
}

// Start starts the event loops.
func (r *Reactor) Start() error {
	client, err := gnet.NewClient(r,
		gnet.WithNumEventLoop(r.opts.Loops),
		gnet.WithTCPNoDelay(gnet.TCPDelay), // net has set TCP_NODELAY on accepting
		gnet.WithLogger(gnetLog{r.host.Log}))
	if err == nil {
		err = client.Start()
	}
	if err != nil {
		return fmt.Errorf("event loops: %w", err)
	}
	r.client = client
	r.warnIfFewer(r.opts.MaxConnections)
	r.yields = runtime.GOMAXPROCS(0) <= r.opts.Loops
	err = r.notifier.start()
	if err == nil {
		err = r.startWakers()
	}
	if err != nil {
		client.Stop()
		r.stopWakers()
		r.notifier.stop()
		return fmt.Errorf("event loops: %w", err)
	}
	r.mu.Lock()
	r.started = true
	r.mu.Unlock()
	return nil
}

// gnetLog forwards gnet's log. gnet's info lines describe its internals, so they become debug
// lines.
type gnetLog struct{ log *slog.Logger }

func (g gnetLog) Debugf(f string, a ...any) { g.log.Debug("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Infof(f string, a ...any)  { g.log.Debug("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Warnf(f string, a ...any)  { g.log.Warn("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Errorf(f string, a ...any) { g.log.Error("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Fatalf(f string, a ...any) { g.log.Error("gnet: " + fmt.Sprintf(f, a...)) }

// The shortest and the longest delay before accepting is retried, after descriptors or memory
// have run out.
const (
	retryMin = 5 * time.Millisecond
	retryMax = 200 * time.Millisecond
)

// Messages for the log.
const (
	complaintFull    = "the connection limit is reached: new clients wait"
	complaintRefused = "refused a connection: the connection limit is reached"
	complaintAccept  = "cannot accept connections; retrying"
	complaintLost    = "could not serve a new connection"
)

// Serve accepts connections from l, a *net.TCPListener, *net.UnixListener or the result of Secure
// or Balanced, until Shutdown or Refuse; f makes their sessions. The reactor owns l. Several listeners may be served at once.
// Serve returns when l is closed; after Shutdown or Refuse it returns nil.
//
// Connections above Options.MaxConnections or SetMaxConnections are closed at once. Without such
// a limit, the number of descriptors is the limit, and further clients wait in the backlog until
// others disconnect. They also wait there when descriptors or memory run out for another reason.
// Accepting never stops because of errors.
func (r *Reactor) Serve(l net.Listener, f session.Front) error {
	r.mu.Lock()
	if r.refused.has(f) {
		r.mu.Unlock()
		return l.Close()
	}
	r.accepting.Add(1)
	r.mu.Unlock()
	defer r.accepting.Done()
	switch l := l.(type) {
	case *secureListener:
		return r.acceptAll(l, f, r.admitSecure)
	case *balancedListener:
		return r.acceptAll(l, f, func(c net.Conn, f session.Front) { r.Take(c, f, nil) })
	}
	return r.listen(l, f)
}

// A served is a listener under Serve.
type served struct {
	front session.Front
	// close may be called any number of times; open makes the loops accept again. Any
	// goroutine may call either with Reactor.mu held.
	close func()
	open  func()
}

// refused has the fronts that get no new connections.
type refused struct {
	all    bool
	fronts map[session.Front]struct{}
}

// has reports whether new connections of f are refused.
func (d *refused) has(f session.Front) bool {
	_, ok := d.fronts[f]
	return d.all || ok
}

// Refuse refuses new connections of a front, or of all fronts if f is nil, and closes their
// listeners, also listeners that are served later. Open connections continue. It does not wait;
// see AwaitServe.
func (r *Reactor) Refuse(f session.Front) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f == nil {
		r.refused.all = true
	} else {
		r.refused.fronts[f] = struct{}{}
	}
	for _, l := range r.listeners {
		if r.refused.has(l.front) {
			l.close()
		}
	}
}

// AwaitServe waits until every call of Serve has returned.
func (r *Reactor) AwaitServe() { r.accepting.Wait() }

// Errors of Take.
var (
	errNotServing = errors.New("the server does not accept connections now")
	errFull       = errors.New("the connection limit is reached")
)

// Take serves a connection that was accepted elsewhere, a *net.TCPConn, a *net.UnixConn, or one of
// a listener of Balanced, or of Secure or ServeTLS after its handshake. The reactor owns c, even after
// an error. f makes its session. client is the client's address, or nil if the system knows it. A
// connection above the limit is closed, because it cannot wait in
// a backlog.
func (r *Reactor) Take(c net.Conn, f session.Front, client net.Addr) error {
	k := &socket{reactor: r, front: f, client: client}
	if s, ok := c.(*secure); ok {
		k.tls, c = s, s.detach()
	}
	if b, ok := c.(*balanced); ok {
		c = b.TCPConn
		if client == nil {
			client, k.client = b.client, b.client
		}
	}
	defer c.Close()
	from := client
	if from == nil {
		from = c.RemoteAddr()
	}
	r.mu.Lock()
	serves := r.started && !r.refused.has(f)
	if serves {
		r.accepting.Add(1)
	}
	r.mu.Unlock()
	if !serves {
		return errNotServing
	}
	defer r.accepting.Done()
	if !r.seats.take(int64(r.limit.Load().n)) {
		r.reject(from)
		return errFull
	}
	err := r.enroll(c, k)
	if err != nil {
		r.lost()
		r.host.Complain(complaintLost, "conn", session.Remote{Addr: from}, "err", err)
	}
	return err
}

// lost releases the seat of a connection that could not be served after a failed system call.
func (r *Reactor) lost() {
	r.giveUpSeat()
	r.host.CountRejection(session.RejectedLost)
}

// Shutdown stops accepting, waits until the replies to all received commands are sent, or ctx
// ends, and stops the event loops and closes every connection. The Reactor cannot be used
// afterwards.
func (r *Reactor) Shutdown(ctx context.Context) error {
	r.handshakes.stop()
	r.Refuse(nil)
	r.AwaitServe()
	if r.client == nil {
		return nil
	}
	// Most commands are done in the turn that reads them. Operations in busy shards, deferred
	// turns, and replies to slow readers may be left. The replies are checked last, because a
	// finished operation may add one.
	for ctx.Err() == nil && (r.isBusy() || r.behind.Load() > 0) {
		time.Sleep(5 * time.Millisecond)
	}
	err := r.client.Stop()
	r.stopWakers()
	r.mu.Lock()
	left := slices.Collect(maps.Keys(r.detached))
	r.mu.Unlock()
	for _, k := range left { // sockets with output that was not sent in time
		k.loop.Enter()
		k.Drop()
		k.loop.Exit()
	}
	r.notifier.stop()
	return err
}

// isBusy reports whether a loop has pending or deferred work.
func (r *Reactor) isBusy() bool {
	for _, l := range r.loops {
		if l.HasWork() {
			return true
		}
	}
	return false
}

// Connections returns the number of connections, including those being accepted, and how many of
// them have output that their sockets did not take.
func (r *Reactor) Connections() (open, behind int) {
	return int(r.seats.taken.Load()), int(r.behind.Load())
}
