package router

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
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

// A Server has the shards, the event loops and the connections.
type Server struct {
	cfg   Config // the settings at the start; see Prepare
	log   *slog.Logger
	host  *session.Host // what all connections share
	freed *freedBodies  // large bodies to collect

	beanstalkd *beanstalkd.Front
	gearmand   *gearmand.Front
	fronts     []session.Front  // the protocols, in the order of their calls of session.Host.Base
	reactor    *reactor.Reactor // nil: see NewUnconnected

	life     admin.Life
	operator *admin.Operator
	gate     direct.Gate // where the operator waits for the journal

	journal storage                // nil: jobs are in memory only
	failed  <-chan *commit.Failure // see Failed
	started bool                   // the shards' goroutines run
	leading sync.Mutex             // held while the server begins to serve, or settings are applied

	drain    drain
	retiring atomic.Bool // the server shuts down once no job is left
	unwanted chan bool   // see ShutdownWanted
	quit     chan struct{}
}

// storage keeps jobs. Package restore opens it.
type storage interface {
	commit.Storage
	Close() error
}

// New makes a server. Start starts it.
func New(cfg Config) (*Server, error) {
	s, err := NewUnconnected(cfg)
	if err != nil {
		return nil, err
	}
	o := reactor.Options{
		Host: s.host, Loops: s.cfg.Loops, MaxConnections: s.cfg.MaxConnections,
		OtherDescriptors: s.cfg.OtherDescriptors, TLS: s.cfg.TLS, Balancers: s.cfg.Balancers,
	}
	if s.cfg.Journal != nil {
		o.OtherDescriptors += restore.Descriptors
	}
	s.reactor = reactor.New(o)
	s.operator = s.NewOperator(nil)
	return s, nil
}

// NewUnconnected makes a server without event loops and goroutines: the caller adds loops to its
// Host, and passes them input. Serve, Take and Stop need event loops.
func NewUnconnected(cfg Config) (*Server, error) {
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
	naming := ops.Naming{Fold: gearman.FoldFunction, Shown: shownName}
	places := ops.MapOptions{Shards: cfg.Shards, Naming: naming, BodyFreed: s.bodyFreed}
	if cfg.Access != nil {
		places.ClassOf = cfg.Access.Class
	}
	h.Map = ops.NewMap(places)
	h.Clock, h.Log, h.Access = cfg.Clock, cfg.Log, cfg.Access
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

// shownName implements ops.Naming. A name that only a Gearman client can use is foreign, and
// list-tubes shows it in quotes.
func shownName(name string) (n int, foreign bool) {
	if beanstalk.ValidTubeName([]byte(name)) {
		return len(name), false
	}
	return len(gearman.AppendQuoted(nil, []byte(name))), true
}

// newCore makes the core of a shard.
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

// bodyFreed counts a large body that no job has any more. The caller owns a shard.
func (s *Server) bodyFreed(body core.Large) {
	n := 0
	for _, p := range body {
		s.host.Account.Orphan(p)
		n += cap(p)
	}
	s.freed.add(n)
}

// NewOperator makes an operator, which calls turn, if not nil, instead of sleeping: see
// direct.Caller.TakeTurns.
func (s *Server) NewOperator(turn func()) *admin.Operator {
	o := admin.Options{
		Host: s.host, Life: &s.life, Gate: &s.gate, Fronts: s.fronts, SetDraining: s.drain.want,
		MaxJobSize: s.beanstalkd.MaxJobSize, Turn: turn, Cluster: s.cfg.Cluster,
		Followed:        func() commit.Storage { return s.journal },
		LoopsTurn:       func(context.Context) error { return nil },
		ConnectionLimit: func() (int, string) { return s.cfg.MaxConnections, "" },
	}
	if s.reactor != nil {
		o.LoopsTurn, o.ConnectionLimit = s.reactor.Alive, s.reactor.ConnectionLimit
	}
	return admin.New(o)
}

// Host returns what all connections share.
func (s *Server) Host() *session.Host { return s.host }

// Fronts returns the protocols: beanstalkd, Gearman.
func (s *Server) Fronts() []session.Front { return s.fronts }

// Operator returns the server's operator. It also works before Start, and reports the progress of
// the start.
func (s *Server) Operator() *admin.Operator { return s.operator }

// Alive returns nil if every event loop has a turn, and every shard can be owned, within a second;
// else the error names the others. HTTP probes get the same result. Any goroutine may call it at
// any time.
func (s *Server) Alive() error {
	var failed []string
	for _, c := range s.operator.Alive().Checks {
		if c.Detail != "" {
			failed = append(failed, c.Detail)
		}
	}
	if failed == nil {
		return nil
	}
	return errors.New(strings.Join(failed, "; "))
}

// Serve serves clients of the beanstalkd protocol that connect to l, a *net.TCPListener or
// *net.UnixListener. The server owns l until Shutdown or Retire. It may serve several
// listeners: see reactor.Reactor.Serve.
func (s *Server) Serve(l net.Listener) error { return s.reactor.Serve(l, s.beanstalkd) }

// ServeGearman is Serve for Gearman clients.
func (s *Server) ServeGearman(l net.Listener) error { return s.reactor.Serve(l, s.gearmand) }

// Balanced returns a listener for Serve, ServeGearman, Secure and other packages. It expects a header
// of the PROXY protocol from Config.Balancers.
func (s *Server) Balanced(l net.Listener) net.Listener { return s.reactor.Balanced(l) }

// Secure returns a listener for Serve and ServeGearman whose clients use TLS. It is also a listener for
// a cluster's follower: see reactor.Reactor.Secure.
func (s *Server) Secure(l net.Listener, config func() *tls.Config, revoked func([]*x509.Certificate) bool) net.Listener {
	return s.reactor.Secure(l, config, revoked)
}

// Take serves a client of another server, or one that was accepted elsewhere in this process.
// The server owns c even after an error. protocol is the name of a session.Front. client is a
// session.Forwarded for a client of another server, or nil. See reactor.Reactor.Take.
func (s *Server) Take(c net.Conn, protocol string, client net.Addr) error {
	for _, f := range s.fronts {
		if f.Name() == protocol {
			return s.reactor.Take(c, f, client)
		}
	}
	c.Close()
	return fmt.Errorf("unknown protocol %q", protocol)
}

// ForCluster sets the number of the server's cluster, before it serves clients. Its replies
// then do not name its host.
func (s *Server) ForCluster(number uint64) { s.gearmand.ForCluster(number) }

// Gearman returns the Gearman settings with defaults filled in.
func (s *Server) Gearman() GearmanConfig { return s.gearmand.Config() }

// ConnectionLimit returns how many clients the server serves at a time, and what limits it.
func (s *Server) ConnectionLimit() (n int, from string) { return s.reactor.ConnectionLimit() }

// ConnectionLimitOf returns the limit if each client takes each descriptors.
func (s *Server) ConnectionLimitOf(each int) int { return s.reactor.ConnectionLimitOf(each) }
