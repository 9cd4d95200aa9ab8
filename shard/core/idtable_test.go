package core

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"polystalk/shard/slab"
)

// Check walks t, and adds each record that it finds to at. It follows no broken index.
func (t *idTable) Check(jobs *slab.Pool[Job], at map[uint32]string, that that) {
	want := uint64(1)<<bits.Len(uint(t.Size-1)) - 1
	that(t.Mask == want, "ids: mask %#x with %d buckets, want %#x", t.Mask, t.Size, want)
	that(t.N <= t.Size && (t.Size <= idTableMin || t.N >= t.Size/2) && t.Size >= idTableMin, "ids: %d buckets for %d jobs", t.Size, t.N)
	need, room := (t.Size+idChunk-1)>>idShift, 0
	that(len(t.chunks) == need || len(t.chunks) == need+1, "ids: %d blocks for %d buckets", len(t.chunks), t.Size)
	for _, chunk := range t.chunks {
		room += len(chunk)
	}
	if !that(t.Size <= room, "ids: %d buckets, room for %d", t.Size, room) {
		return
	}
	byID := make(map[JobID]bool, t.N)
	for b := range uint64(room) {
		if b >= uint64(t.Size) {
			that(*t.head(b) == 0, "ids: bucket %d is beyond %d and not empty", b, t.Size)
			continue
		}
		for i := *t.head(b); i != 0; {
			_, twice := at[i]
			if !that(!twice, "ids: record %d is in two buckets or in a ring", i) {
				break
			}
			at[i] = ""
			j := jobs.At(i)
			that(t.bucket(j.ID) == b, "ids: job %d is in bucket %d, not in %d", j.ID, b, t.bucket(j.ID))
			that(j.ID != 0 && !byID[j.ID], "ids: job %d is there twice, or has no id", j.ID)
			byID[j.ID] = true
			i = j.Hash
		}
	}
	that(len(at) == t.N && t.N == jobs.Len(), "ids: %d jobs found, %d counted, %d records in use", len(at), t.N, jobs.Len())
}

type tableTwin struct {
	jobs  *slab.Pool[Job]
	table idTable
	all   map[JobID]uint32
}

func newTableTwin(t *testing.T) *tableTwin {
	w := &tableTwin{jobs: slab.NewPool[Job](), all: map[JobID]uint32{}}
	w.table.Init()
	t.Cleanup(w.jobs.Close)
	return w
}

func (w *tableTwin) insert(id JobID) {
	i, j := w.jobs.Alloc()
	j.ID = id
	w.table.insert(w.jobs, i, j)
	w.all[id] = i
}

func (w *tableTwin) remove(id JobID) {
	i := w.all[id]
	w.table.Remove(w.jobs, i, w.jobs.At(i))
	w.jobs.Free(i)
	delete(w.all, id)
}

func (w *tableTwin) check(t *testing.T) {
	t.Helper()
	for id, i := range w.all {
		if got, j := w.table.find(w.jobs, id); got != i || j != w.jobs.At(i) {
			t.Fatalf("job %d: found %d, want %d", id, got, i)
		}
	}
	n := len(w.all)
	if w.table.N != n || w.table.Size < n || w.table.Size > max(idTableMin, 2*n+1) {
		t.Fatalf("%d jobs, counted %d, in %d buckets", n, w.table.N, w.table.Size)
	}
	w.table.Check(w.jobs, map[uint32]string{}, fails(t))
}

func TestIDTableEqualsMap(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 4))
		w := newTableTwin(t)
		for step := range 4000 {
			id := JobID(1 + rng.Uint64N(3000))
			switch _, there := w.all[id]; {
			case !there && (step/1000%2 == 0 || rng.IntN(4) == 0):
				w.insert(id)
			case there:
				w.remove(id)
			default:
				if i, j := w.table.find(w.jobs, id); i != 0 || j != nil {
					t.Fatalf("job %d was found", id)
				}
				i, j := w.jobs.Alloc()
				if j.ID = id; w.table.Remove(w.jobs, i, j) {
					t.Fatalf("job %d was taken out, and was not there", id)
				}
				w.jobs.Free(i)
			}
			if step%200 == 0 {
				w.check(t)
			}
		}
	}
}

// The table grows and shrinks over the borders of several blocks, forwards
// and backwards, and ends as small as it began.
func TestIDTableGrowsAndShrinks(t *testing.T) {
	const most = 5*idChunk + 7
	for _, newestFirst := range []bool{false, true} {
		w := newTableTwin(t)
		near := func(n int) bool { return n%idChunk < 3 || n%idChunk > idChunk-3 || n%397 == 0 }
		for n := range most {
			w.insert(JobID(n + 1))
			if near(n) {
				w.check(t)
			}
		}
		for n := range most {
			id := JobID(n + 1)
			if newestFirst {
				id = JobID(most - n)
			}
			w.remove(id)
			if near(n) || near(w.table.Size) {
				w.check(t)
			}
		}
		w.check(t)
		if w.table.Size != idTableMin {
			t.Errorf("an empty table keeps %d buckets", w.table.Size)
		}
	}
}

// Consecutive ids, as a server gives them out, must not crowd: neither all of
// them nor every n-th, which is what one of n shards gets.
func TestIDTableSpreadsConsecutiveIDs(t *testing.T) {
	for _, stride := range []JobID{1, 2, 3, 8, 64, 4096} {
		w := newTableTwin(t)
		for n := range JobID(20_000) {
			w.insert(1_000_000 + n*stride)
		}
		longest := 0
		for b := range uint64(w.table.Size) {
			n := 0
			for i := *w.table.head(b); i != 0; i = w.jobs.At(i).Hash {
				n++
			}
			longest = max(longest, n)
		}
		if longest > 12 {
			t.Errorf("stride %d: %d ids in one bucket", stride, longest)
		}
	}
}
