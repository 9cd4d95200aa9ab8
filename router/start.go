package router

import (
	"time"

	"polystalk/router/restore"
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
	for _, sh := range s.host.Map.Shards() {
		sh.SetSubmitOptions(submitOptions(&gear)) // they may have changed since the start
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
