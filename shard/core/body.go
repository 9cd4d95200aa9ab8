package core

import (
	"bytes"
	"fmt"

	"polystalk/shard/store"
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

// largeBodies are the bodies above slab.MaxSize, by job.body. Index 0 may be used.
type largeBodies struct {
	large     []Large
	freeLarge []uint32
}

// storeLarge stores a body above the slabs' largest class.
func (b *largeBodies) storeLarge(body Large) uint32 {
	n := len(b.freeLarge)
	if n == 0 {
		b.large = append(b.large, body)
		return uint32(len(b.large) - 1)
	}
	i := b.freeLarge[n-1]
	b.freeLarge = b.freeLarge[:n-1]
	if b.large[i] != nil {
		panic(fmt.Sprintf("core: the place %d of a large body is free, and has one of %d bytes", i, b.large[i].Len()))
	}
	b.large[i] = body
	return i
}

// freeLargeBody forgets such a body. Replies that share it still may.
func (c *Core) freeLargeBody(i uint32) {
	if c.large[i] == nil {
		panic(fmt.Sprintf("core: the large body %d is freed twice", i))
	}
	if h, ok := c.dir.(BodyHearer); ok {
		h.BodyFreed(c.large[i])
	}
	c.large[i] = nil
	c.freeLarge = append(c.freeLarge, i)
}

// sameBody reports whether j has op's body.
func (c *Core) sameBody(j *store.Job, op *Op) bool {
	if op.Large == nil {
		return j.Flags&store.FlagLarge == 0 && bytes.Equal(c.bodies.Get(j.Body, int(j.Size)), op.Body)
	}
	if j.Flags&store.FlagLarge == 0 || int(j.Size) != op.Large.Len() {
		return false
	}
	a, b := c.large[j.Body], op.Large
	var x, y []byte
	for {
		for ; len(x) == 0 && len(a) > 0; a = a[1:] {
			x = a[0]
		}
		for ; len(y) == 0 && len(b) > 0; b = b[1:] {
			y = b[0]
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

// bodyOf is j's body, in one piece.
func (c *Core) bodyOf(j *store.Job) []byte {
	if j.Flags&store.FlagLarge != 0 {
		return c.large[j.Body].Append(nil)
	}
	return c.bodies.Get(j.Body, int(j.Size))
}

// replyJob fills r with a job; see Reply for how long its body is good.
func (c *Core) replyJob(r *Reply, s Status, j *store.Job) {
	r.Status = s
	r.ID = j.ID
	r.Commit = max(r.Commit, j.Commit())
	if j.Flags&store.FlagLarge != 0 {
		r.Large = c.large[j.Body]
	} else {
		r.Body = c.bodies.Get(j.Body, int(j.Size))
	}
}

// bodies checks that each body is stored once and nothing else is.
func (k *checker) bodies() {
	c := k.c
	small := 0
	large := make(map[uint32]bool)
	// In no fixed order: a check only reports.
	for i := range k.at {
		j := c.jobs.At(i)
		switch {
		case j.Flags&store.FlagLarge != 0 && (int(j.Body) >= len(c.large) || large[j.Body]):
			k.fail("job %d: its large body %d is another's or is not there", j.ID, j.Body)
		case j.Flags&store.FlagLarge != 0:
			large[j.Body] = true
			if c.large[j.Body].Len() != int(j.Size) {
				k.fail("job %d: %d bytes stored of %d", j.ID, c.large[j.Body].Len(), j.Size)
			}
		case j.Size > 0:
			small++
		}
	}
	if small != c.bodies.Len() {
		k.fail("bodies: %d stored for %d jobs", c.bodies.Len(), small)
	}
	free := make(map[uint32]bool, len(c.freeLarge))
	for _, i := range c.freeLarge {
		if int(i) >= len(c.large) || free[i] || large[i] || c.large[i] != nil {
			k.fail("bodies: large slot %d is free and in use, or free twice", i)
		}
		free[i] = true
	}
	if len(free)+len(large) != len(c.large) {
		k.fail("bodies: %d large slots, %d free, %d in use", len(c.large), len(free), len(large))
	}
}
