package memory

import "github.com/valyala/bytebufferpool"

// A Buffer is memory that is lent for as long as something is being collected. Its bytes
// are in B, which whoever has it may append to.
type Buffer = bytebufferpool.ByteBuffer

// bufferMax is the capacity up to which buffers are used again. The pool gives any of
// them to anybody, so a few bytes could keep a megabyte.
const bufferMax = 64 << 10

// TakeBuffer is an empty buffer that is not much larger than what it may be used for.
func TakeBuffer() *Buffer {
	b := bytebufferpool.Get()
	if cap(b.B) > bufferMax {
		b.B = nil
	}
	b.B = b.B[:0]
	return b
}

// GiveBuffer gives it back; nobody may use it afterwards.
func GiveBuffer(b *Buffer) {
	if cap(b.B) <= bufferMax {
		bytebufferpool.Put(b)
	}
}
