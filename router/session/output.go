package session

import (
	"sync/atomic"
	"time"

	"polystalk/shard/core"
)

// The way of output: the replies of a turn are appended to the loop's buffer. Flush passes them
// through the gate, where they wait for the commit that they depend on, and through the cork,
// which may keep a small reply for the next write, to the Conn. A large body is sent after the
// output before it.
//
// The gate: with a journal, the reply to a change leaves after the change is acknowledged:
// durable or written, depending on the sync policy. Meanwhile commands continue to run; their
// replies queue behind the first, in order and bounded.

// An output is the state of a session's replies.
type output struct {
	commit  uint64 // the replies so far depend on it
	replies []gatedReply
	bytes   int   // in replies
	cork    *cork // nil: Cork was never called
}

// A largeOutput is a body, and the text behind it, to be sent after the loop's buffer, once no
// shard is owned. It exists from SendLarge to the next Run, so a loop needs only one.
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
	// FlushAt is how many bytes of replies are written before the end of a turn, so that
	// output stays in the processor's cache.
	FlushAt = 256 << 10
	// UnitBytes is how many bytes of replies cost a unit.
	UnitBytes = 1 << 10
	// coalesceMax bounds the bytes of joined replies that wait for the same commit.
	coalesceMax = 64 << 10
	// partCost is about the memory of a kept reply without its bytes.
	partCost = 128
)

// Out returns the loop's output buffer, which is valid during the session's turn. The caller
// appends to it and passes the result to SetOut.
func (s *Session) Out() []byte { return s.loop.out }

// SetOut replaces the output buffer by the result of an append to Out.
func (s *Session) SetOut(out []byte) { s.loop.out = out }

// Say appends a reply.
func (s *Session) Say(msg string) { s.loop.out = append(s.loop.out, msg...) }

// SendLarge makes Run send a body and then the text behind, after the output so far, as soon
// as no shard is owned. The body must never change; it is kept until it was sent.
func (s *Session) SendLarge(body core.Large, behind string) {
	s.loop.large, s.large = largeOutput{body, behind}, true
}

// Depend makes further output wait for a commit. Only the highest number counts, because all
// shards share one order of commits (package commit).
func (s *Session) Depend(commit uint64) {
	if commit > s.out.commit {
		s.out.commit = commit
	}
}

// fence makes the output wait for the lease fence, as every reply must.
func (s *Session) fence() {
	if f := s.loop.host.LeaseFence; f != nil {
		s.Depend(f())
	}
}

// Unsent returns how many bytes of output wait for the socket or a commit.
func (s *Session) Unsent() int { return s.conn.Unsent() + s.out.bytes }

// LeavesAtOnce reports whether output would go to the socket at once.
func (s *Session) LeavesAtOnce() bool { return s.conn.Unsent() == 0 && !s.isGated() }

// Flush sends the output. It stops the session if the client does not read. A broken session has no
// output: the reply to a pending operation of a killed session could show what its client lost the
// right to see.
func (s *Session) Flush() {
	l := s.loop
	if len(l.out) == 0 {
		return
	}
	l.round.budget -= WriteUnits + len(l.out)/UnitBytes
	s.fence()
	switch {
	case s.life == gone || s.end == broken:
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

// outKeep is the largest output buffer, in bytes, that a loop keeps for later turns.
const outKeep = 1 << 20

// FlushFull calls Flush before the end of a turn if there is much output.
func (s *Session) FlushFull() {
	if n := len(s.loop.out); n > unsentLeast && n >= min(FlushAt, s.unsentCap()) {
		s.Flush()
	}
}

// writeLarge sends the body that SendLarge has noted. The body belongs to a reply, or to a
// Gearman report that arrived while a shard has the operation.
func (s *Session) writeLarge() {
	body, behind := s.loop.large.body, s.loop.large.behind
	s.Flush()
	s.fence()
	if s.isGated() {
		s.gateReply(nil, body)
	} else if s.end != broken {
		s.activity.out += uint64(body.Len())
		s.conn.WriteStable(body)
		s.checkUnsent()
	}
	s.loop.round.budget -= body.Len() / UnitBytes
	s.loop.large, s.large = largeOutput{}, false
	if m := s.call.msg; m != nil && s.call.state != callAway {
		m.Reply.Large = nil // else it would keep a deleted job's body
	}
	s.Say(behind)
}

// write hands output to the connection.
func (s *Session) write(p []byte) {
	s.activity.out += uint64(len(p))
	s.conn.Write(p)
}

// checkUnsent stops the session if its client does not read.
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

// isGated reports whether further output must wait for a commit.
func (s *Session) isGated() bool {
	return len(s.out.replies) > 0 || s.out.commit > s.acked()
}

// acked returns the last acknowledged commit; zero without a journal.
func (s *Session) acked() uint64 {
	if j := s.loop.host.Journal; j != nil {
		return j.Acked()
	}
	return 0
}

// gateReply queues output behind the gate.
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

// release sends the replies that wait for commits up to acked. It reports whether none is left.
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

// dropReplies drops the gated replies of a closed session.
func (s *Session) dropReplies() {
	o := &s.out
	for i := range o.replies {
		s.forget(&o.replies[i])
	}
	o.replies, o.bytes = nil, 0
}

// forget releases the memory of a gated reply.
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

// A gate has a loop's sessions that wait for the log: for a commit, or for room.
type gate struct {
	replies []*Session // their replies wait for a commit
	room    []*Session // stopped by NoSpace; see openRoom
	freed   []*Session // to continue after all of replies were checked

	// waiting is len(replies)+len(room), for readers without the loop. looking means that the
	// loop will check them, so lookAtGate has nothing to do.
	waiting atomic.Int64
	looking atomic.Bool
}

// awaitCommit puts s on the list of sessions with replies behind the gate.
func (l *Loop) awaitCommit(s *Session) {
	l.gate.replies = append(l.gate.replies, s)
	l.unfinished.Add(1)
	l.gate.waiting.Add(1)
	if s.out.commit <= s.acked() || l.host.Journal.Here() {
		// The commit was acknowledged before s was on the list; or this loop must write it
		// itself, after the turns of the other connections.
		l.lookAtGate()
	}
}

// lookAtGate makes the loop check its waiting sessions, if there are any. Any goroutine may call
// it.
func (l *Loop) lookAtGate() {
	if l.gate.waiting.Load() > 0 && l.gate.looking.CompareAndSwap(false, true) {
		l.run()
	}
}

// openGate continues sessions after their commits were acknowledged, or if they may have room.
// Thousands may wait for one commit: when the round is overdrawn, the rest waits for the next.
func (l *Loop) openGate() {
	g := &l.gate
	if g.waiting.Load() == 0 {
		g.looking.Store(false)
		return
	}
	if len(g.replies) > 0 {
		g.looking.Store(true) // the commit need not wake this loop: it checks below
		l.host.Journal.CommitHere()
	}
	g.looking.Store(false)
	l.openReplies()
	// Only after the loop over replies, because a turn may append its session to them.
	for i, s := range g.freed {
		g.freed[i] = nil
		l.turn(s, func(s *Session) { s.lift(Uncommitted) })
	}
	g.freed = g.freed[:0]
	l.openRoom()
}

// openReplies sends replies with acknowledged commits.
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

// A cork delays a small reply until the session's next reply, as Nagle's algorithm does for a
// socket, because the write is most of the cost of a small reply. It delays only output that
// the protocol marks by Cork, only while the loop is busy, and at most for CorkMax.
type cork struct {
	kept  []byte    // delayed output; nothing else may be sent before it
	since core.Time // when it began to wait
	upTo  int       // if the loop's output has this length, all of it may be delayed
}

const (
	CorkMax = core.Time(2 * time.Millisecond)
	// A loop is busy when the average gap between its callbacks is at most busyGap. A
	// single client and a single worker leave longer gaps.
	busyGap = core.Time(20 * time.Microsecond)
	// gapWeight is the number of callbacks in the moving average.
	gapWeight = 8
	// togetherMax is the largest output, in bytes, that is copied behind a delayed reply.
	togetherMax = 4 << 10
	// corkStep is the least time between two checks of delayed replies.
	corkStep = core.Time(200 * time.Microsecond)
)

// A corking is a session with a reply delayed since then. The entry is stale if the reply was
// sent: then cork.since differs, or nothing is kept.
type corking struct {
	s     *Session
	since core.Time
}

// corks has a loop's sessions with delayed replies.
type corks struct {
	list []corking // oldest first
	at   core.Time // when uncork must check the list, if it is not empty
	gap  core.Time // moving average of the gaps between callbacks
	// runAfter calls Loop.run after that time; nil: nothing is delayed.
	runAfter func(time.Duration)
}

// Cork allows the output so far to wait for further output.
func (s *Session) Cork() {
	if s.out.cork == nil {
		s.out.cork = new(cork)
	}
	s.out.cork.upTo = len(s.loop.out)
}

// keepCorked delays out if all of it is marked and the loop is busy. It reports whether it did.
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

// uncork sends the delayed output.
func (s *Session) uncork() {
	if s.out.cork != nil {
		s.sendCorked(nil)
	}
}

// sendCorked sends the delayed output, and p behind it.
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

// lookAtCorked makes the loop call uncork after d.
func (l *Loop) lookAtCorked(d core.Time) {
	l.corks.at = l.batch.Now + d
	l.corks.runAfter(time.Duration(d))
}

// uncork sends output that was delayed for CorkMax.
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
