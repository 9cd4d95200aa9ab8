package router

import (
	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// What needs space on the disk is let in before it changes anything: a command in one
// piece by the journal's Pressure, a body that comes in parts by a Claim that grows as
// they come, so that what a client only announces takes nothing. A session that waits for
// room is blocked (holding.go); one that goes lets go of its claim (endBody).

// A permit is what a session has of the journal's room.
type permit struct {
	claim commit.Claim
	waits bool   // it is for claim that the session is blocked, not for Pressure alone
	asked uint64 // … and this was Notified before the journal was asked
	unlet int64  // bytes for which the deferred operation waits, with its own; see unadmitted
}

// answered notes what the journal said of the claim; it was asked when Notified was asked.
func (p *permit) answered(asked uint64, answer commit.Pressure) commit.Pressure {
	p.asked, p.waits = asked, answer == commit.Wait
	return answer
}

// canAsk reports whether a blocked session may try its command again.
func (s *session) canAsk() bool {
	j := s.loop.srv.journal
	return j.Pressure() != commit.Wait && !(s.permit.waits && j.Notified() == s.permit.asked)
}

// room says whether the parsed command may be run: one that needs space on the
// disk waits or is refused while there is none, before it changes anything.
func (s *session) room() commit.Pressure {
	srv := s.loop.srv
	if srv.journal == nil || !needsSpace(s.cmd.Kind) {
		return commit.Open
	}
	if s.largePut() {
		return s.mayFit(int(s.cmd.Size))
	}
	s.permit.waits = false
	p := srv.journal.Pressure()
	if p == commit.Full && s.cmd.Kind == beanstalk.ReserveJob {
		return commit.Open // it goes on, but is not recorded
	}
	return p
}

// largePut reports whether the parsed command is followed by a large body that is to be
// received.
func (s *session) largePut() bool {
	size := s.cmd.Size
	return s.cmd.Kind == beanstalk.Put && size > slab.MaxSize && size <= s.loop.srv.cfg.MaxJobSize && !s.cmd.Trailing
}

// room is session.room for Gearman: submissions that are recorded need space.
func (g *gearSession) room() commit.Pressure {
	s := g.s
	if !g.recorded() {
		return commit.Open
	}
	if size := g.m.Size; size > slab.MaxSize {
		return s.mayFit(size)
	}
	s.permit.waits = false
	return s.loop.srv.journal.Pressure()
}

// recorded reports whether the message's data is to be recorded.
func (g *gearSession) recorded() bool {
	_, background, submits := g.m.Type.Submits()
	return submits && background && g.s.loop.srv.journal != nil
}

// mayFit says whether a large body of size bytes is worth being received.
func (s *session) mayFit(size int) commit.Pressure {
	j := s.loop.srv.journal
	asked := j.Notified()
	p := s.permit.answered(asked, j.Fits(&s.permit.claim, int64(size)))
	if p == commit.Full {
		s.loop.srv.complain("a body is refused that is larger than what the disk has room for", "conn", s, "bytes", size)
	}
	return p
}

// admit asks the journal for room for so many bytes altogether.
func (s *session) admit(bytes int64) commit.Pressure {
	j := s.loop.srv.journal
	asked := j.Notified()
	return s.permit.answered(asked, j.Claim(&s.permit.claim, bytes))
}

// stepMax bytes are asked for ahead of those that have come.
const stepMax = 1 << 20

// keepsRoom says whether there is room for n more bytes of the body being read, of size
// bytes altogether, both with the names that go with it, and asks for more in one go.
func (s *session) keepsRoom(n, size int) commit.Pressure {
	need := int64(s.got + n + headMax)
	if need <= s.permit.claim.Bytes() {
		return commit.Open
	}
	p := s.admit(min(need+min(need, stepMax), int64(size+headMax)))
	if p == commit.Full && size > slab.MaxSize+headMax {
		s.loop.srv.complain("a body is refused in the middle: the disk is full", "conn", s, "bytes", size, "received", s.got)
	}
	return p
}

// headMax bytes are more than a job takes in the journal besides its body and names.
const headMax = 256

// unadmitted reports whether the operation under way has come back for want of room for
// the body of the job that it is about: a foreground job's that is to be kept. It is
// run again once there is room. The shard may be owned.
func (s *session) unadmitted(r *core.Reply) bool {
	op := &s.req.Op
	own := s.permit.claim.Bytes() - int64(op.Admitted) // for its own body, if it has one
	op.Admitted = 0
	if r.Status != core.StatusUnadmitted {
		return false
	}
	s.req.Keep() // the input goes on
	op.Admitted = r.N
	s.permit.unlet = own + int64(r.N)
	s.submitLater(s.step)
	return true
}

// staysOut reports whether the deferred operation waits for room on, or is given up.
func (s *session) staysOut() bool {
	p := commit.Full
	switch {
	case s.dying:
	case s.blocked:
		return true
	default:
		if p = s.admit(s.permit.unlet); p == commit.Wait {
			s.block()
			return true
		}
	}
	s.permit.unlet = 0
	if p == commit.Open {
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
	if s.kept.large {
		s.leaveBodyRoom()
	}
	s.skipNumber()
	s.skipBody(beanstalk.MsgOutOfMemory)
}

// refuseBody answers a put for whose body, which is being read, there is no room.
func (s *session) refuseBody() {
	s.loop.ended.Finish(s.putID)
	s.putID = 0
	s.endBody()
	left := int(s.cmd.Size) + 2 - s.got
	s.skipBody(beanstalk.MsgOutOfMemory)
	s.skip = left
}

// refuseBody is session.refuseBody for the data of a submission.
func (g *gearSession) refuseBody() {
	s := g.s
	s.endBody()
	s.loop.out = gearman.AppendError(s.loop.out, gearman.ErrorQueue)
	s.skip = g.m.Size - s.got
	s.phase = phaseSkipBody
}
