package router

import (
	"polystalk/router/memory"
	"polystalk/shard/core"
)

// With a journal, a reply that tells of a change leaves once the change is
// acknowledged: durable, or written, as the policy has it. Commands go on
// meanwhile; their replies queue behind it, in order and bounded.

// A heldReply is output that waits for a commit.
type heldReply struct {
	commit uint64
	bytes  *memory.Buffer
	large  core.Large // instead of bytes
}

// coalesceMax bytes of replies that wait for the same commit are kept as one.
const coalesceMax = 64 << 10

// mustHold reports whether output of the session cannot leave yet.
func (s *session) mustHold() bool {
	return len(s.replies) > 0 || s.commit > s.acked()
}

// acked is the last commit that counts as done; without a journal nothing
// depends on one.
func (s *session) acked() uint64 {
	if j := s.loop.srv.journal; j != nil {
		return j.Acked()
	}
	return 0
}

// holdReply queues output.
func (s *session) holdReply(p []byte, large core.Large) {
	n := len(s.replies)
	if n == 0 {
		s.loop.hold(s)
	}
	s.heldOut += len(p) + large.Len()
	if s.heldOut > s.unsentMax() {
		s.backed = true
	}
	if large != nil {
		for _, p := range large {
			s.loop.srv.acct.Retain(p, false)
		}
		s.keep(partCost)
		s.replies = append(s.replies, heldReply{commit: s.commit, large: large})
		return
	}
	if n > 0 {
		last := &s.replies[n-1]
		if last.commit == s.commit && last.large == nil && len(last.bytes.B) < coalesceMax {
			had := cap(last.bytes.B)
			last.bytes.B = append(last.bytes.B, p...)
			s.keep(cap(last.bytes.B) - had)
			return
		}
	}
	b := memory.TakeBuffer()
	b.B = append(b.B[:0], p...)
	s.keep(cap(b.B) + partCost)
	s.replies = append(s.replies, heldReply{commit: s.commit, bytes: b})
}

// letGo sends what waited for a commit up to acked. It reports whether nothing
// waits any more.
func (s *session) letGo(acked uint64) bool {
	n := 0
	for ; n < len(s.replies) && s.replies[n].commit <= acked; n++ {
		r := &s.replies[n]
		if r.large != nil {
			s.heldOut -= r.large.Len()
			s.loop.spend(writeUnits + r.large.Len()/budgetBytes)
			s.conn.WriteStable(r.large)
			s.forget(r)
			continue
		}
		s.heldOut -= len(r.bytes.B)
		s.loop.spend(writeUnits + len(r.bytes.B)/budgetBytes)
		s.conn.Write(r.bytes.B)
		s.forget(r)
	}
	k := copy(s.replies, s.replies[n:])
	clear(s.replies[k:])
	s.replies = s.replies[:k]
	s.checkUnsent()
	return k == 0
}

// dropReplies forgets what waits: the client has gone.
func (s *session) dropReplies() {
	for i := range s.replies {
		s.forget(&s.replies[i])
	}
	s.replies, s.heldOut = nil, 0
}

// forget gives a held reply's memory back.
func (s *session) forget(r *heldReply) {
	if r.bytes != nil {
		s.keep(-cap(r.bytes.B) - partCost)
		memory.GiveBuffer(r.bytes)
		return
	}
	for _, p := range r.large {
		s.loop.srv.acct.Release(p)
	}
	s.keep(-partCost)
}

// block keeps the session from its input until there is room.
func (s *session) block() {
	s.blocked = true
	s.loop.block(s)
}

// unblocked goes on after held replies or want of room had stopped the session.
func (s *session) unblocked() {
	s.goOnLater()
	if s.phase < phaseBusy {
		s.resume()
	}
	s.settle()
}

// hold puts s on the list of sessions with held replies.
func (l *loop) hold(s *session) {
	l.holders = append(l.holders, s)
	l.unfinished.Add(1)
	l.needs.Add(1)
	if s.commit <= s.acked() || l.srv.journal.Here() {
		// It was acknowledged since, and nobody knew that we wait; or it is for
		// us to have it written, once the other connections had their turns.
		l.tell()
	}
}

// block puts s on the list of sessions that wait for room.
func (l *loop) block(s *session) {
	l.blocked = append(l.blocked, s)
	l.needs.Add(1)
	if s.canAsk() {
		l.tell() // there is room since, and nobody knew that we wait
	}
}

// tell has the loop look at what its sessions wait for, if any does. It may be
// called by anyone.
func (l *loop) tell() {
	if l.needs.Load() > 0 && l.told.CompareAndSwap(false, true) {
		l.run()
	}
}

// letGo goes on with the sessions whose commits are acknowledged, or for whom
// there is room. One commit may be what thousands wait for: when the round is overdrawn
// the others wait for the next.
func (l *loop) letGo() {
	if l.needs.Load() == 0 {
		l.told.Store(false)
		return
	}
	if len(l.holders) > 0 {
		l.told.Store(true) // no need to be told what is seen below
		l.srv.journal.CommitHere()
	}
	l.told.Store(false)
	acked := l.srv.journal.Acked()
	kept := l.holders[:0]
	for i, s := range l.holders {
		if l.round.left <= -debtUnits {
			kept = append(kept, l.holders[i:]...)
			l.ask()
			break
		}
		if s.phase < phaseClosing && !s.letGo(acked) {
			kept = append(kept, s)
		} else {
			l.needs.Add(-1)
			l.unfinished.Add(-1)
		}
		if s.backed && s.heldOut <= s.unsentMax()/2 || len(s.replies) == 0 && (s.eof || s.leaving) {
			l.freed = append(l.freed, s)
		}
	}
	clear(l.holders[len(kept):])
	l.holders = kept
	// Only now, since a turn may bring its session onto the list again.
	for i, s := range l.freed {
		l.freed[i] = nil
		s.backed = false
		l.turn(s, (*session).unblocked)
	}
	l.freed = l.freed[:0]
	blocked := l.blocked
	l.blocked = nil
	for _, s := range blocked {
		switch {
		case s.phase >= phaseClosing:
			l.needs.Add(-1)
		case s.canAsk():
			l.needs.Add(-1)
			s.blocked = false
			l.turn(s, (*session).unblocked)
		default:
			l.blocked = append(l.blocked, s)
		}
	}
}
