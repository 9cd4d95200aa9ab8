package router

import (
	"bytes"

	"polystalk/router/memory"
	"polystalk/shard/commit"
	"polystalk/shard/slab"
)

// A body that does not arrive at once is collected: in a pooled buffer when it
// will be copied into a slab, else in pieces that the shard keeps. Pieces start
// small, since what a client only announces is not allocated, and double up to
// a size that is quickly zeroed.
const (
	pieceMin = 64 << 10
	pieceMax = 1 << 20
)

// startBody prepares for a body of size bytes (with its \r\n) that is not all
// there.
func (s *session) startBody(size int) {
	s.got = 0
	if size-2 <= slab.MaxSize {
		s.pooled = memory.TakeBuffer()
		s.pooled.B = s.pooled.B[:0]
		s.keep(cap(s.pooled.B))
	}
}

// collect takes what belongs to the body being read, and returns how much
// that was: nothing when there is no room for it.
func (s *session) collect(b []byte) (n int) {
	size := int(s.cmd.Size)
	n = min(len(b), size+2-s.got)
	if s.loop.srv.journal != nil {
		switch s.keepsRoom(n+len(s.used.Name), size+2+len(s.used.Name)) {
		case commit.Wait:
			s.block()
			return 0
		case commit.Full:
			s.refuseBody()
			return 0
		}
	}
	b = b[:n]
	if s.pooled != nil {
		s.pool(b)
	} else {
		s.collectLarge(b, size)
	}
	s.got += n
	if s.got < size+2 {
		return n
	}
	if s.pooled != nil {
		s.enqueue(s.pooled.B[:size], s.pooled.B[size:])
	} else {
		s.enqueue(nil, s.tail[:])
	}
	return n
}

// pool adds b to the pooled body.
func (s *session) pool(b []byte) {
	had := cap(s.pooled.B)
	s.pooled.B = append(s.pooled.B, b...)
	if n := cap(s.pooled.B); n != had {
		s.keep(n - had)
	}
}

// collectLarge adds b to the pieces, and what is behind the body to tail.
func (s *session) collectLarge(b []byte, size int) {
	at := s.got
	for len(b) > 0 && at < size {
		last := len(s.pieces) - 1
		if last < 0 || len(s.pieces[last]) == cap(s.pieces[last]) {
			s.pieces = append(s.pieces, make([]byte, 0, min(pieceMax, max(pieceMin, at), size-at)))
			last++
			s.keep(cap(s.pieces[last]))
		}
		p := s.pieces[last]
		k := min(len(b), cap(p)-len(p))
		s.pieces[last] = append(p, b[:k]...)
		at += k
		b = b[k:]
	}
	if len(b) > 0 {
		copy(s.tail[at-size:], b)
	}
}

// endBody lets go of the collected body.
func (s *session) endBody() {
	if s.kept.large {
		s.leaveBodyRoom()
	}
	if s.pooled != nil {
		s.keep(-cap(s.pooled.B))
		memory.GiveBuffer(s.pooled)
		s.pooled = nil
	}
	for _, p := range s.pieces {
		s.keep(-cap(p))
	}
	s.pieces = nil
	if j := s.loop.srv.journal; j != nil {
		j.Release(&s.permit.claim)
	}
}

func isCRLF(b []byte) bool { return bytes.Equal(b, crlf) }

var crlf = []byte("\r\n")
