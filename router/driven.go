package router

import (
	"time"

	"polystalk/router/clock"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A Driven is a server without network, clock and goroutines of its own: its
// caller brings the bytes and lets time pass. The simulator drives one with a
// virtual clock; a front end that gets its bytes from elsewhere than gnet does
// the same with a real one.
//
// A Driven is used by one goroutine. The shards are not started: call Tick of
// those that are Due. A loop's wake must have Drain called soon after.
type Driven struct {
	srv      *Server
	sessions map[*DrivenSession]struct{} // those that are not gone
}

// NewDriven makes a server whose time is what now tells, which must not step back.
func NewDriven(cfg Config, now func() core.Time) (*Driven, error) {
	srv, err := newServer(cfg, clock.Given(now))
	if err != nil {
		return nil, err
	}
	return &Driven{srv: srv, sessions: make(map[*DrivenSession]struct{})}, nil
}

// SetDay gives the server a time of day, which may step, instead of that of its clock.
func (d *Driven) SetDay(day func() core.Time) { d.srv.clock.SetDay(day) }

// SetSuspended tells for how long the machine has been suspended in all, which the clock
// that NewDriven was given leaves out. A server notices that by the time of day.
func (d *Driven) SetSuspended(total func() core.Time) { d.srv.clock.SetSuspended(total) }

// Stamp gives b the present moment: for whoever owns shards, or has them Tick.
func (d *Driven) Stamp(b *shard.Batch) { d.srv.clock.Stamp(b) }

// Drain is Server.Drain.
func (d *Driven) Drain() { d.srv.Drain() }

// Shards are the server's shards.
func (d *Driven) Shards() []*shard.Shard { return d.srv.places.Shards() }

// ShardOf is the index of the shard in which a tube of that name lives.
func (d *Driven) ShardOf(tube string) int { return d.srv.places.OfTube([]byte(tube)) }

// HoldAtMost has connections paused that get ahead by more than n bytes,
// instead of heldMax.
func (d *Driven) HoldAtMost(n int) { d.srv.heldMax = n }

// LookAtMost has a reserve look at n tubes of a long watch list in a turn, instead of
// at as many as it has time for.
func (d *Driven) LookAtMost(n int) { d.srv.lookMax = n }

// Close gives the memory of the shards back; nothing may be used afterwards.
func (d *Driven) Close() {
	for _, sh := range d.srv.places.Shards() {
		sh.Close()
	}
}

// A DrivenLoop stands for one event loop: its sessions take turns, and share
// one Batch.
type DrivenLoop struct {
	d *Driven
	l *loop
}

// NewLoop adds a loop. It calls wake when Drain is to be called once every other
// connection that has input was served; with no shard owned, and wake must not call
// Drain itself.
func (d *Driven) NewLoop(wake func()) *DrivenLoop {
	l := newLoop(d.srv, wake)
	l.runAfter = nil
	d.srv.addLoop(l)
	return &DrivenLoop{d: d, l: l}
}

// KeepReplies has the loop keep some replies to Gearman clients back while it is
// busy, as those of a Server do (late.go): runAfter is called when Drain is to be
// called after that time.
func (dl *DrivenLoop) KeepReplies(runAfter func(time.Duration)) { dl.l.runAfter = runAfter }

// Drain goes on with what finished elsewhere and with turns put off.
func (dl *DrivenLoop) Drain() {
	dl.l.drain(true)
	dl.d.sweep()
}

// Open makes a session for a new connection.
func (dl *DrivenLoop) Open(c Conn) *DrivenSession {
	return dl.open(c, false)
}

// OpenGearman is Open for a connection that speaks Gearman.
func (dl *DrivenLoop) OpenGearman(c Conn) *DrivenSession { return dl.open(c, true) }

func (dl *DrivenLoop) open(c Conn, gear bool) *DrivenSession {
	ds := &DrivenSession{d: dl.d, s: dl.l.open(c, gear)}
	dl.d.sessions[ds] = struct{}{}
	return ds
}

// A DrivenSession is one client of a Driven.
type DrivenSession struct {
	d *Driven
	s *session
}

// Input gives bytes that came from the client; b is the caller's again when
// it returns.
func (ds *DrivenSession) Input(b []byte) {
	ds.s.loop.input(ds.s, b)
	ds.d.sweep()
}

// HalfClose tells that the client sends no more. What it sent is answered,
// then Conn.Close is called.
func (ds *DrivenSession) HalfClose() {
	ds.s.loop.event(ds.s, (*session).endOfInput)
	ds.d.sweep()
}

// HangUp tells that the client of a paused connection sends no more, though
// not all that it sent was given to Input.
func (ds *DrivenSession) HangUp() {
	ds.s.loop.event(ds.s, (*session).lastInput)
	ds.d.sweep()
}

// Abort tells that the connection is broken.
func (ds *DrivenSession) Abort() {
	ds.s.loop.event(ds.s, (*session).abort)
	ds.d.sweep()
}

// Drained tells that Conn.Unsent has fallen to zero. The session goes on in
// its loop's next Drain.
func (ds *DrivenSession) Drained() { ds.s.loop.signal(ds.s, (*session).drained) }

// Gone reports that the session has ended and no shard knows it any more.
func (ds *DrivenSession) Gone() bool { return ds.s.phase == phaseGone }

// Waiting reports that a reserve of the session waits.
func (ds *DrivenSession) Waiting() bool { return ds.s.phase == phaseWaiting }

// HasMail reports that something about its jobs, or a NOOP, is under way to a
// Gearman session.
func (ds *DrivenSession) HasMail() bool { return ds.s.gear != nil && ds.s.gear.mail.UnderWay() }

// sweep forgets the sessions that have ended.
func (d *Driven) sweep() {
	for ds := range d.sessions {
		if ds.Gone() {
			delete(d.sessions, ds)
		}
	}
}
