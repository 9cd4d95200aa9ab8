package router

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"hash/maphash"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/router/clock"
	"polystalk/router/memory"
	"polystalk/router/placement"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
)

// A Server is the whole of it: shards, event loops, connections.
type Server struct {
	cfg      Config
	log      *slog.Logger
	places   *placement.Map
	draining atomic.Bool     // no jobs are taken
	drained  atomic.Bool     // … and never again: Drain was called
	journal  commit.Storage  // nil: none
	failed   <-chan error    // … its end
	heldMax  int             // of each session; the constant, but for tests
	acct     *memory.Account // what all connections keep
	freed    *memory.Freed   // large bodies to be collected
	lookMax  int             // of each survey; likewise
	bodies   *bodyRoom       // for large ones, half of that

	clock *clock.Clock
	base  core.Time // clock at the start
	id    string
	uname unix.Utsname

	gearDir  gearDirectory
	unwanted chan bool   // see ShutdownWanted
	leaving  atomic.Bool // … once no job is left

	net  *network
	quit chan struct{} // ends reclaim

	mu    sync.Mutex
	loops []*loop
	told  atomic.Pointer[[]*loop] // the same

	quietUntil atomic.Int64 // complain: a time of clock.Awake
	suppressed atomic.Uint64
}

// New makes a server that does nothing yet.
func New(cfg Config) (*Server, error) {
	s, err := newServer(cfg, clock.System())
	if err != nil {
		return nil, err
	}
	s.net = newNetwork(s)
	return s, nil
}

// newServer makes a server without a network.
func newServer(cfg Config, k *clock.Clock) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.fill()
	s := &Server{
		cfg:     cfg,
		log:     cfg.Log,
		heldMax: heldMax,
		lookMax: lookMax,
		acct:    memory.NewAccount(cfg.ConnectionMemory - cfg.ConnectionMemory/garbagePart),
		freed:   memory.NewFreed(),
		clock:   k,
		quit:    make(chan struct{}),

		unwanted: make(chan bool, 1),
	}
	s.places = placement.New(placement.Options{Shards: cfg.Shards, Naming: tubeNaming, BodyFreed: s.bodyFreed})
	s.bodies = newBodyRoom(s.acct.Bound / 2)
	s.told.Store(new([]*loop))
	s.base = k.Now()
	var id [8]byte
	rand.Read(id[:]) // never fails
	s.id = hex.EncodeToString(id[:])
	if err := unix.Uname(&s.uname); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	if s.cfg.Gearman.Prefix == "" {
		host := unix.ByteSliceToString(s.uname.Nodename[:])
		s.cfg.Gearman.Prefix = "H:" + host[:min(len(host), gearman.MaxPrefix-len("H:"))]
	}
	for i := range cfg.Shards {
		machine := core.New(s.places.Directory())
		if i == s.places.OfTube(defaultTube) {
			machine.Pin(string(defaultTube))
		}
		gear := &s.cfg.Gearman
		machine.SetSubmitOptions(core.SubmitOptions{
			Retries: gear.Retries, Wakeup: gear.Wakeup, BuryFailed: gear.BuryFailed, Hash: new(maphash.Hash),
		})
		s.places.Add(shard.New(i, machine, k.Stamp))
	}
	return s, nil
}

// bodyFreed hears of a large body that no job has any more. A shard is owned.
func (s *Server) bodyFreed(body core.Large) {
	n := 0
	for _, p := range body {
		s.acct.Orphan(p)
		n += cap(p)
	}
	s.freed.Add(n)
}

// Start reads the journal, if there is one, which may take its time, and starts
// the shards' goroutines and the event loops.
func (s *Server) Start() error {
	if s.cfg.Journal != nil {
		j, failed, err := s.target().Open(s.cfg.Journal, s.wakeLoops)
		if err != nil {
			return &JournalError{err}
		}
		s.journal, s.failed = j, failed
	}
	for _, sh := range s.places.Shards() {
		sh.Start()
	}
	go memory.Reclaim(s.freed, s.quit)
	go s.keepWithin(s.acct.High(), s.quit)
	go s.clock.Watch(s.quit, s.places.Shards())
	return s.net.start()
}

// Drain makes every put from now on answer DRAINING, and every submission of a
// Gearman client an ERROR.
func (s *Server) Drain() {
	s.drained.Store(true)
	s.draining.Store(true)
}

// Shutdown stops accepting, lets what was received be answered as long as
// ctx allows, and closes every connection and the journal. Without one, jobs
// are gone with the process.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.net.shutdown(ctx)
	close(s.quit)
	for _, sh := range s.places.Shards() {
		sh.Stop()
	}
	if s.journal != nil {
		if e := s.journal.Close(); e != nil {
			err = errors.Join(err, &JournalError{e})
		}
	}
	return err
}

// addLoop registers an event loop's side; called as loops are met.
func (s *Server) addLoop(l *loop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loops = append(s.loops, l)
	told := slices.Clone(s.loops)
	s.told.Store(&told)
}

// stats completes the sums of the shards with what the loops count.
func (s *Server) stats(n *core.Counts) *beanstalk.ServerStats {
	st := &beanstalk.ServerStats{
		CurrentJobsUrgent:   n.Urgent,
		CurrentJobsReady:    n.Ready,
		CurrentJobsReserved: n.Reserved,
		CurrentJobsDelayed:  n.Delayed,
		CurrentJobsBuried:   n.Buried,
		JobTimeouts:         n.Timeouts,
		TotalJobs:           n.Total,
		MaxJobSize:          uint64(s.cfg.MaxJobSize),
		CurrentTubes:        uint64(s.places.Tubes().Len()),
		PID:                 os.Getpid(),
		Version:             s.cfg.Version,
		Uptime:              int64((s.clock.Now() - s.base) / core.Second),
		BinlogMaxSize:       s.cfg.BinlogMaxSize,
		Draining:            s.draining.Load(),
		ID:                  s.id,
		Hostname:            unix.ByteSliceToString(s.uname.Nodename[:]),
		OS:                  unix.ByteSliceToString(s.uname.Version[:]),
		Platform:            unix.ByteSliceToString(s.uname.Machine[:]),
	}
	if b := s.binlog(); b.Current > 0 {
		st.BinlogOldestIndex, st.BinlogCurrentIndex = int(b.Oldest), int(b.Current)
		st.BinlogRecordsMigrated, st.BinlogRecordsWritten = int64(b.Migrated), int64(b.Records)
	}
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) == nil {
		st.RusageUtime = time.Duration(ru.Utime.Nano())
		st.RusageStime = time.Duration(ru.Stime.Nano())
	}
	var conns, producers, workers, waiting int64
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		conns += l.connections.Load()
		producers += l.producers.Load()
		workers += l.workers.Load()
		waiting += l.waiting.Load()
		st.TotalConnections += l.total.Load()
		for k := range l.cmds {
			st.Cmd[k] += l.cmds[k].Load()
		}
	}
	st.CurrentConnections = uint64(conns)
	st.CurrentProducers = uint64(producers)
	st.CurrentWorkers = uint64(workers)
	st.CurrentWaiting = uint64(waiting)
	return st
}

// complainEvery bounds what clients can make the server log.
const complainEvery = time.Second

// complain logs a warning about clients or limits, once a second at most.
func (s *Server) complain(msg string, args ...any) {
	now := int64(s.clock.Awake())
	until := s.quietUntil.Load()
	if now < until || !s.quietUntil.CompareAndSwap(until, now+int64(complainEvery)) {
		s.suppressed.Add(1)
		return
	}
	if n := s.suppressed.Swap(0); n > 0 {
		args = append(args, "suppressed", n)
	}
	s.log.Warn(msg, args...)
}
