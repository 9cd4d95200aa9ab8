package reactor

import (
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"polystalk/router/session"
)

// Options say how a Reactor is made.
type Options struct {
	// Host is what the loops share, with its log; they are added to it by Start.
	Host *session.Host
	// Loops is the number of event loops, at least 1.
	Loops int
	// MaxConnections is how many clients are served at a time; 0: as many as the limit
	// of descriptors allows.
	MaxConnections int
	// OtherDescriptors are how many the process may need besides those of the event
	// loops, listeners and connections, and a few of every process: its journal's.
	OtherDescriptors int
}

// A Reactor runs the event loops of a server, and accepts its connections. Its methods may
// be called by anyone.
type Reactor struct {
	gnet.BuiltinEventEngine
	opts Options
	host *session.Host

	client *gnet.Client
	loops  map[gnet.EventLoop]*eventLoop // all of them; read only once started
	wakers []*waker
	// strange is a loop of gnet's that is not the known one; read only once started.
	strange error
	yields  bool // the event loops let others have their processors; see session.Loop.MustYield

	limit    atomic.Pointer[connectionLimit]
	seats    seats
	behind   atomic.Int64 // connections with output that was not taken
	notifier *notifier

	// afterFunc is time.AfterFunc, but for tests.
	afterFunc func(time.Duration, func()) *time.Timer

	mu        sync.Mutex           // guards what follows
	started   bool                 // all loops are there: connections may be given to them
	detached  map[*socket]struct{} // those whose descriptor is ours
	listeners map[net.Listener]served
	refused   refused
	accepting sync.WaitGroup // calls of Serve, and of Take
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
	r.setLimit(o.limitOf(descriptors()))
	return r
}

// Start starts the event loops.
func (r *Reactor) Start() error {
	client, err := gnet.NewClient(r,
		gnet.WithNumEventLoop(r.opts.Loops),
		gnet.WithTCPNoDelay(gnet.TCPDelay), // net has set TCP_NODELAY on accepting
		gnet.WithLogger(gnetLog{r.host.Log}))
	if err != nil {
		return fmt.Errorf("event loops: %w", err)
	}
	if err := client.Start(); err != nil {
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

// Connections is how many clients there are, or are about to be, and how many of them have
// output waiting that their sockets did not take.
func (r *Reactor) Connections() (open, behind int) {
	return int(r.seats.taken.Load()), int(r.behind.Load())
}

// gnetLog passes gnet's log on. Its debug and info lines are about its own inside, so they
// are debug here.
type gnetLog struct{ log *slog.Logger }

func (g gnetLog) Debugf(f string, a ...any) { g.log.Debug("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Infof(f string, a ...any)  { g.log.Debug("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Warnf(f string, a ...any)  { g.log.Warn("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Errorf(f string, a ...any) { g.log.Error("gnet: " + fmt.Sprintf(f, a...)) }
func (g gnetLog) Fatalf(f string, a ...any) { g.log.Error("gnet: " + fmt.Sprintf(f, a...)) }
