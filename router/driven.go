package router

import (
	"context"
	"time"

	"polystalk/router/admin"
	"polystalk/router/direct"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A Driven is a server without network, clock and goroutines of its own: its caller brings
// the bytes and lets time pass. The simulator drives one with a virtual clock; a front end
// that gets its bytes from elsewhere than gnet does the same with a real one.
//
// A Driven is used by one goroutine. The shards are not started: call Tick of those that
// are Due. A loop's wake must have GoOn called soon after.
type Driven struct {
	srv      *Server
	sessions map[*DrivenSession]struct{} // those that are not gone
}

// NewDriven makes a server whose time is now, which must not step back, whatever clock cfg
// has.
func NewDriven(cfg Config, now func() core.Time) (*Driven, error) {
	cfg.Clock = ops.GivenClock(now)
	srv, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	return &Driven{srv: srv, sessions: make(map[*DrivenSession]struct{})}, nil
}

// A ByHand is a journal without goroutines. Its owner calls Commit once somebody has Requested
// one, or later, and Tend when it is Untended, and now and then besides, with no shard owned.
// An error of either has ended the journal: nothing more is acknowledged.
type ByHand interface {
	Requested() bool
	Commit() error
	Untended() bool
	Tend() error
}

// Keep brings back the jobs of the server's journal, which must be configured, and has what
// happens from now on recorded there. It is called before any session is opened; now is what
// the journal notes as the time. After an error nothing may be used any more.
func (d *Driven) Keep(now func() time.Time) (ByHand, error) {
	f, err := d.Follow(now)
	if err != nil {
		return nil, err
	}
	if err := f.Lead(nil); err != nil {
		return nil, err
	}
	return f.Journal(), nil
}

// SetDay gives the server a time of day, which may step, instead of that of its clock.
func (d *Driven) SetDay(day func() core.Time) { d.srv.host.Clock.SetDay(day) }

// SetSuspended tells for how long the machine has been suspended in all, which the clock
// that NewDriven was given leaves out. A server notices that by the time of day.
func (d *Driven) SetSuspended(total func() core.Time) { d.srv.host.Clock.SetSuspended(total) }

// Stamp gives b the present moment: for whoever owns shards, or has them Tick.
func (d *Driven) Stamp(b *shard.Batch) { d.srv.host.Clock.Stamp(b) }

// Drain is Server.Drain.
func (d *Driven) Drain() { d.srv.Drain() }

// Shards are the server's shards.
func (d *Driven) Shards() []*shard.Shard { return d.srv.host.Map.Shards() }

// ShardOf is the index of the shard in which a tube of that name lives.
func (d *Driven) ShardOf(tube string) int { return d.srv.host.Map.OfTube([]byte(tube)) }

// HoldAtMost has connections paused that get ahead by more than n bytes, instead of
// session.HeldMax.
func (d *Driven) HoldAtMost(n int) { d.srv.host.HeldMost = n }

// LookAtMost has a reserve look at n tubes of a long watch list in a turn, instead of at as
// many as it has time for.
func (d *Driven) LookAtMost(n int) { d.srv.host.LookMost = n }

// Close gives the memory of the shards back; nothing may be used afterwards.
func (d *Driven) Close() {
	for _, sh := range d.Shards() {
		sh.Close()
	}
}

// NewOperator makes somebody who does what operators do. He calls turn wherever he would
// sleep until others have gone on: see direct.Caller.TakeTurns.
func (d *Driven) NewOperator(turn func()) *admin.Operator {
	s := d.srv
	s.life.Serve()
	return admin.New(admin.Options{
		Host: s.host, Life: &s.life, Gate: &s.gate, Fronts: s.fronts,
		LoopsTurn:       func(context.Context) error { return nil },
		ConnectionLimit: func() (int, string) { return s.cfg.MaxConnections, "" },
		SetDraining:     s.drain.want, MaxJobSize: s.beanstalkd.MaxJobSize, Turn: turn,
	})
}

// NewCaller makes one who runs operations without a connection, and takes turns as
// NewOperator says.
func (d *Driven) NewCaller(turn func()) *direct.Caller {
	c := direct.New(d.srv.host.Map, d.srv.host.Clock)
	c.TakeTurns(turn)
	return c
}

// A DrivenLoop stands for one event loop: its sessions take turns, and share one Batch.
type DrivenLoop struct {
	d *Driven
	l *session.Loop
}

// NewLoop adds a loop. It calls wake when GoOn is to be called once every other connection
// that has input was served; with no shard owned, and wake must not call GoOn itself.
func (d *Driven) NewLoop(wake func()) *DrivenLoop {
	l := session.NewLoop(d.srv.host, wake)
	l.RunAfter(nil)
	return &DrivenLoop{d: d, l: l}
}

// CorkReplies has the loop keep some replies back while it is busy, as those of a Server
// do: runAfter is called when GoOn is to be called after that time.
func (dl *DrivenLoop) CorkReplies(runAfter func(time.Duration)) { dl.l.RunAfter(runAfter) }

// GoOn goes on with what finished elsewhere and with turns put off.
func (dl *DrivenLoop) GoOn() {
	dl.l.GoOn(true)
	dl.d.sweep()
}

// Open makes a session for a new connection that speaks beanstalkd's protocol.
func (dl *DrivenLoop) Open(c session.Conn) *DrivenSession {
	return dl.OpenFront(dl.d.srv.beanstalkd, c)
}

// OpenGearman is Open for a connection that speaks Gearman.
func (dl *DrivenLoop) OpenGearman(c session.Conn) *DrivenSession {
	return dl.OpenFront(dl.d.srv.gearmand, c)
}

// OpenFront is Open for a connection of any protocol.
func (dl *DrivenLoop) OpenFront(f session.Front, c session.Conn) *DrivenSession {
	ds := &DrivenSession{d: dl.d, s: dl.l.Open(f, c)}
	dl.d.sessions[ds] = struct{}{}
	return ds
}

// A DrivenSession is one client of a Driven.
type DrivenSession struct {
	d *Driven
	s *session.Session
}

// Input gives bytes that came from the client; b is the caller's again when it returns.
func (ds *DrivenSession) Input(b []byte) {
	ds.s.Loop().Input(ds.s, b)
	ds.d.sweep()
}

// HalfClose tells that the client sends no more. What it sent is answered, then Conn.Close
// is called.
func (ds *DrivenSession) HalfClose() { ds.event((*session.Session).HalfClose) }

// HangUp tells that the client of a paused connection sends no more, though not all that it
// sent was given to Input.
func (ds *DrivenSession) HangUp() { ds.event((*session.Session).LastInput) }

// Abort tells that the connection is broken.
func (ds *DrivenSession) Abort() { ds.event((*session.Session).Abort) }

func (ds *DrivenSession) event(f func(*session.Session)) {
	ds.s.Loop().Event(ds.s, f)
	ds.d.sweep()
}

// AllSent tells that Conn.Unsent has fallen to zero. The session goes on in its loop's next
// GoOn.
func (ds *DrivenSession) AllSent() { ds.s.Loop().Signal(ds.s, (*session.Session).AllSent) }

// Number is that of the connection, by which operators name it.
func (ds *DrivenSession) Number() uint64 { return ds.s.Number() }

// Bytes are how many the connection has brought, and how many it was said, as operators are
// told.
func (ds *DrivenSession) Bytes() (in, out uint64) {
	p := ds.s.Snapshot(0)
	return p.In, p.Out
}

// Gone reports that the session has ended and no shard knows it any more.
func (ds *DrivenSession) Gone() bool { return ds.s.IsGone() }

// Waiting reports that a reserve of the session waits.
func (ds *DrivenSession) Waiting() bool { return ds.s.Waiting() }

// HasMail reports that something about its jobs, or a NOOP, is under way to a Gearman
// session.
func (ds *DrivenSession) HasMail() bool {
	m, ok := ds.s.Protocol().(interface{ HasMail() bool })
	return ok && m.HasMail()
}

// sweep forgets the sessions that have ended.
func (d *Driven) sweep() {
	for ds := range d.sessions {
		if ds.Gone() {
			delete(d.sessions, ds)
		}
	}
}
