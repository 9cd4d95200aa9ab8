package session

import (
	"polystalk/router/memory"
	"polystalk/shard/core"
)

// Output goes one way: what a turn says is gathered in the loop's buffer, Flush sends it
// through the gate, where it waits for the commit it depends on, and past the cork, which
// may keep a little of it for the next, to the Conn. A large body is sent behind what was
// said before it.
//
// The gate: with a journal, a reply that tells of a change leaves once the change is
// acknowledged: durable, or written, as the policy has it. Commands go on meanwhile; their
// replies queue behind it, in order and bounded.

// An output is what a session has said and what has not left.
type output struct {
	commit  uint64 // what was said depends on it
	replies []gatedReply
	bytes   int   // in replies
	cork    *cork // nil: nothing was ever corked
}

// A largeOutput is a body to be sent after what the loop has gathered, once no shard is owned,
// and what is to be said behind it. It is there from SendLarge to the next Run, so a loop has
// one for all of its sessions.
type largeOutput struct {
	body   core.Large
	behind string
}

// A gatedReply is output that waits for a commit.
type gatedReply struct {
	commit uint64
	bytes  *memory.Buffer
	large  core.Large // instead of bytes
}

const (
	// UnsentMax bytes of replies that the socket did not take stop the session until
	// they are gone.
	UnsentMax = 1 << 20
	// FlushAt bytes of replies are written at once, so that one turn's output stays in
	// the processor's cache.
	FlushAt = 256 << 10
	// UnitBytes of replies cost a unit.
	UnitBytes = 1 << 10
	// coalesceMax bytes of replies that wait for the same commit are kept as one.
	coalesceMax = 64 << 10
	// partCost is what a gated reply takes besides its bytes, about.
	partCost = 128
)

// Out is where output is appended. It is the loop's, and good while the session has its
// turn.
func (s *Session) Out() *[]byte { return &s.loop.out }

// Say answers with a fixed reply.
func (s *Session) Say(msg string) { s.loop.out = append(s.loop.out, msg...) }

// SendLarge has a body sent behind what was said so far, and then what is to be said behind
// it, as soon as no shard is owned: by Run. The body never changes, and is kept no longer
// than until it has left.
func (s *Session) SendLarge(body core.Large, behind string) {
	s.loop.large, s.large = largeOutput{body, behind}, true
}

// Depend has what is said from here on wait for a commit. The highest number is enough
// since there is one order of commits for all shards (package commit); with one for each
// group of slots a session would keep a number for each.
func (s *Session) Depend(commit uint64) {
	if commit > s.out.commit {
		s.out.commit = commit
	}
}

// dependOnLeast has what is said now depend on what everything does; see Host.Least.
func (s *Session) dependOnLeast() {
	if least := s.loop.host.Least; least != nil {
		s.Depend(least())
	}
}

// Unsent is how many bytes of output have not left.
func (s *Session) Unsent() int { return s.conn.Unsent() + s.out.bytes }

// LeavesAtOnce reports whether what is said now is handed to the socket at once.
func (s *Session) LeavesAtOnce() bool { return s.conn.Unsent() == 0 && !s.isGated() }

// Flush sends what was said. It stops the session while the client does not read.
func (s *Session) Flush() {
	l := s.loop
	if len(l.out) == 0 {
		return
	}
	l.round.budget -= WriteUnits + len(l.out)/UnitBytes
	s.dependOnLeast()
	switch {
	case s.life == gone:
	case s.isGated():
		s.Uncork()
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

// outKeep is the most output buffer that a loop keeps from turn to turn, in bytes.
const outKeep = 1 << 20

// FlushFull writes what has gathered in mid-turn, if it is much.
func (s *Session) FlushFull() {
	l := s.loop
	if len(l.out) >= flushLeast && len(l.out) >= l.host.Account.Allow(FlushAt, flushLeast) {
		s.Flush()
	}
}

// writeLarge sends a body too large to be copied, which was left by SendLarge: the reply's,
// or one that comes unasked while a shard has the operation, and writes its reply.
func (s *Session) writeLarge() {
	body, behind := s.loop.large.body, s.loop.large.behind
	s.Flush()
	s.dependOnLeast()
	if s.isGated() {
		s.gateReply(nil, body)
	} else {
		s.writeStable(body)
		s.checkUnsent()
	}
	s.loop.round.budget -= body.Len() / UnitBytes
	s.loop.large, s.large = largeOutput{}, false
	if m := s.call.msg; m != nil && s.call.state != callAway {
		m.Reply.Large = nil // nothing here keeps it when it is deleted
	}
	s.Say(behind)
}

// write hands output to the connection.
func (s *Session) write(p []byte) {
	s.notes.out += uint64(len(p))
	s.conn.Write(p)
}

// writeStable is write for what never changes.
func (s *Session) writeStable(pieces core.Large) {
	s.notes.out += uint64(pieces.Len())
	s.conn.WriteStable(pieces)
}

// checkUnsent stops the session while its client does not read.
func (s *Session) checkUnsent() {
	n := s.conn.Unsent()
	if n == 0 {
		return
	}
	if s.charge.at == 0 {
		s.listCharged()
	}
	if n > s.unsentMost() {
		s.stops |= Unread
	}
}

// isGated reports whether output of the session cannot leave yet.
func (s *Session) isGated() bool {
	return len(s.out.replies) > 0 || s.out.commit > s.acked()
}

// acked is the last commit that counts as done; without a journal nothing depends on one.
func (s *Session) acked() uint64 {
	if j := s.loop.host.Journal; j != nil {
		return j.Acked()
	}
	return 0
}

// gateReply queues output.
func (s *Session) gateReply(p []byte, large core.Large) {
	o, acct := &s.out, s.loop.host.Account
	n := len(o.replies)
	if n == 0 {
		s.loop.awaitCommit(s)
	}
	o.bytes += len(p) + large.Len()
	if o.bytes > s.unsentMost() {
		s.stops |= Uncommitted
	}
	if large != nil {
		for _, p := range large {
			acct.Retain(p, false)
		}
		s.Charge(partCost)
		o.replies = append(o.replies, gatedReply{commit: o.commit, large: large})
		return
	}
	if n > 0 {
		last := &o.replies[n-1]
		if last.commit == o.commit && last.large == nil && len(last.bytes.B) < coalesceMax {
			had := cap(last.bytes.B)
			last.bytes.B = append(last.bytes.B, p...)
			s.Charge(cap(last.bytes.B) - had)
			return
		}
	}
	b := memory.TakeBuffer()
	b.B = append(b.B[:0], p...)
	s.Charge(cap(b.B) + partCost)
	o.replies = append(o.replies, gatedReply{commit: o.commit, bytes: b})
}

// letGo sends what waited for a commit up to acked. It reports whether nothing waits any
// more.
func (s *Session) letGo(acked uint64) bool {
	o := &s.out
	n := 0
	for ; n < len(o.replies) && o.replies[n].commit <= acked; n++ {
		r := &o.replies[n]
		if r.large != nil {
			o.bytes -= r.large.Len()
			s.loop.spendRound(WriteUnits + r.large.Len()/UnitBytes)
			s.writeStable(r.large)
			s.forget(r)
			continue
		}
		o.bytes -= len(r.bytes.B)
		s.loop.spendRound(WriteUnits + len(r.bytes.B)/UnitBytes)
		s.write(r.bytes.B)
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
		s.Charge(-cap(r.bytes.B) - partCost)
		memory.GiveBuffer(r.bytes)
		return
	}
	for _, p := range r.large {
		s.loop.host.Account.Release(p)
	}
	s.Charge(-partCost)
}
