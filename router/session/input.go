package session

import (
	"polystalk/router/memory"
)

// An input is what a session was sent and could not use yet.
type input struct {
	buf  *memory.Buffer // nil: nothing is held
	at   int            // what is held begins there in buf
	flow flow
}

// A flow is whether the connection brings input.
type flow uint8

const (
	flowing flow = iota
	paused       // until little of it is held
	last         // it is not to be paused any more: there is an end to what can still come
)

// input takes bytes from the connection; they are the caller's again when it returns.
func (s *Session) input(b []byte) {
	s.notes.in += uint64(len(b))
	if s.life >= closing || s.end == broken {
		return
	}
	switch {
	case s.queued: // its turn comes
		s.hold(b)
	case s.in.buf != nil:
		s.hold(b)
		s.parse()
	default:
		if n := s.process(b); s.life < closing {
			s.hold(b[n:])
		}
	}
	s.bound()
	if s.end == broken {
		s.Go()
		return
	}
	s.settle()
}

// process has the protocol run the commands at the front of b. Who is quitting is not
// listened to.
func (s *Session) process(b []byte) (n int) {
	n = s.proto.Input(b)
	if s.end >= quitting {
		return len(b)
	}
	return n
}

// hold keeps input that cannot be used yet.
func (s *Session) hold(b []byte) {
	if len(b) == 0 {
		return
	}
	in := &s.in
	had := 0
	if in.buf == nil {
		in.buf = memory.TakeBuffer()
		in.at = 0
	} else {
		had = cap(in.buf.B)
		if in.at > 0 && had-len(in.buf.B) < len(b) {
			in.buf.B = in.buf.B[:copy(in.buf.B, in.buf.B[in.at:])]
			in.at = 0
		}
	}
	in.buf.B = append(in.buf.B, b...)
	if n := cap(in.buf.B); n != had {
		s.Charge(n - had)
	}
}

// bound pauses the connection when too much is held, after all that could be used of it
// was.
func (s *Session) bound() {
	n, most := s.held(), s.heldMost()
	limit := most
	if s.queued {
		limit = min(limit, BehindMax)
	}
	if n == 0 || n <= limit || s.in.flow != flowing || s.end == broken {
		return
	}
	if s.conn.Pause() {
		s.in.flow = paused
		return
	}
	if n > most {
		s.loop.host.Complain("closing a connection that sends on without waiting for its replies",
			"conn", s, "held", n, "unsent", s.conn.Unsent())
		s.Abort()
	}
}

// readAgain ends a pause, and the session if that cannot be done.
func (s *Session) readAgain() bool {
	if !s.conn.Resume() {
		s.Abort()
		return false
	}
	s.in.flow = flowing
	return true
}

// LastInput: the client of a paused connection sends no more, so there is an end to what
// can still come. It is read whatever is held, since that is how the end is noticed.
func (s *Session) LastInput() {
	if s.in.flow != paused || s.life >= closing || s.end == broken {
		return
	}
	if s.readAgain() {
		s.in.flow = last
	}
}

// held is the number of bytes that wait to be parsed.
func (s *Session) held() int {
	if s.in.buf == nil {
		return 0
	}
	return len(s.in.buf.B) - s.in.at
}

// parse goes on with held input, unless the session is to have its turn for that.
func (s *Session) parse() {
	in := &s.in
	if in.buf == nil || s.life >= closing || s.queued {
		return
	}
	in.at += s.process(in.buf.B[in.at:])
	switch {
	case in.buf == nil: // closed meanwhile
	case in.at == len(in.buf.B):
		s.dropInput()
	case in.at > s.loop.host.HeldMost/4:
		n := copy(in.buf.B, in.buf.B[in.at:])
		in.buf.B = in.buf.B[:n]
		in.at = 0
	}
}

func (s *Session) dropInput() {
	if in := &s.in; in.buf != nil {
		s.Charge(-cap(in.buf.B))
		memory.GiveBuffer(in.buf)
		in.buf, in.at = nil, 0
	}
}
