package core

import (
	"math/bits"

	"polystalk/shard/slab"
)

// idChunk bucket heads make one block of an idTable.
const (
	idShift = 9
	idChunk = 1 << idShift
)

// idTable finds a core's jobs by id: linear hashing, chained through the job
// records. It splits one bucket per insert, merges two per remove, so it never
// stops to rehash, and it shrinks as jobs go.
type idTable struct {
	chunks [][]uint32
	n      int    // jobs
	size   int    // buckets in use
	mask   uint64 // size rounded up to a power of two, minus one
}

// idTableMin is how many buckets an empty table has.
const idTableMin = 64

// idHash leaves up to 64 neighbours neighbours: what was put together is found in
// the same cache lines, also when the table grows or shrinks. Every n-th id, which
// is what one of n shards has, is spread as well.
func idHash(id JobID) uint64 {
	return uint64(id)>>6*0x9E3779B97F4A7C15>>20 + uint64(id)&63
}

// init makes the table an empty one.
func (t *idTable) init() {
	t.chunks = [][]uint32{make([]uint32, idTableMin)}
	t.size = idTableMin
	t.mask = idTableMin - 1
}

// head is where the chain of a bucket begins.
func (t *idTable) head(b uint64) *uint32 { return &t.chunks[b>>idShift][b&(idChunk-1)] }

// bucket is the bucket of an id: those that are not there yet are part of the one that
// they will be split from.
func (t *idTable) bucket(id JobID) uint64 {
	h := idHash(id)
	b := h & t.mask
	if b >= uint64(t.size) {
		b = h & (t.mask >> 1)
	}
	return b
}

// find is the record with that id, or zero and nil.
func (t *idTable) find(jobs *slab.Pool[job], id JobID) (uint32, *job) {
	for i := *t.head(t.bucket(id)); i != 0; {
		j := jobs.At(i)
		if j.id == id {
			return i, j
		}
		i = j.hash
	}
	return 0, nil
}

// insert adds record i, whose id no other has.
func (t *idTable) insert(jobs *slab.Pool[job], id JobID, i uint32) {
	h := t.head(t.bucket(id))
	jobs.At(i).hash = *h
	*h = i
	t.n++
	if t.n > t.size {
		t.split(jobs)
	}
}

// remove takes out a job, and reports whether it was there.
func (t *idTable) remove(jobs *slab.Pool[job], id JobID) (was bool) {
	p := t.head(t.bucket(id))
	for *p != 0 {
		j := jobs.At(*p)
		if j.id == id {
			*p = j.hash
			j.hash = 0
			t.n--
			was = true
			break
		}
		p = &j.hash
	}
	// Two merges a removal: with one, the table would lag behind a drain and
	// end half as large as it began.
	for range 2 {
		if t.n < t.size/2 && t.size > idTableMin {
			t.merge(jobs)
		}
	}
	return was
}

// split adds one bucket and moves into it what belongs there.
func (t *idTable) split(jobs *slab.Pool[job]) {
	b := uint64(t.size)
	if c := int(b >> idShift); c == len(t.chunks) {
		t.chunks = append(t.chunks, make([]uint32, idChunk))
	} else if c == 0 && int(b) == len(t.chunks[0]) {
		bigger := make([]uint32, min(2*len(t.chunks[0]), idChunk))
		copy(bigger, t.chunks[0])
		t.chunks[0] = bigger
	}
	if b > t.mask {
		t.mask = t.mask<<1 | 1
	}
	t.size++
	from, to := t.head(b&(t.mask>>1)), t.head(b)
	for *from != 0 {
		j := jobs.At(*from)
		if idHash(j.id)&t.mask != b {
			from = &j.hash
			continue
		}
		i := *from
		*from = j.hash
		j.hash = *to
		*to = i
	}
}

// merge takes the last bucket away again.
func (t *idTable) merge(jobs *slab.Pool[job]) {
	t.size--
	b := uint64(t.size)
	last := t.head(b)
	into := t.head(b & (t.mask >> 1))
	for *into != 0 {
		into = &jobs.At(*into).hash
	}
	*into, *last = *last, 0
	if b == (t.mask+1)/2 {
		t.mask >>= 1
	}
	if need := int(b+idChunk-1) >> idShift; len(t.chunks) > need+1 {
		t.chunks[len(t.chunks)-1] = nil
		t.chunks = t.chunks[:len(t.chunks)-1]
	}
}

// ids checks the id table and learns from it which jobs there are; all other
// places are compared with it, so no broken index is followed.
func (k *checker) ids() {
	t := &k.c.ids
	if want := uint64(1)<<bits.Len(uint(t.size-1)) - 1; t.mask != want {
		k.fail("ids: mask %#x with %d buckets, want %#x", t.mask, t.size, want)
	}
	if t.n > t.size || t.size > idTableMin && t.n < t.size/2 || t.size < idTableMin {
		k.fail("ids: %d buckets for %d jobs", t.size, t.n)
	}
	if need := (t.size + idChunk - 1) >> idShift; len(t.chunks) < need || len(t.chunks) > need+1 {
		k.fail("ids: %d blocks for %d buckets", len(t.chunks), t.size)
	}
	room := 0
	for _, chunk := range t.chunks {
		room += len(chunk)
	}
	if t.size > room {
		k.fail("ids: %d buckets, room for %d", t.size, room)
		return
	}
	byID := make(map[JobID]bool, t.n)
	for b := range uint64(room) {
		head := *t.head(b)
		if b >= uint64(t.size) && head != 0 {
			k.fail("ids: bucket %d is beyond %d and not empty", b, t.size)
			continue
		}
		for i := head; i != 0; {
			if _, twice := k.at[i]; twice {
				k.fail("ids: record %d is in two buckets or in a ring", i)
				break
			}
			k.at[i] = ""
			j := k.c.jobs.At(i)
			switch {
			case t.bucket(j.id) != b:
				k.fail("ids: job %d is in bucket %d, not in %d", j.id, b, t.bucket(j.id))
			case j.id == 0 || byID[j.id]:
				k.fail("ids: job %d is there twice, or has no id", j.id)
			}
			byID[j.id] = true
			i = j.hash
		}
	}
	if len(k.at) != t.n || t.n != k.c.jobs.Len() {
		k.fail("ids: %d jobs found, %d counted, %d records in use", len(k.at), t.n, k.c.jobs.Len())
	}
}
