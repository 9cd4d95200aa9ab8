package core

import (
	"polystalk/shard/slab"
)

// idChunk is how many bucket heads are in one block of an idTable.
const (
	idShift = 9
	idChunk = 1 << idShift
)

// An idTable finds a core's jobs by id: linear hashing, chained through the job records. An
// insert splits at most one bucket and a remove merges at most two, so the table never pauses
// to rehash everything, and it shrinks as jobs end.
type idTable struct {
	chunks [][]uint32
	N      int    // jobs
	Size   int    // buckets in use
	Mask   uint64 // size rounded up to a power of two, minus one
}

// idTableMin is how many buckets an empty table has.
const idTableMin = 64

// idHash keeps blocks of 64 successive ids together: jobs that were put together are found in
// the same cache lines, also after the table grows or shrinks. It also spreads every n-th id,
// which is the usual case for one of n shards.
func idHash(id JobID) uint64 {
	return uint64(id)>>6*0x9E3779B97F4A7C15>>20 + uint64(id)&63
}

// Init makes the table an empty one.
func (t *idTable) Init() {
	t.chunks = [][]uint32{make([]uint32, idTableMin)}
	t.Size = idTableMin
	t.Mask = idTableMin - 1
}

// head is where the chain of a bucket begins.
func (t *idTable) head(b uint64) *uint32 { return &t.chunks[b>>idShift][b&(idChunk-1)] }

// bucket returns the bucket of an id. The jobs of a bucket that does not exist yet are in the
// bucket from which it will be split.
func (t *idTable) bucket(id JobID) uint64 {
	h := idHash(id)
	b := h & t.Mask
	if b >= uint64(t.Size) {
		b = h & (t.Mask >> 1)
	}
	return b
}

// find returns the record with that id, or zero and nil.
func (t *idTable) find(jobs *slab.Pool[Job], id JobID) (uint32, *Job) {
	for i := *t.head(t.bucket(id)); i != 0; {
		j := jobs.At(i)
		if j.ID == id {
			return i, j
		}
		i = j.Hash
	}
	return 0, nil
}

// insert adds j, the record i. No other record has its id.
func (t *idTable) insert(jobs *slab.Pool[Job], i uint32, j *Job) {
	h := t.head(t.bucket(j.ID))
	j.Hash = *h
	*h = i
	t.N++
	if t.N > t.Size {
		t.split(jobs)
	}
}

// Remove takes out record i, which is j, and reports whether it was there.
func (t *idTable) Remove(jobs *slab.Pool[Job], i uint32, j *Job) (was bool) {
	p := t.head(t.bucket(j.ID))
	for *p != i && *p != 0 {
		p = &jobs.At(*p).Hash
	}
	if was = *p != 0; was {
		*p = j.Hash
		j.Hash = 0
		t.N--
	}
	// There are two merges per removal. With one, a table that is drained would end half as
	// large as it began.
	for range 2 {
		if t.N < t.Size/2 && t.Size > idTableMin {
			t.merge(jobs)
		}
	}
	return was
}

// split adds one bucket and moves its jobs into it.
func (t *idTable) split(jobs *slab.Pool[Job]) {
	b := uint64(t.Size)
	if c := int(b >> idShift); c == len(t.chunks) {
		t.chunks = append(t.chunks, make([]uint32, idChunk))
	} else if c == 0 && int(b) == len(t.chunks[0]) {
		bigger := make([]uint32, min(2*len(t.chunks[0]), idChunk))
		copy(bigger, t.chunks[0])
		t.chunks[0] = bigger
	}
	if b > t.Mask {
		t.Mask = t.Mask<<1 | 1
	}
	t.Size++
	from, to := t.head(b&(t.Mask>>1)), t.head(b)
	for *from != 0 {
		j := jobs.At(*from)
		if idHash(j.ID)&t.Mask != b {
			from = &j.Hash
			continue
		}
		i := *from
		*from = j.Hash
		j.Hash = *to
		*to = i
	}
}

// merge takes the last bucket away again.
func (t *idTable) merge(jobs *slab.Pool[Job]) {
	t.Size--
	b := uint64(t.Size)
	last := t.head(b)
	into := t.head(b & (t.Mask >> 1))
	for *into != 0 {
		into = &jobs.At(*into).Hash
	}
	*into, *last = *last, 0
	if b == (t.Mask+1)/2 {
		t.Mask >>= 1
	}
	if need := int(b+idChunk-1) >> idShift; len(t.chunks) > need+1 {
		t.chunks[len(t.chunks)-1] = nil
		t.chunks = t.chunks[:len(t.chunks)-1]
	}
}
