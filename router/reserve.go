package router

import (
	"polystalk/codec/beanstalk"
	"polystalk/shard"
)

// reserving is what a reserve remembers between its steps.
//
// A watch list within one shard is one visit: the shard picks, or queues the
// client. A list over several shards goes like this:
//
//	probe     read the published best keys, visit the shard of the best; it
//	          serves only what is not behind the second best (Bound). It
//	          finds something else there: read again.
//	margin    nothing anywhere and no wish to wait: ask the shards where the
//	          client holds jobs whether DEADLINE_SOON is due.
//	register  else queue in every shard with watched tubes or held jobs. One
//	          claim word decides which of them serves; each looks once more
//	          for a ready job while it queues the client, so nothing that
//	          came since the probe is missed.
//	cancel    leave the queues of the others.
//
// For commands that do not overlap in time this picks what one big queue
// would pick.
type reserving struct {
	until shard.Time // relative wait asked for: zero, some seconds, or Never
	end   shard.Time // the same as a moment in time awake
	at    int        // index into links: the next to ask
	seq   uint64     // the wait's number; zero: none is armed
	woken bool       // waiter.Msg came back while still registering
}

// reserve starts a reserve that waits at most d.
func (s *session) reserve(d shard.Time) {
	s.setWorker()
	s.res.until = d
	s.res.end = shard.Never
	if d != shard.Never {
		s.res.end = s.loop.batch.Now - s.loop.batch.Slept + d
	}
	if len(s.links) == 1 {
		s.reserveAt(&s.links[0], stepReserve, d != 0, false)
		return
	}
	watching, holding := -1, false
	for i := range s.links {
		switch l := &s.links[i]; {
		case l.watching == 0:
			holding = holding || l.held > 0
		case watching == -1:
			watching = i
		default:
			s.probe()
			return
		}
	}
	if holding {
		s.probe()
		return
	}
	s.reserveAt(&s.links[watching], stepReserve, d != 0, false)
}

// reserveAt submits a reserve to one shard.
func (s *session) reserveAt(l *link, st step, wait, multi bool) {
	op := &s.req.Op
	op.Kind, op.Client, op.Bound = shard.OpReserve, l.client, shard.MaxKey
	op.Wait, op.Multi = wait, multi
	if wait {
		if s.res.seq == 0 {
			s.res.seq = s.waiter.Arm()
		}
		op.Seq, op.Until = s.res.seq, s.res.end
	}
	s.submit(l.shard, st)
}

// probe visits the shard with the best published key.
func (s *session) probe() {
	for i := range s.links {
		if l := &s.links[i]; l.watching > 0 {
			s.loop.srv.shards[l.shard].Catchup(&s.loop.batch)
		}
	}
	best, second := shard.MaxKey, shard.MaxKey
	at := -1
	if !s.spread {
		// All of the list is in one shard, which must be asked.
		at = s.shardOfWatch(0)
	} else {
		for i, w := range s.watched {
			k, ok := w.Load()
			if !ok || !k.Less(second) {
				continue
			}
			sh := s.shardOfWatch(i)
			switch {
			case k.Less(best):
				if sh != at {
					second = best
				}
				best, at = k, sh
			case sh != at:
				second = k
			}
		}
	}
	s.loop.round.budget -= len(s.watched) / 16
	if at < 0 {
		s.noneReady()
		return
	}
	s.reserveAt(s.linkTo(at), stepProbe, false, false)
	s.req.Op.Bound = second
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
			s.reserveAt(l, stepMargin, false, false)
			return
		}
	}
	s.say(beanstalk.MsgTimedOut)
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

// reserveStep takes the reply of one step.
func (s *session) reserveStep(r *shard.Reply, l *link) {
	switch s.step {
	case stepProbe:
		if r.Status == shard.StatusReserved {
			s.sayReserved(r)
			return
		}
		if !s.spread {
			// The only shard with watched tubes has nothing; jobs are held
			// in others.
			if r.Status == shard.StatusDeadlineSoon {
				s.say(beanstalk.MsgDeadlineSoon)
				return
			}
			s.noneReady()
			return
		}
		s.reprobe = true // it may visit shards
	case stepMargin:
		if r.Status == shard.StatusTimedOut || r.Status == shard.StatusElsewhere {
			s.askMargin()
			return
		}
		s.sayReserve(r)
	case stepCancel:
		s.cancelNext()
	default:
		switch r.Status {
		case shard.StatusWaiting:
			l.waiting = true
			if s.step == stepReserve || s.res.woken {
				s.wait()
			} else {
				s.register()
			}
		case shard.StatusTaken:
			s.wait() // for the wake-up of the shard that took it
		default:
			if s.step == stepRegister {
				s.res.seq = 0 // claimed
			}
			s.sayReserve(r)
			s.cancelNext()
		}
	}
}

// sayReserve answers a reserve.
func (s *session) sayReserve(r *shard.Reply) {
	switch r.Status {
	case shard.StatusReserved:
		s.sayReserved(r)
	case shard.StatusDeadlineSoon:
		s.say(beanstalk.MsgDeadlineSoon)
	case shard.StatusTimedOut:
		s.say(beanstalk.MsgTimedOut)
	default:
		s.say(beanstalk.MsgInternalError)
	}
}

// woken takes the wake-up of the waiting reserve.
func (s *session) woken() {
	if s.phase == phaseBusy {
		s.res.woken = true // still registering; wait looks at it
		return
	}
	s.res.woken = false
	m := &s.waiter.Msg
	s.res.seq = 0
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
	s.cancelNext()
}

// giveUp ends a wait from the client's side: a half-close.
func (s *session) giveUp() {
	if !s.waiter.Claim(s.res.seq) {
		return // a shard was quicker; its wake-up is under way
	}
	s.res.seq = 0
	s.phase = phaseIdle
	s.loop.waiting.Add(-1)
	s.say(beanstalk.MsgTimedOut)
	s.cancelNext()
}

// cancelNext leaves the queue of the next shard in which the client still is.
func (s *session) cancelNext() {
	for i := range s.links {
		if l := &s.links[i]; l.waiting {
			l.waiting = false
			op := &s.req.Op
			op.Kind, op.Client = shard.OpCancel, l.client
			s.submit(l.shard, stepCancel)
			return
		}
	}
}
