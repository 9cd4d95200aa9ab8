package core

import (
	"fmt"

	"polystalk/shard/slab"
)

// heapChunk is how many entries are in one block of a Heap. A single slice that doubles would
// copy a hundred megabytes at ten million jobs, and never give them back. The first block is a
// field of the Heap: most heaps have no other, and access to it needs one load less.
const (
	heapShift = 10
	heapChunk = 1 << heapShift
	heapSmall = 16 // entries that a heap keeps room for when it is empty
)

// An entry orders by (b, a), then by job id.
//
//	ready:     b = priority, a = id. For a job that was sent to the tail, a is the
//	           highest id at that time, and Job.Client is its turn behind that id
//	deadlines: b = 0,        a = deadline
type entry struct {
	A   uint64
	B   uint32
	Job uint32
}

// A Heap is a 4-ary heap of entries with the keys of jobs. Each job's record has its position,
// so any job can be removed in O(log n).
type Heap struct {
	N     int
	first []entry    // the first block, or its beginning while there is no other
	more  *[][]entry // the later blocks; nil: none
}

// At is the entry at a position below N.
func (h *Heap) At(i int) *entry {
	if uint(i) < uint(len(h.first)) {
		return &h.first[i]
	}
	return &(*h.more)[i>>heapShift-1][i&(heapChunk-1)]
}

// top is the smallest entry; the heap must not be empty.
func (h *Heap) top() *entry { return &h.first[0] }

// less reports whether x goes before y.
func (x *entry) less(jobs *slab.Pool[Job], y *entry) bool {
	if x.B != y.B {
		return x.B < y.B
	}
	if x.A != y.A {
		return x.A < y.A
	}
	i, j := jobs.At(x.Job), jobs.At(y.Job)
	if i.State == Ready && i.Client != j.Client {
		return i.Client < j.Client
	}
	return i.ID < j.ID
}

// Push adds a job that is in no heap.
func (h *Heap) Push(jobs *slab.Pool[Job], e entry) {
	h.grow()
	h.N++
	h.up(jobs, h.N-1, e)
}

// Remove takes out the entry at position i; it panics if there is none.
func (h *Heap) Remove(jobs *slab.Pool[Job], i int) {
	if uint(i) >= uint(h.N) {
		h.lacks(i)
	}
	h.N--
	last := *h.At(h.N)
	*h.At(h.N) = entry{}
	if i < h.N {
		// The freed place is filled with the last entry, which may belong above or below it.
		if i > 0 && last.less(jobs, h.At((i-1)/4)) {
			h.up(jobs, i, last)
		} else {
			h.down(jobs, i, last)
		}
	}
	h.shrink()
}

// Set gives the entry at position i a new key. It panics if e is the entry of another job.
func (h *Heap) Set(jobs *slab.Pool[Job], i int, e entry) {
	if uint(i) >= uint(h.N) || h.At(i).Job != e.Job {
		h.lacks(i)
	}
	if i > 0 && e.less(jobs, h.At((i-1)/4)) {
		h.up(jobs, i, e)
	} else {
		h.down(jobs, i, e)
	}
}

//go:noinline
func (h *Heap) lacks(i int) {
	panic(fmt.Sprintf("store: a job is said to be at %d of a heap of %d, and is not", i, h.N))
}

// up puts e at position i, which is free, or above it.
func (h *Heap) up(jobs *slab.Pool[Job], i int, e entry) {
	for i > 0 {
		p := (i - 1) / 4
		pe := h.At(p)
		if !e.less(jobs, pe) {
			break
		}
		*h.At(i) = *pe
		jobs.At(pe.Job).Pos = uint32(i)
		i = p
	}
	*h.At(i) = e
	jobs.At(e.Job).Pos = uint32(i)
}

// down puts e at position i, which is free, or below it.
func (h *Heap) down(jobs *slab.Pool[Job], i int, e entry) {
	for {
		first := 4*i + 1
		if first >= h.N {
			break
		}
		kid, least := first, h.At(first)
		for k := first + 1; k < min(first+4, h.N); k++ {
			if ke := h.At(k); ke.less(jobs, least) {
				kid, least = k, ke
			}
		}
		if !least.less(jobs, &e) {
			break
		}
		*h.At(i) = *least
		jobs.At(least.Job).Pos = uint32(i)
		i = kid
	}
	*h.At(i) = e
	jobs.At(e.Job).Pos = uint32(i)
}

// First calls show for jobs in the order of their keys, the smallest first, until show
// reports false. It does not change the heap, and takes O(log n) steps for the n-th job. It
// uses the memory of front, and returns it for the next call.
func (h *Heap) First(jobs *slab.Pool[Job], front []uint32, show func(i uint32) bool) []uint32 {
	// front is a binary heap of the candidates for the next job: the positions with a parent
	// that was shown.
	front = front[:0]
	less := func(x, y int) bool { return h.At(int(front[x])).less(jobs, h.At(int(front[y]))) }
	if h.N > 0 {
		front = append(front, 0)
	}
	for len(front) > 0 {
		p := int(front[0])
		if !show(h.At(p).Job) {
			break
		}
		last := len(front) - 1
		front[0] = front[last]
		front = front[:last]
		for i := 0; ; {
			kid := 2*i + 1
			if kid+1 < last && less(kid+1, kid) {
				kid++
			}
			if kid >= last || !less(kid, i) {
				break
			}
			front[i], front[kid] = front[kid], front[i]
			i = kid
		}
		for k := 4*p + 1; k < min(4*p+5, h.N); k++ {
			front = append(front, uint32(k))
			for i := len(front) - 1; i > 0 && less(i, (i-1)/2); i = (i - 1) / 2 {
				front[i], front[(i-1)/2] = front[(i-1)/2], front[i]
			}
		}
	}
	return front
}

// grow makes room for one more entry. The first block grows by doubling, so
// that a tube with one job stays small.
func (h *Heap) grow() {
	if h.N >= len(h.first) {
		h.addRoom()
	}
}

//go:noinline
func (h *Heap) addRoom() {
	switch {
	case h.N < heapChunk:
		bigger := make([]entry, min(max(4, 4*h.N), heapChunk))
		copy(bigger, h.first)
		h.first = bigger
	case h.more == nil:
		h.more = &[][]entry{make([]entry, heapChunk)}
	case h.N == heapChunk*(1+len(*h.more)):
		*h.more = append(*h.more, make([]entry, heapChunk))
	}
}

// shrink gives memory back late, so that a queue with a size around a block's border does not
// allocate. It frees the last block when half of the block before is empty too. It shrinks the
// first block to a quarter when it is 15/16 empty, since many tubes may have been large once.
func (h *Heap) shrink() {
	switch n := len(h.first); {
	case h.more != nil:
		last := len(*h.more)
		if h.N > last*heapChunk-heapChunk/2 {
			return
		}
		if last == 1 {
			h.more = nil
			return
		}
		(*h.more)[last-1] = nil
		*h.more = (*h.more)[:last-1]
	case n > heapSmall && h.N < n/16:
		h.first = append(make([]entry, 0, n/4), h.first[:n/4]...)
	}
}
