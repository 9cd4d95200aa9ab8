package router

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/memory"
	"polystalk/shard/commit"
)

// input takes bytes from the connection; they are the caller's again when it
// returns.
func (s *session) input(b []byte) {
	if s.phase >= phaseClosing || s.dying {
		return
	}
	switch {
	case s.queued: // its turn comes
		s.hold(b)
	case s.in != nil:
		s.hold(b)
		s.resume()
	default:
		if n := s.process(b); s.phase < phaseClosing {
			s.hold(b[n:])
		}
	}
	s.bound()
	s.settle()
}

// hold keeps input that cannot be used yet.
func (s *session) hold(b []byte) {
	if len(b) == 0 {
		return
	}
	had := 0
	if s.in == nil {
		s.in = memory.TakeBuffer()
		s.inAt = 0
	} else {
		had = cap(s.in.B)
		if s.inAt > 0 && had-len(s.in.B) < len(b) {
			s.in.B = s.in.B[:copy(s.in.B, s.in.B[s.inAt:])]
			s.inAt = 0
		}
	}
	s.in.B = append(s.in.B, b...)
	if n := cap(s.in.B); n != had {
		s.keep(n - had)
	}
}

// bound pauses the connection when too much is held, after all that could be
// used of it was.
func (s *session) bound() {
	n, most := s.held(), s.heldMax()
	limit := most
	if s.queued {
		limit = min(limit, behindMax)
	}
	if n == 0 || n <= limit || s.paused || s.ending || s.dying {
		return
	}
	if s.paused = s.conn.Pause(); !s.paused && n > most {
		s.loop.srv.complain("closing a connection that sends on without waiting for its replies",
			"conn", s, "held", n, "unsent", s.conn.Unsent())
		s.abort()
	}
}

// held is the number of bytes that wait to be parsed.
func (s *session) held() int {
	if s.in == nil {
		return 0
	}
	return len(s.in.B) - s.inAt
}

// resume goes on with held input.
func (s *session) resume() {
	if s.in == nil || s.phase >= phaseClosing {
		return
	}
	s.inAt += s.process(s.in.B[s.inAt:])
	switch {
	case s.in == nil: // closed meanwhile
	case s.inAt == len(s.in.B):
		s.dropInput()
	case s.inAt > s.loop.srv.heldMax/4:
		n := copy(s.in.B, s.in.B[s.inAt:])
		s.in.B = s.in.B[:n]
		s.inAt = 0
	}
}

func (s *session) dropInput() {
	if s.in != nil {
		s.keep(-cap(s.in.B))
		memory.GiveBuffer(s.in)
		s.in = nil
		s.inAt = 0
	}
}

// process runs the commands at the front of b and returns how many bytes it
// used. It stops at an incomplete command, when the session cannot go on, and
// when the turn's budget is spent.
func (s *session) process(b []byte) (n int) {
	if s.gear != nil {
		return s.gear.process(b)
	}
	n = s.runCommands(b)
	if s.loop.ahead.puts > 0 || s.loop.ahead.at < s.loop.ahead.end || s.numbered.n > 0 {
		s.endAhead(len(b) - n)
	}
	return n
}

// runCommands is process for beanstalkd's protocol.
func (s *session) runCommands(b []byte) (n int) {
	for n < len(b) {
		if s.stalled || s.backed || s.blocked {
			return n
		}
		if s.leaving {
			return len(b)
		}
		switch s.phase {
		case phaseIdle:
			if s.loop.round.budget <= 0 && !s.loop.more() {
				s.loop.later(s)
				return n
			}
			used, more := s.command(b[n:])
			n += used
			if !more {
				return n
			}
		case phaseSkipLine:
			used, done := beanstalk.SkipLine(b[n:])
			n += used
			if done {
				s.phase = phaseIdle
				s.say(beanstalk.MsgBadFormat)
			} else if used == 0 {
				return n
			}
		case phaseSkipBody:
			used := min(s.skip, len(b)-n)
			n += used
			s.skip -= used
			if s.skip == 0 {
				s.phase = phaseIdle
				s.say(s.skipped)
			}
		case phaseBody:
			n += s.collect(b[n:])
		default:
			return n
		}
		s.loop.flushFull(s)
	}
	return n
}

// command parses and dispatches one command. more is false when b holds only
// a beginning.
func (s *session) command(b []byte) (n int, more bool) {
	n, err := s.parse(b)
	if n > 0 && !s.opening.over && s.opening.take(s, b[:n], err != nil, err == beanstalk.ErrLineTooLong) {
		return n, true
	}
	switch err {
	case nil:
		if n == 0 {
			if s.opening.takePart(s, b) {
				return len(b), true
			}
			return 0, false
		}
		switch s.room() {
		case commit.Wait:
			s.block()
			return 0, false
		case commit.Full:
			if s.cmd.Kind != beanstalk.Put || s.cmd.Size <= s.loop.srv.cfg.MaxJobSize && !s.cmd.Trailing {
				s.loop.round.budget--
				s.refuse()
				return n, true
			}
		}
		if s.largePut() && s.crowded(int(s.cmd.Size)) {
			return 0, false
		}
		s.loop.round.budget--
		return n + s.dispatch(b[n:]), true
	case beanstalk.ErrLineTooLong:
		s.phase = phaseSkipLine
	case beanstalk.ErrUnknownCommand:
		s.say(beanstalk.MsgUnknownCommand)
	default:
		if s.cmd.Kind != beanstalk.Unknown {
			s.loop.count(s.cmd.Kind) // Parse says when a bad line still counts
		}
		s.say(beanstalk.MsgBadFormat)
	}
	s.loop.round.budget--
	return n, true
}
