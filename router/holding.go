package router

import (
	"github.com/valyala/bytebufferpool"

	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/shard"
	"polystalk/shard/journal"
	"polystalk/shard/slab"
)

// With a journal, a reply that tells of a change leaves once the change is
// acknowledged: durable, or written, as the policy has it. Commands go on
// meanwhile; their replies queue behind it, in order and bounded.

// A heldReply is output that waits for a commit.
type heldReply struct {
	commit uint64
	bytes  *bytebufferpool.ByteBuffer
	large  shard.Large // instead of bytes
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
func (s *session) holdReply(p []byte, large shard.Large) {
	n := len(s.replies)
	if n == 0 {
		s.loop.hold(s)
	}
	s.heldOut += len(p) + large.Len()
	if s.heldOut > unsentMax {
		s.backed = true
	}
	if large != nil {
		s.replies = append(s.replies, heldReply{commit: s.commit, large: large})
		return
	}
	if n > 0 {
		last := &s.replies[n-1]
		if last.commit == s.commit && last.large == nil && len(last.bytes.B) < coalesceMax {
			last.bytes.B = append(last.bytes.B, p...)
			return
		}
	}
	b := bytebufferpool.Get()
	b.B = append(b.B[:0], p...)
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
			s.conn.WriteStable(r.large)
			continue
		}
		s.heldOut -= len(r.bytes.B)
		s.conn.Write(r.bytes.B)
		bytebufferpool.Put(r.bytes)
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
		if b := s.replies[i].bytes; b != nil {
			bytebufferpool.Put(b)
		}
	}
	s.replies, s.heldOut = nil, 0
}

// room says whether the parsed command may be run: one that needs space on the
// disk waits or is refused while there is none, before it changes anything.
func (s *session) room() journal.Pressure {
	srv := s.loop.srv
	if srv.journal == nil || !needsSpace(s.cmd.Kind) {
		return journal.Open
	}
	if size := s.cmd.Size; s.cmd.Kind == beanstalk.Put && size > slab.MaxSize && size <= srv.cfg.MaxJobSize && !s.cmd.Trailing {
		return s.admit(int64(size))
	}
	s.admission = false
	p := srv.journal.Pressure()
	if p == journal.Full && s.cmd.Kind == beanstalk.ReserveJob {
		return journal.Open // it goes on, but is not recorded
	}
	return p
}

// room is session.room for Gearman: submissions that are recorded need space.
func (g *gearSession) room() journal.Pressure {
	s := g.s
	j := s.loop.srv.journal
	if j == nil {
		return journal.Open
	}
	if _, background, ok := g.m.Type.Submits(); !ok || !background {
		return journal.Open
	}
	if size := int64(g.m.Size); size > slab.MaxSize {
		return s.admit(size)
	}
	s.admission = false
	return j.Pressure()
}

// admit asks the journal to let a large body in.
func (s *session) admit(size int64) journal.Pressure {
	j := s.loop.srv.journal
	s.asked = j.Notified()
	p := j.Admit(size)
	s.admission = p == journal.Wait
	if p == journal.Open {
		s.promised = size
	}
	return p
}

// unadmitted reports whether the operation under way has come back for want of room for
// the body of the job that it is about: a foreground job's that is to be kept. It is
// run again once there is room. The shard may be owned.
func (s *session) unadmitted(r *shard.Reply) bool {
	op := &s.req.Op
	own := s.promised - int64(op.Admitted) // for its own body, if it has one
	op.Admitted = 0
	if r.Status != shard.StatusUnadmitted {
		return false
	}
	s.req.Keep() // the input goes on
	op.Admitted = r.N
	s.unlet = own + int64(r.N)
	s.submitLater(s.step)
	return true
}

// staysOut reports whether the deferred operation waits for room on, or is given up.
func (s *session) staysOut() bool {
	p := journal.Full
	switch {
	case s.dying:
	case s.blocked:
		return true
	default:
		s.dismiss() // what is kept for its own body is part of what it waits for
		if p = s.admit(s.unlet); p == journal.Wait {
			s.block()
			return true
		}
	}
	s.unlet = 0
	if p == journal.Open {
		return false
	}
	s.deferred, s.phase = false, phaseIdle
	s.endBody()
	s.req.Op.Admitted = 0
	s.req.Done()
	switch {
	case s.dying:
	case s.gear != nil:
		s.loop.out = gearman.AppendError(s.loop.out, gearman.ErrorQueue)
		s.reprobe = s.gear.early.first != nil // as after JOB_CREATED
		s.released()
	default:
		s.say(beanstalk.MsgOutOfMemory)
	}
	s.goOn()
	return true
}

func needsSpace(k beanstalk.Kind) bool {
	switch k {
	case beanstalk.Put, beanstalk.Release, beanstalk.Bury, beanstalk.Kick, beanstalk.KickJob, beanstalk.PauseTube, beanstalk.ReserveJob:
		return true
	}
	return false
}

// refuse answers a command for which the disk has no space.
func (s *session) refuse() {
	s.loop.count(s.cmd.Kind)
	if s.cmd.Kind != beanstalk.Put {
		s.say(beanstalk.MsgOutOfMemory)
		return
	}
	s.skipBody(beanstalk.MsgOutOfMemory)
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

// canAsk reports whether a blocked session may try its command again.
func (s *session) canAsk() bool {
	j := s.loop.srv.journal
	return j.Pressure() != journal.Wait && !(s.admission && j.Notified() == s.asked)
}

// tell has the loop look at what its sessions wait for, if any does. It may be
// called by anyone.
func (l *loop) tell() {
	if l.needs.Load() > 0 && l.told.CompareAndSwap(false, true) {
		l.run()
	}
}

// letGo goes on with the sessions whose commits are acknowledged, or for whom
// there is room.
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
	for _, s := range l.holders {
		if s.phase < phaseClosing && !s.letGo(acked) {
			kept = append(kept, s)
		} else {
			l.needs.Add(-1)
			l.unfinished.Add(-1)
		}
		if s.backed && s.heldOut <= unsentMax/2 || len(s.replies) == 0 && (s.eof || s.leaving) {
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
