package core

import (
	"fmt"

	"polystalk/shard/slab"
)

// heapChunk entries make one block of a jobHeap. Blocks, because a slice that
// doubles copies a hundred megabytes at ten million jobs, and keeps them.
const (
	heapShift = 10
	heapChunk = 1 << heapShift
	heapSmall = 16 // entries that a heap keeps room for when it is empty
)

// heapEntry orders by (b, a), then by job id.
//
//	ready:     b = priority, a = id; of a job that was sent to the tail, the id
//	           of the last job then, and job.prev is its turn behind that one
//	deadlines: b = 0,        a = deadline
type heapEntry struct {
	a   uint64
	b   uint32
	job uint32
}

// jobHeap is a 4-ary heap of jobs with their keys beside them; each record
// knows its position, so any job leaves in O(log n).
type jobHeap struct {
	n      int
	chunks [][]heapEntry
}

// at is the entry at a position below n.
func (h *jobHeap) at(i int) *heapEntry { return &h.chunks[i>>heapShift][i&(heapChunk-1)] }

// top is the smallest entry; the heap must not be empty.
func (h *jobHeap) top() *heapEntry { return &h.chunks[0][0] }

// less reports whether x goes before y.
func (x *heapEntry) less(jobs *slab.Pool[job], y *heapEntry) bool {
	if x.b != y.b {
		return x.b < y.b
	}
	if x.a != y.a {
		return x.a < y.a
	}
	i, j := jobs.At(x.job), jobs.At(y.job)
	if i.state == Ready && i.prev != j.prev {
		return i.prev < j.prev
	}
	return i.id < j.id
}

// push adds a job that is in no heap.
func (h *jobHeap) push(jobs *slab.Pool[job], e heapEntry) {
	h.grow()
	h.n++
	h.up(jobs, h.n-1, e)
}

// remove takes out the entry at position i; it panics if there is none.
func (h *jobHeap) remove(jobs *slab.Pool[job], i int) {
	if uint(i) >= uint(h.n) {
		h.lacks(i)
	}
	h.n--
	last := *h.at(h.n)
	*h.at(h.n) = heapEntry{}
	if i < h.n {
		// The freed place is filled with the last entry, which may belong
		// above or below it.
		if i > 0 && last.less(jobs, h.at((i-1)/4)) {
			h.up(jobs, i, last)
		} else {
			h.down(jobs, i, last)
		}
	}
	h.shrink()
}

// set gives the entry at position i, which is that of the same job, a new key; it panics
// if it is another's.
func (h *jobHeap) set(jobs *slab.Pool[job], i int, e heapEntry) {
	if uint(i) >= uint(h.n) || h.at(i).job != e.job {
		h.lacks(i)
	}
	if i > 0 && e.less(jobs, h.at((i-1)/4)) {
		h.up(jobs, i, e)
	} else {
		h.down(jobs, i, e)
	}
}

//go:noinline
func (h *jobHeap) lacks(i int) {
	panic(fmt.Sprintf("core: a job is said to be at %d of a heap of %d, and is not", i, h.n))
}

// up puts e at position i, which is free, or above it.
func (h *jobHeap) up(jobs *slab.Pool[job], i int, e heapEntry) {
	for i > 0 {
		p := (i - 1) / 4
		pe := h.at(p)
		if !e.less(jobs, pe) {
			break
		}
		*h.at(i) = *pe
		jobs.At(pe.job).pos = uint32(i)
		i = p
	}
	*h.at(i) = e
	jobs.At(e.job).pos = uint32(i)
}

// down puts e at position i, which is free, or below it.
func (h *jobHeap) down(jobs *slab.Pool[job], i int, e heapEntry) {
	for {
		first := 4*i + 1
		if first >= h.n {
			break
		}
		kid, least := first, h.at(first)
		for k := first + 1; k < min(first+4, h.n); k++ {
			if ke := h.at(k); ke.less(jobs, least) {
				kid, least = k, ke
			}
		}
		if !least.less(jobs, &e) {
			break
		}
		*h.at(i) = *least
		jobs.At(least.job).pos = uint32(i)
		i = kid
	}
	*h.at(i) = e
	jobs.At(e.job).pos = uint32(i)
}

// grow makes room for one more entry. The first block grows by doubling, so
// that a tube with one job stays small.
func (h *jobHeap) grow() {
	c := h.n >> heapShift
	if c == len(h.chunks) {
		size := heapChunk
		if c == 0 {
			size = 4
		}
		h.chunks = append(h.chunks, make([]heapEntry, size))
		return
	}
	if first := h.chunks[0]; c == 0 && h.n == len(first) {
		bigger := make([]heapEntry, min(4*len(first), heapChunk))
		copy(bigger, first)
		h.chunks[0] = bigger
	}
}

// shrink gives memory back late, so that a queue that swings around a border
// does not allocate: the last block when half of the one before is empty too,
// and the first by quarters when it is 15/16 empty, since many tubes may have
// had their rush once.
func (h *jobHeap) shrink() {
	last := len(h.chunks) - 1
	if last > 0 {
		if h.n <= last*heapChunk-heapChunk/2 {
			h.chunks[last] = nil
			h.chunks = h.chunks[:last]
			if last == 1 {
				h.chunks = append([][]heapEntry(nil), h.chunks...)
			}
		}
		return
	}
	if first := h.chunks[0]; len(first) > heapSmall && h.n < len(first)/16 {
		h.chunks[0] = append(make([]heapEntry, 0, len(first)/4), first[:len(first)/4]...)
	}
}

// heap checks order, positions and blocks of h and calls visit for each job.
func (k *checker) heap(where string, h *jobHeap, visit func(heapEntry)) {
	room := 0
	for _, chunk := range h.chunks {
		room += len(chunk)
	}
	if h.n < 0 || h.n > room || len(h.chunks) > (h.n+heapChunk-1)>>heapShift+1 {
		k.fail("%s: %d entries in %d blocks with room for %d", where, h.n, len(h.chunks), room)
		return
	}
	for i := range h.n {
		e := *h.at(i)
		if _, known := k.at[e.job]; !known {
			k.fail("%s: entry %d names record %d, which is no job", where, i, e.job)
			return
		}
		if p := h.at((i - 1) / 4); i > 0 && e.less(k.c.jobs, p) {
			k.fail("%s: entry %d is before its parent", where, i)
		}
		if j := k.c.jobs.At(e.job); j.pos != uint32(i) {
			k.fail("%s: job %d at %d thinks that it is at %d", where, j.id, i, j.pos)
		}
		visit(e)
	}
	for i := h.n; i < room; i++ {
		if *h.at(i) != (heapEntry{}) {
			k.fail("%s: entry %d beyond %d is not empty", where, i, h.n)
			return
		}
	}
}
