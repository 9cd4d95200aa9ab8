package core

import (
	"math/rand/v2"
	"testing"

	"polystalk/shard/slab"
)

type uniqueTwin struct {
	jobs  *slab.Pool[submission]
	table uniqueTable
	all   map[uint32][]uint32 // hash to jobs
}

func newUniqueTwin(t *testing.T) *uniqueTwin {
	w := &uniqueTwin{jobs: slab.NewPool[submission](), all: map[uint32][]uint32{}}
	t.Cleanup(w.jobs.Close)
	return w
}

func (w *uniqueTwin) insert(hash uint32) {
	n, x := w.jobs.Alloc()
	x.Hash = hash
	w.table.insert(w.jobs, n)
	w.all[hash] = append(w.all[hash], n)
}

func (w *uniqueTwin) remove(hash uint32, i int) {
	list := w.all[hash]
	w.table.Remove(w.jobs, list[i])
	if w.jobs.At(list[i]).Next != 0 {
		panic("a job that is out has one behind it")
	}
	w.jobs.Free(list[i])
	if w.all[hash] = append(list[:i:i], list[i+1:]...); len(list) == 1 {
		delete(w.all, hash)
	}
}

func (w *uniqueTwin) check(t *testing.T) {
	t.Helper()
	n := 0
	for hash, list := range w.all {
		seen := map[uint32]bool{}
		w.table.find(w.jobs, hash, func(n uint32) bool { seen[n] = true; return false })
		for _, n := range list {
			if got := w.table.find(w.jobs, hash, func(m uint32) bool { return m == n }); got != n || !seen[n] {
				t.Fatalf("job %d of hash %#x: found %d", n, hash, got)
			}
		}
		if len(seen) != len(list) {
			t.Fatalf("hash %#x: %d jobs, found %d", hash, len(list), len(seen))
		}
		n += len(list)
	}
	if w.table.N != n || n > w.table.Size*bucketLoad || n > 0 && w.table.Size > max(uniqueMin, 2*n/bucketLoad+2) {
		t.Fatalf("%d jobs, counted %d, in %d buckets", n, w.table.N, w.table.Size)
	}
	slots := 0
	for b := range uint32(w.table.Size) {
		free := 0
		for _, s := range w.table.At(b) {
			if s.job == 0 {
				free++
			} else if s.inUse() {
				slots++
			}
		}
		first := w.table.At(b).chain()
		if first != 0 && free > 0 {
			t.Fatalf("bucket %d has a chain and %d free slots", b, free)
		}
		for n := first; n != 0; n = w.jobs.At(n).Next {
			slots++
		}
	}
	if slots != n {
		t.Fatalf("%d jobs, %d in buckets", n, slots)
	}
}

// Random histories; in some of them the hashes crowd, so that there are chains.
func TestUniqueTableEqualsMap(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 5))
		kinds := []uint32{20, 300, 1 << 31}[seed%3]
		w := newUniqueTwin(t)
		for step := range 6000 {
			hash := rng.Uint32N(kinds) * 0x9E3779B1
			if step/1500%2 == 0 && rng.IntN(5) > 0 {
				w.insert(hash)
			} else {
				for hash, list := range w.all { // any one
					w.remove(hash, rng.IntN(len(list)))
					break
				}
			}
			if step%100 == 0 {
				w.check(t)
			}
		}
		w.check(t)
		for hash := range w.all {
			for len(w.all[hash]) > 0 {
				w.remove(hash, 0)
			}
		}
		if w.table.N != 0 || w.table.chunks != nil {
			t.Fatalf("an empty table has %d jobs in %d blocks", w.table.N, len(w.table.chunks))
		}
	}
}
