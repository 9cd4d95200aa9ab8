package session

import (
	"github.com/valyala/bytebufferpool"

	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// A buffer is memory that a session borrows while it collects something.
type buffer = bytebufferpool.ByteBuffer

// bufferMax is the capacity up to which buffers are used again. The pool gives any of them
// to any session, so a few bytes could keep a megabyte.
const bufferMax = 64 << 10

// takeBuffer returns an empty buffer that is not much larger than what it may hold.
func takeBuffer() *buffer {
	b := bytebufferpool.Get()
	if cap(b.B) > bufferMax {
		b.B = nil
	}
	b.B = b.B[:0]
	return b
}

// giveBuffer gives it back; the caller must not use it afterwards.
func giveBuffer(b *buffer) {
	if cap(b.B) <= bufferMax {
		bytebufferpool.Put(b)
	}
}

// An input is what a session was sent and could not use yet.
type input struct {
	buf  *buffer // nil: nothing is held
	at   int     // where the held bytes begin in buf
	flow flow
}

// A flow is whether the connection brings input.
type flow uint8

const (
	flowing flow = iota
	paused       // until little is held
	last         // never paused again: the client has sent its last byte
)

// input takes bytes from the connection; they are the caller's again when it returns.
func (s *Session) input(b []byte) {
	s.activity.in += uint64(len(b))
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
	s.pauseAboveCap()
	if s.end == broken {
		s.Go()
		return
	}
	s.settle()
}

// process has the protocol run the commands at the front of b. All input of a quitting
// session is used up.
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
		in.buf = takeBuffer()
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
		s.AddUsage(n - had)
	}
}

// pauseAboveCap pauses the connection when more is held than its cap, after all that could
// be used of it was.
func (s *Session) pauseAboveCap() {
	n, most := s.held(), s.heldCap()
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

// LastInput tells that the client of a paused connection sends no more, so there is an end
// to what can still come. The connection is read again, whatever is held: only so is its
// end noticed.
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

// parse goes on with held input, unless the session has a turn for that in the queue.
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
		s.AddUsage(-cap(in.buf.B))
		giveBuffer(in.buf)
		in.buf, in.at = nil, 0
	}
}

// A Body is the body of a command that is being received. A body that will be copied into
// a slab is collected in a pooled buffer, a larger one in pieces that the shard keeps.
// Pieces start small, since an announcement alone allocates nothing, and double up to a
// size that is quickly zeroed.
type Body struct {
	pooled *buffer
	pieces core.Large
	size   int32         // bytes of the body
	got    int32         // bytes of it and its tail that have come
	tail   uint8         // bytes behind it that belong to it
	behind [tailMax]byte // the tail of a body in pieces
	listed bool          // it has a place among the large bodies, or waits for one
}

const (
	PieceMin = 64 << 10
	pieceMax = 1 << 20
	// tailMax is the longest tail of a body.
	tailMax = 2
)

// StartBody prepares for a body of size bytes that is not complete yet, and a tail of at
// most two bytes behind it.
func (s *Session) StartBody(size, tail int) {
	b := &s.body
	b.size, b.tail, b.got = int32(size), uint8(tail), 0
	if size <= slab.MaxSize {
		b.pooled = takeBuffer()
		s.AddUsage(cap(b.pooled.B))
	}
}

// Collect takes the body's bytes from the front of p, and returns how many those were. If
// the body is to be recorded, with names bytes of names, the log must have room: on Wait
// the session was stopped until it has, and on Refuse the rest, BodyLeft bytes, must be
// skipped.
func (s *Session) Collect(p []byte, names int, recorded bool) (n int, v verdict) {
	b := &s.body
	n = min(len(p), s.BodyLeft())
	if recorded && s.loop.host.Journal != nil {
		if v = s.admitPart(n+names, int(b.size)+int(b.tail)+names); v != Run {
			return 0, v
		}
	}
	if b.pooled != nil {
		had := cap(b.pooled.B)
		b.pooled.B = append(b.pooled.B, p[:n]...)
		if grown := cap(b.pooled.B) - had; grown != 0 {
			s.AddUsage(grown)
		}
	} else {
		s.collectLarge(p[:n])
	}
	b.got += int32(n)
	return n, Run
}

// collectLarge adds p to the pieces, and the tail to behind.
func (s *Session) collectLarge(p []byte) {
	b := &s.body
	at, size := int(b.got), int(b.size)
	for len(p) > 0 && at < size {
		i := len(b.pieces) - 1
		if i < 0 || len(b.pieces[i]) == cap(b.pieces[i]) {
			b.pieces = append(b.pieces, make([]byte, 0, min(pieceMax, max(PieceMin, at), size-at)))
			i++
			s.AddUsage(cap(b.pieces[i]))
		}
		piece := b.pieces[i]
		k := min(len(p), cap(piece)-len(piece))
		b.pieces[i] = append(piece, p[:k]...)
		at += k
		p = p[k:]
	}
	if len(p) > 0 {
		copy(b.behind[at-size:], p)
	}
}

// BodyLeft returns how many bytes of the body and its tail have not come.
func (s *Session) BodyLeft() int { return int(s.body.size) + int(s.body.tail) - int(s.body.got) }

// Collected returns the complete body and its tail. A small body is valid until EndBody, a
// large one is the caller's.
func (s *Session) Collected() (small []byte, large core.Large, tail []byte) {
	b := &s.body
	if b.pooled != nil {
		return b.pooled.B[:b.size], nil, b.pooled.B[b.size:]
	}
	return nil, b.pieces, b.behind[:b.tail]
}

// HasBody reports whether some of a body is kept.
func (s *Session) HasBody() bool { return s.body.pooled != nil || s.body.pieces != nil }

// EndBody drops the collected body, its place and its claim on the log: it was handed over
// or refused, or will not come.
func (s *Session) EndBody() {
	b := &s.body
	if b.listed {
		s.freePlace()
	}
	if b.pooled != nil {
		s.AddUsage(-cap(b.pooled.B))
		giveBuffer(b.pooled)
		b.pooled = nil
	}
	for _, p := range b.pieces {
		s.AddUsage(-cap(p))
	}
	b.pieces = nil
	if j := s.loop.host.Journal; j != nil {
		j.Release(&s.room.claim)
	}
}
