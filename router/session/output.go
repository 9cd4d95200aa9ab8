package session

import (
	"sync/atomic"
	"time"

	"polystalk/shard/core"
)

// Output goes one way. What a turn says is gathered in the loop's buffer. Flush sends it
// through the gate, where it waits for the commit that it depends on, and past the cork,
// which may keep a little of it for the next write, to the Conn. A large body is sent
// behind what was said before it.
//
// The gate: with a journal, a reply that tells of a change leaves after the change is
// acknowledged: durable, or written, as the policy says. Commands go on meanwhile; their
// replies queue behind it, in order and bounded.

// An output is what a session has said and what has not left.
type output struct {
	commit  uint64 // what was said depends on it
	replies []gatedReply
	bytes   int   // in replies
	cork    *cork // nil: nothing was ever corked
}

// A largeOutput is a body to be sent after what the loop has gathered, once no shard is
// owned, and the text behind it. It lives from SendLarge to the next Run, so a loop has one
// for all of its sessions.
type largeOutput struct {
	body   core.Large
	behind string
}

// A gatedReply is output that waits for a commit.
type gatedReply struct {
	commit uint64
	bytes  *buffer
	large  core.Large // instead of bytes
}

const (
	// FlushAt bytes of replies are written in mid-turn, so that one turn's output stays
	// in the processor's cache.
	FlushAt = 256 << 10
	// UnitBytes of replies cost a unit.
	UnitBytes = 1 << 10
	// coalesceMax bytes of replies that wait for the same commit are kept as one.
	coalesceMax = 64 << 10
	// partCost is about what a kept reply takes besides its bytes.
	partCost = 128
)

// Out returns the output so far. The caller appends to it and hands the result to SetOut. It
// is the loop's, and valid during the session's turn.
func (s *Session) Out() []byte { return s.loop.out }

// SetOut replaces the output by Out with more behind it.
func (s *Session) SetOut(out []byte) { s.loop.out = out }

// Say answers with a fixed reply.
func (s *Session) Say(msg string) { s.loop.out = append(s.loop.out, msg...) }

// SendLarge has Run send a body behind what was said so far, as soon as no shard is owned,
// and then the text behind. The body never changes, and is kept until it has left.
func (s *Session) SendLarge(body core.Large, behind string) {
	s.loop.large, s.large = largeOutput{body, behind}, true
}

// Depend makes what is said from here on wait for a commit. The highest number is enough
// since all shards share one order of commits (package commit).
func (s *Session) Depend(commit uint64) {
	if commit > s.out.commit {
		s.out.commit = commit
	}
}

// fence makes what is said now wait for the lease fence, as every reply must.
func (s *Session) fence() {
	if f := s.loop.host.LeaseFence; f != nil {
		s.Depend(f())
	}
}

// Unsent returns how many bytes of output have not left.
func (s *Session) Unsent() int { return s.conn.Unsent() + s.out.bytes }

// LeavesAtOnce reports whether output goes to the socket at once.
func (s *Session) LeavesAtOnce() bool { return s.conn.Unsent() == 0 && !s.isGated() }

// Flush sends what was said. It stops the session while the client does not read.
func (s *Session) Flush() {
	l := s.loop
	if len(l.out) == 0 {
		return
	}
	l.round.budget -= WriteUnits + len(l.out)/UnitBytes
	s.fence()
	switch {
	case s.life == gone:
	case s.isGated():
		s.uncork()
		s.gateReply(l.out, nil)
	case s.out.cork != nil:
		if !s.keepCorked(l.out) {
			s.sendCorked(l.out)
			s.checkUnsent()
		}
	default:
		s.write(l.out)
		s.checkUnsent()
	}
	l.out = l.out[:0]
	if cap(l.out) > outKeep {
		l.out = nil
	}
}

// outKeep is the largest output buffer that a loop keeps from turn to turn, in bytes.
const outKeep = 1 << 20

// FlushFull writes what has gathered in mid-turn, if it is much.
func (s *Session) FlushFull() {
	if n := len(s.loop.out); n > unsentLeast && n >= min(FlushAt, s.unsentCap()) {
		s.Flush()
	}
}

// writeLarge sends the body that SendLarge has left: a reply's, or one that comes unasked
// while a shard has the operation, and writes its reply.
func (s *Session) writeLarge() {
	body, behind := s.loop.large.body, s.loop.large.behind
	s.Flush()
	s.fence()
	if s.isGated() {
		s.gateReply(nil, body)
	} else {
		s.activity.out += uint64(body.Len())
		s.conn.WriteStable(body)
		s.checkUnsent()
	}
	s.loop.round.budget -= body.Len() / UnitBytes
	s.loop.large, s.large = largeOutput{}, false
	if m := s.call.msg; m != nil && s.call.state != callAway {
		m.Reply.Large = nil // it would keep a deleted job's body
	}
	s.Say(behind)
}

// write hands output to the connection.
func (s *Session) write(p []byte) {
	s.activity.out += uint64(len(p))
	s.conn.Write(p)
}

// checkUnsent stops the session while its client does not read.
func (s *Session) checkUnsent() {
	n := s.conn.Unsent()
	if n == 0 {
		return
	}
	if s.usage.at == 0 {
		s.listUsage()
	}
	if n > s.unsentCap() {
		s.stops |= Unread
	}
}

// isGated reports whether output of the session cannot leave yet.
func (s *Session) isGated() bool {
	return len(s.out.replies) > 0 || s.out.commit > s.acked()
}

// acked is the last acknowledged commit; without a journal nothing depends on one.
func (s *Session) acked() uint64 {
	if j := s.loop.host.Journal; j != nil {
		return j.Acked()
	}
	return 0
}

// gateReply queues output.
func (s *Session) gateReply(p []byte, large core.Large) {
	o := &s.out
	n := len(o.replies)
	if n == 0 {
		s.loop.awaitCommit(s)
	}
	o.bytes += len(p) + large.Len()
	if o.bytes > s.unsentCap() {
		s.stops |= Uncommitted
	}
	if large != nil {
		for _, p := range large {
			s.loop.host.Account.Retain(p, false)
		}
		s.AddUsage(partCost)
		o.replies = append(o.replies, gatedReply{commit: o.commit, large: large})
		return
	}
	if n > 0 {
		last := &o.replies[n-1]
		if last.commit == o.commit && last.large == nil && len(last.bytes.B) < coalesceMax {
			had := cap(last.bytes.B)
			last.bytes.B = append(last.bytes.B, p...)
			s.AddUsage(cap(last.bytes.B) - had)
			return
		}
	}
	b := takeBuffer()
	b.B = append(b.B, p...)
	s.AddUsage(cap(b.B) + partCost)
	o.replies = append(o.replies, gatedReply{commit: o.commit, bytes: b})
}

// release sends what waited for a commit up to acked. It reports whether nothing waits any
// more.
func (s *Session) release(acked uint64) bool {
	o := &s.out
	n := 0
	for ; n < len(o.replies) && o.replies[n].commit <= acked; n++ {
		r := &o.replies[n]
		size := r.large.Len()
		if r.large == nil {
			size = len(r.bytes.B)
		}
		o.bytes -= size
		s.loop.spendRound(WriteUnits + size/UnitBytes)
		s.activity.out += uint64(size)
		if r.large != nil {
			s.conn.WriteStable(r.large)
		} else {
			s.conn.Write(r.bytes.B)
		}
		s.forget(r)
	}
	k := copy(o.replies, o.replies[n:])
	clear(o.replies[k:])
	o.replies = o.replies[:k]
	s.checkUnsent()
	return k == 0
}

// dropReplies forgets what waits: the client has gone.
func (s *Session) dropReplies() {
	o := &s.out
	for i := range o.replies {
		s.forget(&o.replies[i])
	}
	o.replies, o.bytes = nil, 0
}

// forget gives a gated reply's memory back.
func (s *Session) forget(r *gatedReply) {
	if r.bytes != nil {
		s.AddUsage(-cap(r.bytes.B) - partCost)
		giveBuffer(r.bytes)
		return
	}
	for _, p := range r.large {
		s.loop.host.Account.Release(p)
	}
	s.AddUsage(-partCost)
}

// A gate is where a loop's sessions wait for the log: for a commit, or for room.
type gate struct {
	replies []*Session // their replies wait for a commit
	room    []*Session // stopped by NoSpace; see openRoom
	freed   []*Session // to go on after those with replies were looked at

	// waiting is the number of both, for readers without the loop. looking says that the
	// loop will look at them: lookAtGate need not see to it again.
	waiting atomic.Int64
	looking atomic.Bool
}

// awaitCommit puts s on the list of sessions with replies behind the gate.
func (l *Loop) awaitCommit(s *Session) {
	l.gate.replies = append(l.gate.replies, s)
	l.unfinished.Add(1)
	l.gate.waiting.Add(1)
	if s.out.commit <= s.acked() || l.host.Journal.Here() {
		// It was acknowledged since, and nothing knew that s waits; or the loop must have
		// it written itself, after the other connections had their turns.
		l.lookAtGate()
	}
}

// lookAtGate makes the loop look at what its sessions wait for, if any does; from any
// goroutine.
func (l *Loop) lookAtGate() {
	if l.gate.waiting.Load() > 0 && l.gate.looking.CompareAndSwap(false, true) {
		l.run()
	}
}

// openGate goes on with sessions after their commits were acknowledged, or if they may have room.
// Thousands may wait for one commit: when the round is overdrawn the rest waits for the
// next.
func (l *Loop) openGate() {
	g := &l.gate
	if g.waiting.Load() == 0 {
		g.looking.Store(false)
		return
	}
	if len(g.replies) > 0 {
		g.looking.Store(true) // the commit need not wake this loop: it looks below
		l.host.Journal.CommitHere()
	}
	g.looking.Store(false)
	l.openReplies()
	// Only now, since a turn may put its session on the list again.
	for i, s := range g.freed {
		g.freed[i] = nil
		l.turn(s, func(s *Session) { s.lift(Uncommitted) })
	}
	g.freed = g.freed[:0]
	l.openRoom()
}

// openReplies sends what was acknowledged.
func (l *Loop) openReplies() {
	g := &l.gate
	acked := l.host.Journal.Acked()
	kept := g.replies[:0]
	for i, s := range g.replies {
		if l.round.left <= -DebtUnits {
			kept = append(kept, g.replies[i:]...)
			l.Ask()
			break
		}
		if s.life < closing && !s.release(acked) {
			kept = append(kept, s)
		} else {
			g.waiting.Add(-1)
			l.unfinished.Add(-1)
		}
		if s.stops&Uncommitted != 0 && s.out.bytes <= s.unsentCap()/2 || len(s.out.replies) == 0 && s.end > open {
			g.freed = append(g.freed, s)
		}
	}
	clear(g.replies[len(kept):])
	g.replies = kept
}

// A cork keeps back a little output until the session says more, as Nagle's algorithm does
// for a socket: the write is most of the cost of a small reply. It keeps back only what
// the protocol marks by Cork, only while the loop is busy, and for CorkMax at most.
type cork struct {
	kept  []byte    // output; nothing else may be sent before it
	since core.Time // when that began
	upTo  int       // the loop's output up to here may be kept back, if that is all of it
}

const (
	CorkMax = core.Time(2 * time.Millisecond)
	// A loop is busy when the average gap between its callbacks is at most busyGap. A
	// client and a worker alone leave longer gaps.
	busyGap = core.Time(20 * time.Microsecond)
	// gapWeight is how many callbacks that average is over.
	gapWeight = 8
	// togetherMax bytes are copied to be sent with what was kept back.
	togetherMax = 4 << 10
	// corkStep is the least time between two looks at what is kept back.
	corkStep = core.Time(200 * time.Microsecond)
)

// A corking is a session that has kept output back since then, unless it was sent and newer
// output is kept.
type corking struct {
	s     *Session
	since core.Time
}

// corks are a loop's sessions with output kept back.
type corks struct {
	list []corking // the oldest first
	at   core.Time // when uncork has something to do, if there is any
	gap  core.Time // between callbacks, on average
	// runAfter calls Loop.run after that time; nil: nothing is kept back.
	runAfter func(time.Duration)
}

// Cork says that all output that was gathered up to here may wait for what follows it.
func (s *Session) Cork() {
	if s.out.cork == nil {
		s.out.cork = new(cork)
	}
	s.out.cork.upTo = len(s.loop.out)
}

// keepCorked keeps out back if all of it is marked and the loop is busy.
func (s *Session) keepCorked(out []byte) bool {
	c, l := s.out.cork, s.loop
	upTo := c.upTo
	c.upTo = 0
	if upTo != len(out) || l.corks.gap > busyGap || l.corks.runAfter == nil || s.end > open {
		return false
	}
	c.kept = append(c.kept, out...)
	c.since = l.batch.Now
	if len(l.corks.list) == 0 {
		l.unfinished.Add(1)
		l.lookAtCorked(CorkMax)
	}
	l.corks.list = append(l.corks.list, corking{s, c.since})
	return true
}

// uncork sends what was kept back.
func (s *Session) uncork() {
	if s.out.cork != nil {
		s.sendCorked(nil)
	}
}

// sendCorked sends what was kept back, and p behind it.
func (s *Session) sendCorked(p []byte) {
	c := s.out.cork
	c.upTo = 0
	if len(c.kept) > 0 && len(p) <= togetherMax {
		c.kept = append(c.kept, p...)
		p = nil
	}
	s.write(c.kept)
	c.kept = c.kept[:0]
	s.write(p)
}

// lookAtCorked has uncork called after d.
func (l *Loop) lookAtCorked(d core.Time) {
	l.corks.at = l.batch.Now + d
	l.corks.runAfter(time.Duration(d))
}

// uncork sends what was kept back for long enough.
func (l *Loop) uncork() {
	if len(l.corks.list) == 0 || l.batch.Now < l.corks.at {
		return
	}
	i := 0
	for ; i < len(l.corks.list); i++ {
		e := l.corks.list[i]
		if c := e.s.out.cork; len(c.kept) > 0 && c.since == e.since {
			if l.batch.Now-e.since < CorkMax {
				break
			}
			e.s.uncork()
		}
	}
	k := copy(l.corks.list, l.corks.list[i:])
	clear(l.corks.list[k:])
	if l.corks.list = l.corks.list[:k]; k == 0 {
		l.unfinished.Add(-1)
		return
	}
	l.lookAtCorked(max(l.corks.list[0].since+CorkMax-l.batch.Now, corkStep))
}
