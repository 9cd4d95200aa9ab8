package router

import (
	"github.com/valyala/bytebufferpool"

	"polystalk/shard/slab"
)

// bodyStart is the first piece of memory for a body that does not arrive at
// once: what a client only announces is not allocated.
const bodyStart = 64 << 10

// startBody prepares for a body of size bytes (with its \r\n) that is not all
// there. A body that will be copied into a slab is collected in a pooled
// buffer; a larger one in memory that the shard then keeps.
func (s *session) startBody(size int) {
	if size-2 <= slab.MaxSize {
		s.pooled = bytebufferpool.Get()
		s.body = s.pooled.B[:0]
		return
	}
	s.body = make([]byte, 0, min(size, bodyStart))
}

// collect takes what belongs to the body being read, and returns how much
// that was.
func (s *session) collect(b []byte) (n int) {
	size := int(s.cmd.Size) + 2
	n = min(len(b), size-len(s.body))
	if need := len(s.body) + n; need > cap(s.body) {
		// At least doubled, at most what was announced: a large body ends
		// in memory of just its size.
		bigger := make([]byte, len(s.body), min(size, max(need, 2*cap(s.body))))
		copy(bigger, s.body)
		s.body = bigger
	}
	s.body = append(s.body, b[:n]...)
	if len(s.body) == size {
		s.enqueue(s.body, s.pooled == nil)
	}
	return n
}

// endBody lets go of the collected body.
func (s *session) endBody() {
	if s.pooled != nil {
		s.pooled.B = s.body[:0]
		bytebufferpool.Put(s.pooled)
		s.pooled = nil
	}
	s.body = nil
}
