package session

import (
	"polystalk/router/memory"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// A Body is the body of a command that is being received. It is collected in a pooled
// buffer when it will be copied into a slab, else in pieces that the shard keeps. Pieces
// start small, since what a client only announces is not allocated, and double up to a
// size that is quickly zeroed.
type Body struct {
	pooled *memory.Buffer
	pieces core.Large
	size   int32         // bytes of the body
	got    int32         // bytes of it and its tail that have come
	tail   uint8         // bytes that belong to it behind
	behind [tailMax]byte // the tail of a body in pieces
	listed bool          // it is in the Host's room for bodies, or waits for it
}

const (
	PieceMin = 64 << 10
	pieceMax = 1 << 20
	// tailMax is the longest tail of a body.
	tailMax = 2
)

// StartBody prepares for a body of size bytes that is not all there, and a tail of at most
// two bytes behind it.
func (s *Session) StartBody(size, tail int) {
	b := &s.body
	b.size, b.tail, b.got = int32(size), uint8(tail), 0
	if size <= slab.MaxSize {
		b.pooled = memory.TakeBuffer()
		b.pooled.B = b.pooled.B[:0]
		s.Charge(cap(b.pooled.B))
	}
}

// Collect takes what belongs to the body from the front of p, and returns how much that
// was. If the body is to be recorded, with names of so many bytes, it may be that there is
// no room for it: on Wait the session is stopped until there is, and on Full the rest,
// BodyLeft bytes, is to be skipped.
func (s *Session) Collect(p []byte, names int, recorded bool) (n int, room commit.Pressure) {
	b := &s.body
	n = min(len(p), s.BodyLeft())
	if recorded {
		switch room = s.claimRoom(n+names, int(b.size)+int(b.tail)+names); room {
		case commit.Wait:
			s.Block()
			return 0, room
		case commit.Full:
			return 0, room
		}
	}
	if b.pooled != nil {
		had := cap(b.pooled.B)
		b.pooled.B = append(b.pooled.B, p[:n]...)
		if grown := cap(b.pooled.B) - had; grown != 0 {
			s.Charge(grown)
		}
	} else {
		s.collectLarge(p[:n])
	}
	b.got += int32(n)
	return n, commit.Open
}

// collectLarge adds p to the pieces, and what is behind the body to behind.
func (s *Session) collectLarge(p []byte) {
	b := &s.body
	at, size := int(b.got), int(b.size)
	for len(p) > 0 && at < size {
		i := len(b.pieces) - 1
		if i < 0 || len(b.pieces[i]) == cap(b.pieces[i]) {
			b.pieces = append(b.pieces, make([]byte, 0, min(pieceMax, max(PieceMin, at), size-at)))
			i++
			s.Charge(cap(b.pieces[i]))
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

// BodyLeft is how many bytes of the body and its tail have not come.
func (s *Session) BodyLeft() int { return int(s.body.size) + int(s.body.tail) - int(s.body.got) }

// Collected is the body and what is behind it, when all has come: either small, which is
// good until EndBody, or large, which is for the taking.
func (s *Session) Collected() (small []byte, large core.Large, tail []byte) {
	b := &s.body
	if b.pooled != nil {
		return b.pooled.B[:b.size], nil, b.pooled.B[b.size:]
	}
	return nil, b.pieces, b.behind[:b.tail]
}

// HasBody reports whether some of a body is kept.
func (s *Session) HasBody() bool { return s.body.pooled != nil || s.body.pieces != nil }

// EndBody lets go of the collected body, and of the room for it: it was handed over, or
// refused, or will not come.
func (s *Session) EndBody() {
	b := &s.body
	if b.listed {
		s.FreeBodyRoom()
	}
	if b.pooled != nil {
		s.Charge(-cap(b.pooled.B))
		memory.GiveBuffer(b.pooled)
		b.pooled = nil
	}
	for _, p := range b.pieces {
		s.Charge(-cap(p))
	}
	b.pieces = nil
	if j := s.loop.host.Journal; j != nil {
		j.Release(&s.permit.claim)
	}
}
