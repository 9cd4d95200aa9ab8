package router

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"polystalk/router/admin"
	"polystalk/router/beanstalkd"
	"polystalk/router/direct"
	"polystalk/router/gearmand"
	"polystalk/router/ops"
	"polystalk/router/reactor"
	"polystalk/router/restore"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
)

// A Server is the whole of it: shards, event loops, connections.
type Server struct {
	cfg   Config // as it was made; see Apply
	log   *slog.Logger
	host  *session.Host // what all connections share
	freed *freedBodies  // large bodies to be collected

	beanstalkd *beanstalkd.Front
	gearmand   *gearmand.Front
	fronts     []session.Front  // the protocols that are spoken, in the order in which their kinds are counted
	reactor    *reactor.Reactor // nil in a Driven

	life     admin.Life
	operator *admin.Operator
	gate     direct.Gate // where the operator waits for the journal

	journal storage                // nil: jobs are in memory only
	failed  <-chan *commit.Failure // its end
	started bool                   // the shards' goroutines run
	leading sync.Mutex             // held while the server begins to serve, or is told of settings

	drain    drain
	retiring atomic.Bool // the server ends once no job is left
	unwanted chan bool   // see ShutdownWanted
	quit     chan struct{}
}

// storage is what keeps jobs, opened by package restore.
type storage interface {
	commit.Storage
	Close() error
}

// New makes a server that does nothing yet.
func New(cfg Config) (*Server, error) {
	s, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	s.reactor = reactor.New(s.reactorOptions())
	s.operator = admin.New(admin.Options{
		Host: s.host, Life: &s.life, Gate: &s.gate, Fronts: s.fronts,
		LoopsTurn: s.reactor.Alive, ConnectionLimit: s.reactor.ConnectionLimit, SetDraining: s.drain.want,
		MaxJobSize: s.beanstalkd.MaxJobSize, Cluster: cfg.Cluster,
		Followed: func() commit.Storage { return s.journal },
	})
	return s, nil
}

// reactorOptions is how the event loops are run.
func (s *Server) reactorOptions() reactor.Options {
	o := reactor.Options{
		Host: s.host, Loops: s.cfg.Loops, MaxConnections: s.cfg.MaxConnections,
		OtherDescriptors: s.cfg.OtherDescriptors,
	}
	if s.cfg.Journal != nil {
		o.OtherDescriptors += restore.Descriptors
	}
	return o
}

// newServer makes a server without a network.
func newServer(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	cfg.fill(unix.ByteSliceToString(name.Nodename[:]))
	s := &Server{
		cfg:      cfg,
		log:      cfg.Log,
		freed:    newFreedBodies(),
		unwanted: make(chan bool, 1),
		quit:     make(chan struct{}),
	}
	h := session.NewHost(cfg.ConnectionMemory)
	h.Map = ops.NewMap(ops.MapOptions{Shards: cfg.Shards, Naming: tubeNaming, BodyFreed: s.bodyFreed})
	h.Clock, h.Log = cfg.Clock, cfg.Log
	h.HeldMost, h.LookMost = session.HeldMax, ops.LookMost
	h.BoundConnections(cfg.ConnectionMemory)
	s.host, s.drain.host = h, h
	for i := range cfg.Shards {
		h.Map.Add(shard.New(i, s.newCore(i), cfg.Clock.Stamp))
	}
	var err error
	s.beanstalkd, err = beanstalkd.New(h, beanstalkd.Config{
		MaxJobSize: cfg.MaxJobSize, BinlogMaxSize: cfg.BinlogMaxSize, Version: cfg.Version,
	})
	s.gearmand = gearmand.New(h, cfg.Gearman, s.wantShutdown)
	s.fronts = []session.Front{s.beanstalkd, s.gearmand}
	return s, err
}

// newCore makes the machine of a shard.
func (s *Server) newCore(i int) *core.Core {
	m := s.host.Map
	machine := core.New(m.Directory())
	if i == m.OfTube([]byte(beanstalkd.DefaultTube)) {
		machine.Pin(beanstalkd.DefaultTube)
	}
	opts := submitOptions(&s.cfg.Gearman)
	opts.Hash = new(maphash.Hash)
	machine.SetSubmitOptions(opts)
	return machine
}

// submitOptions are what a shard is told of how Gearman is spoken.
func submitOptions(g *GearmanConfig) core.SubmitOptions {
	return core.SubmitOptions{Retries: g.Retries, Wakeup: g.Wakeup, BuryFailed: g.BuryFailed}
}

// bodyFreed hears of a large body that no job has any more. A shard is owned.
func (s *Server) bodyFreed(body core.Large) {
	n := 0
	for _, p := range body {
		s.host.Account.Orphan(p)
		n += cap(p)
	}
	s.freed.add(n)
}

// Start reads the journal, if there is one, which may take its time, and starts the shards'
// goroutines and the event loops. A server that may be one of several goes on by itself only
// once it leads: see Follow.
func (s *Server) Start() error {
	if s.cfg.Journal == nil {
		return s.serve()
	}
	f, err := s.Follow()
	if err != nil {
		return err
	}
	return f.Lead(nil)
}

// Fail notes that the server cannot go on: probes say so, and operators' requests no longer wait for
// the journal.
func (s *Server) Fail(err error) {
	s.life.Fail(err)
	s.gate.Fail()
}

// fail hears of the error that has ended the journal, before it is delivered.
func (s *Server) fail(f *commit.Failure) { s.Fail(f) }

// serve starts what answers clients.
func (s *Server) serve() error {
	shards := s.host.Map.Shards()
	s.started = true
	for _, sh := range shards {
		sh.Start()
	}
	go reclaim(s.freed, s.quit)
	go s.host.KeepWithin(s.quit)
	go s.host.Clock.Watch(s.quit, shards)
	if err := s.reactor.Start(); err != nil {
		return err
	}
	s.life.Serve()
	return nil
}

// Operator does what operators ask for. It is there before Start, and tells how far that is.
func (s *Server) Operator() *admin.Operator { return s.operator }

// target is what the journal's jobs come back into.
func (s *Server) target() *restore.Target {
	return &restore.Target{Places: s.host.Map, Clock: s.host.Clock, Log: s.log, Workers: s.cfg.Loops}
}

// Failed delivers the error that ended the journal: nothing more is acknowledged, and the
// process should end, or begin anew, as its cause says. It is nil without a journal, and
// before Start or Follow has returned.
func (s *Server) Failed() <-chan *commit.Failure { return s.failed }

// Serve serves clients of beanstalkd's protocol that connect to l, a *net.TCPListener or
// *net.UnixListener, which is the server's from then on, until Shutdown or Retire. Several
// listeners may be served at once; see reactor.Reactor.Serve.
func (s *Server) Serve(l net.Listener) error { return s.reactor.Serve(l, s.beanstalkd) }

// ServeGearman is Serve for clients that speak Gearman.
func (s *Server) ServeGearman(l net.Listener) error { return s.reactor.Serve(l, s.gearmand) }

// Take serves a client whose connection has come by way of another server: c, a *net.TCPConn
// or *net.UnixConn, is this one's from then on, also on an error; protocol is the name of a
// session.Front, and client the client's address there, or nil for one of this server that
// somebody has accepted for it. See reactor.Reactor.Take.
func (s *Server) Take(c net.Conn, protocol string, client net.Addr) error {
	for _, f := range s.fronts {
		if f.Name() == protocol {
			if client != nil {
				client = session.Forwarded{Addr: client}
			}
			return s.reactor.Take(c, f, client)
		}
	}
	c.Close()
	return fmt.Errorf("no protocol of the name %q is spoken here", protocol)
}

// ForCluster says of which cluster the server is one, before it serves clients: what it tells
// them does not name its host.
func (s *Server) ForCluster(number uint64) { s.gearmand.ForCluster(number) }

// Gearman is how that is spoken, defaults filled in.
func (s *Server) Gearman() GearmanConfig { return s.gearmand.Config() }

// ConnectionLimit is how many clients are served at a time, and, for people, what says so.
func (s *Server) ConnectionLimit() (n int, from string) { return s.reactor.ConnectionLimit() }

// ConnectionLimitOf is how many clients there may be at a time of whom each takes so many
// descriptors.
func (s *Server) ConnectionLimitOf(each int) int { return s.reactor.ConnectionLimitOf(each) }

// Drain makes every put from now on answer DRAINING, and every submission of a Gearman
// client an ERROR.
func (s *Server) Drain() { s.drain.want(true) }

// Shutdown stops accepting, lets what was received be answered as long as ctx allows, and
// closes every connection and the journal. Without one, jobs are gone with the process.
func (s *Server) Shutdown(ctx context.Context) error {
	return errors.Join(s.Stop(ctx), s.Close())
}

// Stop is Shutdown but for the journal: what was acknowledged is in it, and nobody changes
// anything any more. Close comes next. For a server that follows, or never has come to that, it
// may be Close alone.
func (s *Server) Stop(ctx context.Context) error {
	s.life.Stop()
	err := s.reactor.Shutdown(ctx)
	close(s.quit)
	if s.started {
		for _, sh := range s.host.Map.Shards() {
			sh.Stop()
		}
	}
	return err
}

// Close closes the journal of a server that was stopped.
func (s *Server) Close() error {
	if s.journal == nil {
		return nil
	}
	if err := s.journal.Close(); err != nil {
		return &JournalError{err}
	}
	return nil
}
