package router

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/memory"
	"polystalk/router/placement"
	"polystalk/shard/core"
	"polystalk/shard/listindex"
)

type phase uint8

const (
	phaseIdle     phase = iota // parses commands
	phaseSkipLine              // discards an over-long line
	phaseSkipBody              // discards the body of a job that is too big
	phaseBody                  // collects the body of a put
	phaseBusy                  // an operation is under way in a shard
	phaseWaiting               // a reserve waits
	phaseClosing               // gives back what it has; no more input or output
	phaseGone
)

// A session is one client: its used tube, its watch list, its place in the
// protocol. It belongs to one event loop and is touched only there. One
// operation is under way at a time, so replies come in order by themselves;
// input that arrives meanwhile is held.
type session struct {
	loop  *loop
	conn  Conn
	phase phase
	step  step

	eof     bool // the client sends no more; answer what is here, then close
	leaving bool // it has quit, and is closed once it has its replies
	dying   bool // close as soon as the operation under way is back
	stalled bool // replies are not being read
	backed  bool // too many replies wait for commits
	blocked bool // the next command, or part of a body, waits for room on the disk

	paused   bool // the connection brings no input
	ending   bool // … and is not to be paused again
	queued   bool // on the loop's list of sessions that go on in a later turn
	pending  bool // req holds an operation that is to be run on shard target
	deferred bool // … in a later turn
	reprobe  bool // lookAgain is to be called once no shard is owned
	waited   bool // closed in a wait, and counted as waiting until it is gone
	producer bool
	worker   bool

	opening opening

	in    *memory.Buffer // held input, from inAt on
	inAt  int
	large core.Large // body to send after out, once the shard is released

	cmd     beanstalk.Command // its Name is good while the command is dispatched
	got     int               // bytes of the put being read, of its body and \r\n
	pooled  *memory.Buffer
	pieces  core.Large
	tail    [2]byte // what follows a body in pieces
	skip    int     // bytes of body still to discard
	skipped string  // the reply after that
	putID   core.JobID

	numbered idRun // ids of puts that were not run yet; see ahead.go

	used    placement.Tube
	watched []*core.Face
	byName  listindex.Index // of watched, once that is long
	spread  bool            // the entries of watched publish their best keys: they are, or were, in several shards
	links   []link
	byShard []int32 // links by shard plus one, once links is long

	commit  uint64 // what has been said depends on it
	replies []heldReply
	heldOut int // bytes in replies
	permit  permit

	target int // shard of req
	req    core.Message
	waiter core.Waiter
	res    reserving
	survey *survey // nil: no reserve has reached over several shards
	gather gathering
	list   listing // what is left of the reply under way, if that comes in parts

	kept keeping

	gear *gearSession // nil: it speaks the beanstalkd protocol
}

// say answers with a fixed reply.
func (s *session) say(msg string) { s.loop.out = append(s.loop.out, msg...) }

// submit has the operation in req run on shard sh; handle gets its reply.
func (s *session) submit(sh int, st step) {
	s.target = sh
	s.step = st
	s.pending = true
}

// submitLater is submit for a further part of bounded work: the loop's other
// connections come first.
func (s *session) submitLater(st step) {
	s.step = st
	s.deferred = true
	s.loop.round.budget -= partUnits
	if s.phase < phaseClosing {
		s.phase = phaseBusy
	}
	s.loop.later(s)
}

// again is the session's turn after later.
func (s *session) again() {
	if s.deferred {
		if s.gear != nil && s.gear.held() || s.step == stepKick && s.kickStops() || s.permit.unlet > 0 && s.staysOut() {
			return
		}
		s.deferred = false
		s.pending = true
		if s.phase == phaseBusy {
			s.phase = phaseIdle
		}
	}
	if s.res.later {
		s.lookNow()
	}
	if s.list != nil && !s.saysOn() {
		return
	}
	s.goOn()
}

// advance runs what was submitted, step by step, until the command is done
// or a shard is busy. Then its message is left there, and completed goes on.
func (s *session) advance() {
	l := s.loop
	for s.pending {
		s.pending = false
		sh := l.srv.places.Shard(s.target)
		if !sh.Own(&l.batch) {
			s.req.Keep()
			if s.phase < phaseClosing {
				s.phase = phaseBusy
			}
			l.unfinished.Add(1)
			sh.Send(&l.batch, &s.req)
			return
		}
		sh.Apply(&l.batch, &s.req.Op, &s.req.Reply)
		// The reply's body is copied out under ownership; a next step is only
		// noted, since it must not run while a shard is owned.
		s.handle(&s.req.Reply)
		sh.Release(&l.batch)
		s.released()
	}
}

// released does what handle left to be done with no shard owned.
func (s *session) released() {
	if s.large != nil {
		s.sendLarge()
	}
	if s.reprobe {
		s.reprobe = false
		if s.gear != nil {
			s.gear.again()
			return
		}
		s.lookAgain()
	}
}

// sendLarge sends a body too large to be copied, which handle left here.
func (s *session) sendLarge() {
	s.loop.flush(s)
	if s.mustHold() {
		s.holdReply(nil, s.large)
	} else {
		s.conn.WriteStable(s.large)
		s.checkUnsent()
	}
	s.loop.round.budget -= s.large.Len() / budgetBytes
	s.large, s.req.Reply.Large = nil, nil // nothing here keeps it when it is deleted
	if s.gear == nil {
		s.say("\r\n")
	}
}

// completed takes back a message that went through a shard's inbox, or the
// wake-up of a waiting reserve.
func (s *session) completed(m *core.Message) {
	switch {
	case m == &s.waiter.Msg:
		s.woken()
	case s.gear != nil && m == &s.gear.mail.Msg:
		s.gear.hearMail()
	default:
		s.loop.unfinished.Add(-1)
		if s.phase == phaseBusy {
			s.phase = phaseIdle
		}
		s.handle(&m.Reply)
		if s.permit.unlet == 0 {
			m.Done()
		}
	}
	s.released()
	s.goOn()
}

// goOn continues after an operation came back, or in a later turn.
func (s *session) goOn() {
	s.advance()
	switch {
	case s.phase == phaseWaiting && s.dying:
		s.close()
	case s.phase >= phaseBusy:
	case s.dying:
		s.close()
	default:
		s.resume()
		s.settle()
	}
}

// settle ends a turn of the session: a paused connection is read again, and a
// client that sends no more is let go once everything it sent is answered.
func (s *session) settle() {
	if s.phase >= phaseBusy || s.stalled || s.backed || s.blocked || s.queued || s.dying {
		return
	}
	if s.paused && s.held() <= s.loop.srv.heldMax/4 {
		if s.conn.Unsent() > 0 {
			s.stalled = true // until drained is called
			return
		}
		if s.paused = !s.conn.Resume(); s.paused {
			s.abort()
			return
		}
	}
	if s.eof || s.leaving {
		s.loop.flush(s) // what this turn said may have to wait
		if len(s.replies) == 0 {
			s.close()
		}
	}
}

// drained is called when the connection has sent everything.
func (s *session) drained() {
	s.listKeeper()
	if !s.stalled {
		return
	}
	s.stalled = false
	s.goOnLater()
	if s.phase < phaseBusy {
		s.resume()
	}
	s.settle()
}

// goOnLater: what was put off may have waited for more than its turn.
func (s *session) goOnLater() {
	if s.deferred || s.list != nil {
		s.loop.later(s)
	}
}

// lastInput: the client of a paused connection sends no more, so there is an
// end to what can still come. It is read whatever is held, since that is how
// the end is noticed.
func (s *session) lastInput() {
	if !s.paused || s.phase >= phaseClosing || s.dying {
		return
	}
	s.ending = true
	if s.paused = !s.conn.Resume(); s.paused {
		s.abort()
	}
}

// endOfInput is a half-close: what was sent is answered, then the connection
// is closed. A waiting reserve times out.
func (s *session) endOfInput() {
	if s.phase >= phaseClosing {
		return
	}
	s.eof = true
	if s.phase == phaseWaiting {
		s.giveUp()
		s.advance()
		if s.phase < phaseBusy {
			s.resume()
		}
	}
	s.settle()
}

// abort ends the session without answering any more. An operation under way
// comes back first: what it did must be known to be undone.
func (s *session) abort() {
	s.dying = true
	s.listKeeper()
	s.goOnLater()
	if s.phase != phaseBusy && s.phase < phaseClosing && !s.pending {
		s.close()
	}
}
