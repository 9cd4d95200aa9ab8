package session

import (
	"github.com/valyala/bytebufferpool"

	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// A buffer is memory from a pool, in which a session collects bytes.
type buffer = bytebufferpool.ByteBuffer

// bufferMax is the largest capacity of a buffer in the pool. A larger one could later hold a
// few bytes of any session.
const bufferMax = 64 << 10

// takeBuffer returns an empty buffer, with a capacity of at most bufferMax.
func takeBuffer() *buffer {
	b := bytebufferpool.Get()
	if cap(b.B) > bufferMax {
		b.B = nil
	}
	b.B = b.B[:0]
	return b
}

// giveBuffer returns b to the pool; the caller must not use it afterwards.
func giveBuffer(b *buffer) {
	if cap(b.B) <= bufferMax {
		bytebufferpool.Put(b)
	}
}

// An input holds received bytes that the session could not use yet.
type input struct {
	buf  *buffer // nil: nothing is held
	at   int     // where the held bytes begin in buf
	flow flow
}

// A flow says whether the session reads from its connection.
type flow uint8

const (
	flowing flow = iota
	paused       // until held input has shrunk
	last         // never paused again: the client has sent its last byte
)

// input processes bytes from the connection. It does not keep b.
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

// process lets the protocol run the commands at the front of b, and returns the number of bytes
// used. A quitting session discards all input.
func (s *Session) process(b []byte) (n int) {
	n = s.proto.Input(b)
	if s.end >= quitting {
		return len(b)
	}
	return n
}

// hold keeps a copy of input that cannot be used yet.
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

// pauseAboveCap pauses the connection when held input exceeds its cap. It is called after the
// usable input was processed.
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
		s.loop.host.Complain("closing a connection: it sends more commands than the server may hold, and cannot be paused",
			"conn", s, "held", n, "unsent", s.conn.Unsent())
		s.Abort()
	}
}

// readAgain ends a pause. It aborts the session if that fails.
func (s *Session) readAgain() bool {
	if !s.conn.Resume() {
		s.Abort()
		return false
	}
	s.in.flow = flowing
	return true
}

// LastInput notes that the client of a paused connection has stopped sending, so the remaining
// input is bounded. Reading resumes even if much input is held, because only a read notices the
// end.
func (s *Session) LastInput() {
	if s.in.flow != paused || s.life >= closing || s.end == broken {
		return
	}
	if s.readAgain() {
		s.in.flow = last
	}
}

// held returns the number of bytes that wait to be parsed.
func (s *Session) held() int {
	if s.in.buf == nil {
		return 0
	}
	return len(s.in.buf.B) - s.in.at
}

// parse processes held input, unless the session is queued for a turn.
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
// a slab is collected in a pooled buffer, a larger one in pieces that the shard keeps. The
// announced size alone allocates nothing: pieces start small and double up to pieceMax, which
// is quick to zero.
type Body struct {
	pooled *buffer
	pieces core.Large
	size   int32         // bytes of the body
	got    int32         // received bytes of the body and its tail
	tail   uint8         // bytes of the tail: \r\n after a beanstalkd job
	behind [tailMax]byte // the tail of a body in pieces
	listed bool          // it has or awaits a place; see bodyPlaces
	paid   bool          // its put is taken from the identity's rate; see pay
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

// Collect takes the body's bytes from the front of p, and returns their number. recorded means
// that the body will be recorded, with names bytes of names, so the log must have room. On Wait
// the session is stopped until the log has room. On Refuse the caller must skip the rest,
// BodyLeft bytes.
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

// BodyLeft returns how many bytes of the body and its tail were not received yet.
func (s *Session) BodyLeft() int { return int(s.body.size) + int(s.body.tail) - int(s.body.got) }

// Collected returns the complete body and its tail. A small body is valid until EndBody; the
// caller owns a large one.
func (s *Session) Collected() (small []byte, large core.Large, tail []byte) {
	b := &s.body
	if b.pooled != nil {
		return b.pooled.B[:b.size], nil, b.pooled.B[b.size:]
	}
	return nil, b.pieces, b.behind[:b.tail]
}

// EndBody releases the collected body, its slot for large bodies and its space in the journal, after
// the body was handed over, refused or abandoned.
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
