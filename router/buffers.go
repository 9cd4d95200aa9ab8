package router

import "github.com/valyala/bytebufferpool"

// bufferMax is the capacity up to which buffers are used again. The pool gives any of
// them to anybody, so a few bytes could keep a megabyte.
const bufferMax = 64 << 10

// takeBuffer is an empty buffer that is not much larger than what it may be used for.
func takeBuffer() *bytebufferpool.ByteBuffer {
	b := bytebufferpool.Get()
	if cap(b.B) > bufferMax {
		b.B = nil
	}
	b.B = b.B[:0]
	return b
}

// giveBuffer gives it back.
func giveBuffer(b *bytebufferpool.ByteBuffer) {
	if cap(b.B) <= bufferMax {
		bytebufferpool.Put(b)
	}
}
