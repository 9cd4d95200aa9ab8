package core

import (
	"bytes"
	"fmt"
)

// Large is a body above slab.MaxSize, in pieces, so that a gigabyte is neither
// allocated nor copied in one go. It never changes once it is part of a job:
// replies and slow readers share it, and it outlives the job for them.
type Large [][]byte

// Len is the number of bytes.
func (l Large) Len() (n int) {
	for _, p := range l {
		n += len(p)
	}
	return n
}

// Append appends the bytes to dst.
func (l Large) Append(dst []byte) []byte {
	for _, p := range l {
		dst = append(dst, p...)
	}
	return dst
}

// equal reports whether m has the same bytes, in whatever pieces.
func (l Large) equal(m Large) bool {
	if l.Len() != m.Len() {
		return false
	}
	var x, y []byte
	for {
		for ; len(x) == 0 && len(l) > 0; l = l[1:] {
			x = l[0]
		}
		for ; len(y) == 0 && len(m) > 0; m = m[1:] {
			y = m[0]
		}
		n := min(len(x), len(y))
		if n == 0 {
			return true // of the same length: both are at their end
		}
		if !bytes.Equal(x[:n], y[:n]) {
			return false
		}
		x, y = x[n:], y[n:]
	}
}

// largeBodies are the bodies above slab.MaxSize, by Job.Body. Place 0 may be used.
type largeBodies struct {
	Bodies []Large
	Free   []uint32 // places

	numbers []uint64 // by place
	last    uint64   // the number given last
}

// Put stores a body and returns its place.
func (b *largeBodies) Put(body Large) uint32 {
	b.last++
	n := len(b.Free)
	if n == 0 {
		b.Bodies, b.numbers = append(b.Bodies, body), append(b.numbers, b.last)
		return uint32(len(b.Bodies) - 1)
	}
	i := b.Free[n-1]
	b.Free = b.Free[:n-1]
	if b.Bodies[i] != nil {
		panic(fmt.Sprintf("store: the place %d of a large body is free, and has one of %d bytes", i, b.Bodies[i].Len()))
	}
	b.Bodies[i], b.numbers[i] = body, b.last
	return i
}

// At is the body at a place.
func (b *largeBodies) At(i uint32) Large { return b.Bodies[i] }

// Number returns a number that no other large body of this process has, now or before. So two
// bodies can be compared without reading a gigabyte.
func (b *largeBodies) Number(i uint32) uint64 { return b.numbers[i] }

// Remove forgets a body, and returns it. Replies that share the body may still use it.
func (b *largeBodies) Remove(i uint32) Large {
	body := b.Bodies[i]
	if body == nil {
		panic(fmt.Sprintf("store: the large body %d is freed twice", i))
	}
	b.Bodies[i] = nil
	b.Free = append(b.Free, i)
	return body
}
