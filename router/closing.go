package router

import "polystalk/shard/core"

// close lets the client go: its connection, then what it holds. The order is
// the reference's (conn.c, connclose), which list-tubes shows: its jobs are
// ready again, the watch list is emptied, the used tube is let go.
func (s *session) close() {
	if s.phase >= phaseClosing {
		return
	}
	l := s.loop
	if s.phase == phaseWaiting {
		s.waited = true
		// Won or lost: nobody serves this wait any more, and a wake-up that
		// is under way finds the session closing; the job goes back with it.
		s.waiter.Claim(s.res.seq)
	}
	if s.putID != 0 {
		l.ended.Finish(s.putID)
		s.putID = 0
	}
	s.dropNumbers()
	s.phase = phaseClosing
	s.list = nil
	l.flush(s)
	if s.gear != nil {
		s.gear.sendKept(nil)
	}
	s.dropReplies()
	s.endBody()
	s.dropInput()
	switch {
	case s.dying:
		s.conn.Drop()
	case s.gear != nil && s.gear.refused:
		s.part()
	default:
		s.conn.Close()
	}
	// A client that is woken by a job given back finds all of them given
	// back: the reference does this in one go.
	l.batch.Defer = true
	s.startClosing()
	s.advance()
	l.batch.Defer = false
	l.batch.Deliver()
}

// gone ends the session. Only now does stats stop counting it: who sees one
// connection less also sees its jobs ready again.
func (s *session) gone() {
	s.phase = phaseGone
	if s.producer {
		s.loop.producers.Add(-1)
	}
	if s.worker {
		s.loop.workers.Add(-1)
	}
	if s.waited {
		s.loop.waiting.Add(-1)
	}
	s.loop.connections.Add(-1)
}

func (s *session) startClosing() {
	if s.gear != nil {
		s.gear.startClosing()
		return
	}
	if len(s.links) == 0 {
		s.gone()
		return
	}
	if len(s.links) == 1 && s.used.Shard == s.links[0].shard {
		s.closeLink(s.used.ID)
		return
	}
	s.res.at = 0
	s.returnNext()
}

func (s *session) closeLink(used core.TubeID) {
	l := &s.links[len(s.links)-1]
	op := &s.req.Op
	op.Kind, op.Client, op.Tube = core.OpClose, l.client, used
	s.submit(l.shard, stepClose)
}

// returnNext makes the jobs held in the next shard ready again; this also
// ends a wait there.
func (s *session) returnNext() {
	for ; s.res.at < len(s.links); s.res.at++ {
		if l := &s.links[s.res.at]; l.held > 0 || l.waiting {
			op := &s.req.Op
			op.Kind, op.Client = core.OpReturn, l.client
			s.submit(l.shard, stepReturn)
			return
		}
	}
	s.leaveNext()
}

// leaveMax watch list entries are taken off in one turn.
const leaveMax = 1024

// leaveNext takes the first entry off the watch list, then the used tube,
// then forgets the client in every shard.
func (s *session) leaveNext() {
	op := &s.req.Op
	if len(s.watched) > 0 {
		s.target = s.unwatch(0)
		if len(s.watched)%leaveMax == leaveMax-1 {
			s.submitLater(stepLeaveTube)
		} else {
			s.submit(s.target, stepLeaveTube)
		}
		return
	}
	op.Kind, op.Client, op.Tube = core.OpUnuse, 0, s.used.ID
	s.submit(s.used.Shard, stepLeaveUsed)
}

// closeStep takes the reply of one step.
func (s *session) closeStep(r *core.Reply) {
	if r.Status == core.StatusMore {
		s.submitLater(s.step)
		return
	}
	switch s.step {
	case stepReturn:
		s.res.at++
		s.returnNext()
	case stepLeaveTube:
		s.leaveNext()
	case stepLeaveUsed:
		s.closeLink(0)
	case stepClose:
		s.links = s.links[:len(s.links)-1]
		if len(s.links) > 0 {
			s.closeLink(0)
			return
		}
		s.gone()
	}
}
