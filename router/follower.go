package router

import (
	"time"

	"polystalk/router/restore"
	"polystalk/shard/commit"
	"polystalk/shard/record"
)

// A Follower is a server that may be one of several, between the stages of its start:
//
//	Follow         ─► the journal is read and open, and the shards are as it says
//	Apply, Settle  ─► the same of what another server has written since
//	Lead           ─► what happens in the shards from now on is recorded; clients may be served
//
// A server that is alone goes through them in a row; see Server.Start. One goroutine uses it.
// Who follows has no clients: Serve works once Lead has returned.
type Follower struct {
	srv      *Server
	recovery *restore.Recovery
}

// Follow reads the journal, which must be configured and may take its time, and opens it.
// Shutdown ends the server at any stage. Errors are of type *JournalError.
func (s *Server) Follow() (*Follower, error) {
	t := s.target()
	t.Progress, t.Failed = s.life.Read, s.fail
	r, err := t.Recover(s.cfg.Journal, func() {
		s.host.Wake()
		s.gate.Wake()
	})
	if err != nil {
		return nil, &JournalError{err}
	}
	return s.follow(r), nil
}

// Follow is Server.Follow: now is what the journal notes as the time. It is called before any
// session is opened. After an error nothing may be used any more.
func (d *Driven) Follow(now func() time.Time) (*Follower, error) {
	t := d.srv.target()
	t.Failed = d.srv.fail
	r, err := t.RecoverByHand(d.srv.cfg.Journal, now, d.srv.host.Wake)
	if err != nil {
		return nil, &JournalError{err}
	}
	return d.srv.follow(r), nil
}

// follow has the shards be as the journal says.
func (s *Server) follow(r *restore.Recovery) *Follower {
	r.Follow()
	s.journal, s.failed = r.Journal(), r.Failed()
	s.life.Follow()
	return &Follower{srv: s, recovery: r}
}

// Journal is the server's.
func (f *Follower) Journal() *commit.Journal { return f.recovery.Journal() }

// Apply takes a record that another server has written, in the order in which it was.
func (f *Follower) Apply(rec *record.Record) error { return f.recovery.Apply(rec) }

// Settle brings into order what was applied. It is to be called now and then: its cost, and
// that of Lead, is linear in what was applied since.
func (f *Follower) Settle() { f.recovery.Settle() }

// Lead has the server go on by itself: the journal commits what happens in the shards. Those
// of a Server start, and its event loops; who has a Driven has the shards Tick from now on.
// It is called once. After an error the server can only be shut down; those of the journal
// are of type *JournalError.
//
// least, unless it is nil, says on which commit whatever is answered from now on depends at
// least, also what has changed nothing; see session.Host.
func (f *Follower) Lead(least func() uint64) error {
	s := f.srv
	if err := f.recovery.Lead(); err != nil {
		return &JournalError{err}
	}
	s.leading.Lock()
	defer s.leading.Unlock()
	gear := s.gearmand.Config()
	for _, sh := range s.host.Map.Shards() {
		sh.SetSubmitOptions(submitOptions(&gear)) // they may be others than at the start
	}
	s.host.Journal, s.host.LeaseFence = s.journal, least
	if s.reactor == nil {
		s.life.Serve()
		return nil
	}
	return s.serve()
}
