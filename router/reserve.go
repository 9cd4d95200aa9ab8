package router

import (
	"polystalk/codec/beanstalk"
	"polystalk/shard/core"
)

// reserving is what a reserve remembers between its steps.
//
// A watch list within one shard is one visit: the shard picks, or queues the
// client. A list over several shards goes like this:
//
//	probe     survey the shards, visit the one with the best job. It serves it if
//	          that is still the best of all; else survey them again.
//	margin    nothing anywhere and no wish to wait: ask the shards where the
//	          client holds jobs whether DEADLINE_SOON is due.
//	register  else queue in every shard with watched tubes or held jobs, with a wait
//	          that is closed (core.Waiter). Each looks for a ready job while it
//	          queues the client. Once queued in all, open the wait: one claim
//	          decides which shard serves it.
//	cancel    leave the queues of the others.
//
// The proof that who waits has nothing ready: the wait was closed at a moment C, or
// reset; then each shard was visited, had nothing for the client, and left it in the
// queues of its tubes. A job that a shard was to keep since, after its visit, met the
// client in the queue and called. So when the wait is opened without having been
// called, at O, no watched tube has a job; and what is made ready from then on meets
// an open wait in the queue, and claims it before it is anybody else's. Thus
// who is served by a claim gets the best job there is, and a wait that ends with
// TIMED_OUT or DEADLINE_SOON by a claim ends when there is none. Called instead, the
// session surveys the shards again, and its place in the queues stays.
//
// Who watches tubes of one shard only and holds jobs in others is a case apart: the
// margin of those is asked for one moment, and the ready job for another.
type reserving struct {
	until core.Time // relative wait asked for: zero, some seconds, or Never
	end   core.Time // the same as a moment in time awake
	at    int       // index into links: the next to ask
	seq   uint64    // the wait's number; zero: none is armed
	later bool      // the survey goes on in a later turn
	woken bool      // waiter.Msg came back before the answer that the client waits
}

// reserve starts a reserve that waits at most d.
func (s *session) reserve(d core.Time) {
	s.setWorker()
	s.res.until = d
	s.res.end = core.Never
	if d != core.Never {
		s.res.end = s.loop.batch.Now - s.loop.batch.Slept + d
	}
	if len(s.links) == 1 {
		s.reserveAt(&s.links[0], stepReserve, d != 0, false)
		return
	}
	watching, far := -1, false
	for i := range s.links {
		switch l := &s.links[i]; {
		case l.watching == 0:
			far = far || l.held > 0
		case watching == -1:
			watching = i
		default:
			far = true
		}
	}
	if !far {
		s.reserveAt(&s.links[watching], stepReserve, d != 0, false)
		return
	}
	s.res.seq = 0 // of a reserve within one shard that had not to wait, perhaps
	s.probe()
}

// reserveAt submits a reserve to one shard.
func (s *session) reserveAt(l *link, st step, wait, multi bool) {
	op := &s.req.Op
	op.Kind, op.Client, op.Bound = core.OpReserve, l.client, core.MaxKey
	op.Wait, op.Multi, op.Until = wait, multi, s.res.end
	if wait && s.res.seq == 0 {
		if multi {
			s.res.seq = s.waiter.ArmClosed()
		} else {
			s.res.seq = s.waiter.Arm()
		}
	}
	op.Seq = s.res.seq
	s.submit(l.shard, st)
}

// probe surveys the shards and visits the one with the best job.
func (s *session) probe() {
	s.surveyed().begin()
	s.lookOn()
}

// lookOn goes on with the survey.
func (s *session) lookOn() {
	v := s.survey
	for {
		if !v.look() {
			if s.loop.srv.lookMax != lookMax {
				s.loop.round.budget -= roundUnits // a test has it look in many rounds
			}
			if s.mayLook() {
				continue
			}
			s.lookLater()
			return
		}
		if v.where >= 0 {
			s.reserveAt(s.linkTo(v.where), stepProbe, false, true)
			s.req.Op.Bound = v.bound
			return
		}
		if v.quiet(core.MaxKey, -1) {
			s.noneReady()
			return
		}
		v.begin()
		if !s.mayLook() {
			s.lookLater()
			return
		}
	}
}

// mayLook reports whether the survey may go on in this turn.
func (s *session) mayLook() bool {
	s.loop.round.budget--
	return s.loop.round.budget > 0 || s.loop.more()
}

// lookAgain is called when a shard did not serve what the survey had found.
func (s *session) lookAgain() {
	s.surveyed().begin()
	if s.mayLook() {
		s.lookOn()
		return
	}
	s.lookLater()
}

// lookLater goes on with the survey in a later turn.
func (s *session) lookLater() {
	s.res.later = true
	if s.phase < phaseClosing {
		s.phase = phaseBusy
	}
	s.loop.later(s)
}

// lookNow is the later turn.
func (s *session) lookNow() {
	s.res.later = false
	if s.phase == phaseBusy {
		s.phase = phaseIdle
	}
	if !s.dying {
		s.lookOn()
	}
}

// noneReady goes on when nothing can be reserved anywhere.
func (s *session) noneReady() {
	s.res.at = 0
	if s.res.until == 0 {
		s.askMargin()
		return
	}
	s.register()
}

// askMargin asks the next shard in which the client holds jobs whether one is
// about to run out.
func (s *session) askMargin() {
	for ; s.res.at < len(s.links); s.res.at++ {
		if l := &s.links[s.res.at]; l.held > 0 {
			s.res.at++
			s.reserveAt(l, stepMargin, false, true)
			return
		}
	}
	s.waiter.Take(s.res.seq)
	s.say(beanstalk.MsgTimedOut)
	s.reserved()
}

// register queues the client in the next shard that matters.
func (s *session) register() {
	for ; s.res.at < len(s.links); s.res.at++ {
		if l := &s.links[s.res.at]; l.watching > 0 || l.held > 0 {
			s.res.at++
			s.reserveAt(l, stepRegister, true, true)
			return
		}
	}
	if !s.waiter.Open(s.res.seq) {
		s.waiter.Reset(s.res.seq)
		s.reprobe = true
		return
	}
	s.wait()
}

// wait leaves the session waiting: the next thing to come is its wake-up.
func (s *session) wait() {
	if s.res.woken {
		s.phase = phaseIdle
		s.woken()
		return
	}
	s.phase = phaseWaiting
	s.loop.waiting.Add(1)
	if s.eof {
		s.giveUp()
	}
}

// reserved ends a reserve that was answered.
func (s *session) reserved() {
	s.res.seq = 0
	s.cancelNext()
}

// reserveStep takes the reply of one step.
func (s *session) reserveStep(r *core.Reply, l *link) {
	if s.step == stepCancel {
		s.cancelNext()
		return
	}
	switch r.Status {
	case core.StatusWaiting:
		l.waiting = true
		if s.step == stepReserve {
			s.wait()
		} else {
			s.register()
		}
	case core.StatusElsewhere:
		s.reprobe = true // it may visit shards
	case core.StatusTimedOut:
		switch {
		case s.step == stepMargin:
			s.askMargin()
		case s.step == stepRegister: // meanwhile
			s.res.until = 0
			s.reprobe = true
		case s.step == stepReserve:
			s.sayReserve(r)
		case s.spread:
			s.reprobe = true // others were quicker
		default:
			// The only shard with watched tubes has nothing; jobs are held in
			// others.
			s.noneReady()
		}
	default:
		s.sayReserve(r)
		if s.step != stepReserve {
			l.waiting = false
			s.reserved()
		}
	}
}

// sayReserve answers a reserve.
func (s *session) sayReserve(r *core.Reply) {
	switch r.Status {
	case core.StatusReserved:
		s.sayReserved(r)
	case core.StatusDeadlineSoon:
		s.say(beanstalk.MsgDeadlineSoon)
	case core.StatusTimedOut:
		s.say(beanstalk.MsgTimedOut)
	default:
		s.say(beanstalk.MsgInternalError)
	}
}

// woken takes the wake-up of the waiting reserve.
func (s *session) woken() {
	if s.phase == phaseBusy {
		s.res.woken = true // wait looks at it
		return
	}
	s.res.woken = false
	m := &s.waiter.Msg
	if s.phase == phaseWaiting {
		s.phase = phaseIdle
		s.loop.waiting.Add(-1)
	}
	if s.phase >= phaseClosing {
		m.Done()
		return
	}
	if l := s.learn(m.From, &m.Reply); l != nil {
		l.waiting = false
	}
	s.sayReserve(&m.Reply)
	m.Done()
	s.reserved()
}

// giveUp ends a wait from the client's side: a half-close.
func (s *session) giveUp() {
	if !s.waiter.Claim(s.res.seq) {
		return // a shard was quicker; its wake-up is under way
	}
	s.phase = phaseIdle
	s.loop.waiting.Add(-1)
	s.say(beanstalk.MsgTimedOut)
	s.reserved()
}

// cancelNext leaves the queue of the next shard in which the client still is.
func (s *session) cancelNext() {
	for i := range s.links {
		if l := &s.links[i]; l.waiting {
			l.waiting = false
			op := &s.req.Op
			op.Kind, op.Client = core.OpCancel, l.client
			s.submit(l.shard, stepCancel)
			return
		}
	}
}
