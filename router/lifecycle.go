package router

import (
	"context"
	"errors"
	"sync"
	"time"

	"polystalk/router/direct"
	"polystalk/router/restore"
	"polystalk/router/session"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// A JournalError means that the journal could not be read, or has failed. Changes that were
// not acknowledged may be lost.
type JournalError struct{ Err error }

func (e *JournalError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *JournalError) Unwrap() error { return e.Err }

// Start reads the journal, if there is one, which may take long, and starts the goroutines of
// the shards and the event loops. A server of a cluster uses Follow instead.
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

// serve starts everything that serves clients.
func (s *Server) serve() error {
	shards := s.host.Map.Shards()
	s.started = true
	for _, sh := range shards {
		sh.Start()
	}
	go collectHeap(s.freed, s.quit)
	go s.host.KeepWithin(s.quit)
	go s.host.Clock.Watch(s.quit, shards)
	if err := s.reactor.Start(); err != nil {
		return err
	}
	s.life.Serve()
	return nil
}

// A Follower is a server of a cluster while it starts:
//
//	Follow         ─► the journal is read and open, and the shards are in its state
//	Apply, Settle  ─► the shards apply the records of the leader
//	Lead           ─► the journal records changes of the shards; clients may be served
//
// One goroutine uses it. It has no clients: Serve works once Lead has returned.
type Follower struct {
	*restore.Recovery
	srv *Server
}

// Follow reads the configured journal, which may take long, and opens it. Shutdown ends the
// server at any stage. Errors are of type *JournalError.
func (s *Server) Follow() (*Follower, error) {
	t := s.target()
	t.Progress = s.life.Read
	return s.follow(t.Recover(s.cfg.Journal, commit.Options{Options: wal.Options{Now: time.Now}, Notify: func() {
		s.host.Wake()
		s.gate.Wake()
	}}))
}

// FollowByHand is Follow for a journal without goroutines, with the clock now: the caller calls its
// Commit and Tend. Call it before any session is opened.
func (s *Server) FollowByHand(now func() time.Time) (*Follower, error) {
	return s.follow(s.target().Recover(s.cfg.Journal, commit.Options{Options: wal.Options{Now: now, Manual: true}, Notify: s.host.Wake}))
}

// target returns the restore.Target for the journal's jobs.
func (s *Server) target() *restore.Target {
	return &restore.Target{
		Places: s.host.Map, Clock: s.host.Clock, Log: s.log, Workers: s.cfg.Loops,
		Failed: func(f *commit.Failure) { s.Fail(f) },
	}
}

func (s *Server) follow(r *restore.Recovery, err error) (*Follower, error) {
	if err != nil {
		return nil, &JournalError{err}
	}
	r.Follow()
	s.journal, s.failed = r.Journal(), r.Failed()
	s.life.Follow()
	return &Follower{r, s}, nil
}

// Lead makes the server serve: the journal commits changes of the shards, and the goroutines of
// shards and event loops start. For a server without event loops, the caller Ticks the shards
// instead. Lead is called once. After an error, which is a *JournalError if the journal has
// failed, the server can only be shut down.
//
// fence, if not nil, returns the commit that every reply must wait for, including replies to
// commands that change nothing; see session.Host.
func (f *Follower) Lead(fence func() uint64) error {
	s := f.srv
	if err := f.Recovery.Lead(); err != nil {
		return &JournalError{err}
	}
	s.leading.Lock()
	defer s.leading.Unlock()
	gear := s.gearmand.Config()
	policies := s.host.Map.Shard(s.host.Map.OfSlot(0)).RecordedPolicies()
	for _, sh := range s.host.Map.Shards() {
		sh.SetSubmitOptions(submitOptions(&gear)) // they may have changed since the start
		sh.InstallPolicies(policies)
	}
	s.host.Journal, s.host.LeaseFence = s.journal, fence
	if s.reactor == nil {
		s.life.Serve()
		return nil
	}
	return s.serve()
}

// Fail notes that the server cannot go on: probes report it, and operators' requests no longer
// wait for the journal.
func (s *Server) Fail(err error) {
	s.life.Fail(err)
	s.gate.Fail()
}

// Failed returns a channel that delivers the failure of the journal. After a failure nothing is
// acknowledged. The process should end or restart, depending on the cause. Failed returns nil
// without a journal, and before Start or Follow has returned.
func (s *Server) Failed() <-chan *commit.Failure { return s.failed }

// A drain decides whether new jobs are refused, for one of two independent reasons.
type drain struct {
	host *session.Host // its Draining is kept up to date

	mu     sync.Mutex
	wanted bool // Drain or an operator has requested it
	ending bool // the last job is gone; see awaitLastJob
}

// want makes the server refuse new jobs, or accept them again unless ending is set.
func (d *drain) want(on bool) { d.set(&d.wanted, on) }

func (d *drain) set(reason *bool, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*reason = on
	d.host.Draining.Store(d.wanted || d.ending)
}

// Drain makes every put from now on reply DRAINING, and every submission of a Gearman client
// an ERROR.
func (s *Server) Drain() { s.drain.want(true) }

// ShutdownWanted returns a channel that delivers once: when a client has sent shutdown and gets OK,
// or when no job is left after Retire. The process should call Shutdown and exit with status 0.
func (s *Server) ShutdownWanted() <-chan bool { return s.unwanted }

// Retire refuses new connections of all protocols, and makes ShutdownWanted deliver when no job
// is ready, delayed or reserved; buried jobs do not count. Until then, open connections continue
// and may put new jobs. Source: gearmand's SIGUSR1.
func (s *Server) Retire() {
	s.retire(nil)
	s.reactor.AwaitServe()
}

// wantShutdown runs a client's shutdown command: at once, or, if graceful, when no job is left.
// Graceful shutdown refuses new Gearman connections.
func (s *Server) wantShutdown(graceful bool) {
	switch {
	case s.reactor == nil: // a server from NewUnconnected ignores it
	case graceful:
		s.retire(s.gearmand)
	default:
		s.sayUnwanted()
	}
}

// retire refuses new connections of a protocol, or of all, and waits for the last job.
func (s *Server) retire(f session.Front) {
	s.reactor.Refuse(f)
	if !s.retiring.Swap(true) {
		go s.awaitLastJob()
	}
}

// gracePoll is how often awaitLastJob looks for jobs.
const gracePoll = 20 * time.Millisecond

func (s *Server) awaitLastJob() {
	caller := direct.New(s.host.Map, s.host.Clock)
	ending := false // new jobs are refused, because the process is about to exit
	for {
		left := hasJobs(caller)
		if !left && ending {
			s.sayUnwanted()
			return
		}
		ending = !left // if it was set, a job has arrived before it
		s.drain.set(&s.drain.ending, ending)
		select {
		case <-s.quit:
			return
		case <-time.After(gracePoll):
		}
	}
}

func (s *Server) sayUnwanted() {
	select {
	case s.unwanted <- true:
	default: // delivered already
	}
}

// hasJobs reports whether any job is ready, delayed or reserved.
func hasJobs(c *direct.Caller) bool {
	n := c.Counts()
	return n.Ready+n.Delayed+n.Reserved > 0
}

// Shutdown stops accepting, waits for the replies to received commands until ctx ends, and closes
// all connections and the journal. Without a journal, jobs are lost.
func (s *Server) Shutdown(ctx context.Context) error {
	return errors.Join(s.Stop(ctx), s.Close())
}

// Stop is Shutdown without the last step: Close must follow, to close the journal, which does not
// change any more. A server that has never served clients may be closed without Stop.
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

// Close closes the journal of a stopped server.
func (s *Server) Close() error {
	if s.journal == nil {
		return nil
	}
	if err := s.journal.Close(); err != nil {
		return &JournalError{err}
	}
	return nil
}
