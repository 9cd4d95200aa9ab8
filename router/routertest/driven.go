// Package routertest drives a server by hand, for the simulator and for tests.
package routertest

import (
	"iter"
	"maps"
	"time"

	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/router/direct"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A Driven is a server without network, clock and goroutines: the caller passes input and lets
// time pass.
//
// One goroutine uses a Driven. The shards are not started: call Tick of shards that are Due. Call
// GoOn soon after a loop's wake.
type Driven struct {
	Server   *router.Server
	sessions map[*Session]struct{} // not gone yet
}

// New makes a server with the clock now, which must not step back, and the time of day, which may
// step. slept is the total time of suspends, which now does not include; a server notices a suspend
// by the time of day. New ignores cfg.Clock.
func New(cfg router.Config, now, day, slept func() core.Time) (*Driven, error) {
	cfg.Clock = ops.NewClock(now, func() (core.Time, core.Time) { return now(), day() }, slept)
	srv, err := router.NewUnconnected(cfg)
	if err != nil {
		return nil, err
	}
	return &Driven{Server: srv, sessions: make(map[*Session]struct{})}, nil
}

// A ByHand is a journal without goroutines. Its owner calls Commit after it was Requested, and Tend
// when it is Untended and also periodically, with no shard owned. An error of either ends the
// journal: nothing more is acknowledged.
type ByHand interface {
	Requested() bool
	Commit() error
	Untended() bool
	Tend() error
}

// Keep restores the jobs of the configured journal, and then records changes. Call it before any
// session is opened; now is the journal's time. After an error only Close may be called.
func (d *Driven) Keep(now func() time.Time) (ByHand, error) {
	f, err := d.Server.FollowByHand(now)
	if err != nil {
		return nil, err
	}
	if err := f.Lead(nil); err != nil {
		return nil, err
	}
	return f.Journal(), nil
}

// Stamp sets the times of b to now, for a caller that owns or Ticks shards.
func (d *Driven) Stamp(b *shard.Batch) { d.Server.Host().Clock.Stamp(b) }

// Shards returns the server's shards.
func (d *Driven) Shards() []*shard.Shard { return d.Server.Host().Map.Shards() }

// ShardOf returns the index of a tube's shard.
func (d *Driven) ShardOf(tube string) int { return d.Server.Host().Map.OfTube([]byte(tube)) }

// HoldAtMost sets the cap of held input to n bytes, instead of session.HeldMax.
func (d *Driven) HoldAtMost(n int) { d.Server.Host().HeldMost = n }

// LookAtMost makes a reserve read n tubes of a long watch list in a turn, instead of ops.LookMost.
func (d *Driven) LookAtMost(n int) { d.Server.Host().LookMost = n }

// Close releases the memory of the shards. The Driven cannot be used afterwards.
func (d *Driven) Close() {
	for _, sh := range d.Shards() {
		sh.Close()
	}
}

// NewOperator makes an operator that calls turn instead of sleeping.
func (d *Driven) NewOperator(turn func()) *admin.Operator {
	o := d.Server.NewOperator(turn)
	o.Life().Serve()
	return o
}

// NewCaller makes a caller that calls turn instead of sleeping.
func (d *Driven) NewCaller(turn func()) *direct.Caller {
	c := direct.New(d.Server.Host().Map, d.Server.Host().Clock)
	c.TakeTurns(turn)
	return c
}

// A Loop replaces one event loop: its sessions take turns, and share a Batch.
type Loop struct {
	*session.Loop
	d *Driven
}

// NewLoop adds a loop. The loop calls wake, with no shard owned, when it needs a call of GoOn, after
// all other connections with input had a turn. wake must not call GoOn itself.
func (d *Driven) NewLoop(wake func()) *Loop {
	l := session.NewLoop(d.Server.Host(), wake)
	l.RunAfter(nil)
	return &Loop{l, d}
}

// GoOn runs deferred turns, and delivers messages from other owners.
func (dl *Loop) GoOn() {
	dl.Loop.GoOn(true)
	dl.d.forget()
}

// Open makes a session for a new beanstalkd connection.
func (dl *Loop) Open(c session.Conn) *Session { return dl.openFront(dl.d.Server.Fronts()[0], c) }

// OpenGearman makes a session for a new Gearman connection.
func (dl *Loop) OpenGearman(c session.Conn) *Session { return dl.openFront(dl.d.Server.Fronts()[1], c) }

// openFront makes a session for a new connection of any protocol.
func (dl *Loop) openFront(f session.Front, c session.Conn) *Session {
	s := &Session{dl.Loop.Open(f, c), dl.d}
	dl.d.sessions[s] = struct{}{}
	return s
}

// A Session is one client of a Driven.
type Session struct {
	*session.Session
	d *Driven
}

// Input passes bytes of the client to the server. It does not keep b.
func (s *Session) Input(b []byte) {
	s.Loop().Input(s.Session, b)
	s.d.forget()
}

// HalfClose says that the client sends no more. The server replies to all received commands, and
// then calls Conn.Close.
func (s *Session) HalfClose() { s.event((*session.Session).HalfClose) }

// HangUp says that the client of a paused connection sends no more, although not all of its input
// was passed to Input.
func (s *Session) HangUp() { s.event((*session.Session).LastInput) }

// Abort says that the connection is broken.
func (s *Session) Abort() { s.event((*session.Session).Abort) }

func (s *Session) event(f func(*session.Session)) {
	s.Loop().Event(s.Session, f)
	s.d.forget()
}

// AllSent says that Conn.Unsent has fallen to zero. The session continues in its loop's next GoOn.
func (s *Session) AllSent() { s.Loop().Signal(s.Session, (*session.Session).AllSent) }

// Bytes returns the numbers of received and sent bytes in the session's Snapshot.
func (s *Session) Bytes() (in, out uint64) {
	p := s.Snapshot(0)
	return p.In, p.Out
}

// Gone reports whether the session has ended and no shard knows it any more.
func (s *Session) Gone() bool { return s.IsGone() }

// HasMail reports whether a report or a NOOP is on its way to a Gearman session.
func (s *Session) HasMail() bool {
	m, ok := s.Teller().(interface{ HasMail() bool })
	return ok && m.HasMail()
}

// Sessions returns the sessions that are not gone yet.
func (d *Driven) Sessions() iter.Seq[*Session] { return maps.Keys(d.sessions) }

// forget removes sessions that have ended.
func (d *Driven) forget() {
	for s := range d.sessions {
		if s.Gone() {
			delete(d.sessions, s)
		}
	}
}
