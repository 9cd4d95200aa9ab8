package core

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"polystalk/shard/slab"
)

// Check walks h: its order, positions and blocks. It calls visit for each entry.
func (h *Heap) Check(jobs *slab.Pool[Job], known func(uint32) bool, visit func(entry), that that) {
	room, blocks := len(h.first), 1
	if h.more != nil {
		blocks += len(*h.more)
		room += len(*h.more) << heapShift
	}
	if !that(h.N >= 0 && h.N <= room && blocks <= (h.N+heapChunk-1)>>heapShift+1 && (blocks == 1 || len(h.first) == heapChunk),
		"%d entries in %d blocks with room for %d, %d of it in the first", h.N, blocks, room, len(h.first)) {
		return
	}
	for i := range h.N {
		e := *h.At(i)
		if !that(known(e.Job), "entry %d names record %d, which is no job", i, e.Job) {
			return
		}
		that(i == 0 || !e.less(jobs, h.At((i-1)/4)), "entry %d is before its parent", i)
		that(jobs.At(e.Job).Pos == uint32(i), "job %d at %d has the position %d", jobs.At(e.Job).ID, i, jobs.At(e.Job).Pos)
		visit(e)
	}
	for i := h.N; i < room; i++ {
		if !that(*h.At(i) == (entry{}), "entry %d beyond %d is not empty", i, h.N) {
			return
		}
	}
}

// fails is a test of an invariant that ends t.
func fails(t *testing.T) that {
	return func(ok bool, format string, args ...any) bool {
		t.Helper()
		if !ok {
			t.Fatalf(format, args...)
		}
		return true
	}
}

// anyRecord accepts all records.
func anyRecord(uint32) bool { return true }

// room returns for how many entries the heap has room.
func (h *Heap) room() int {
	n := len(h.first)
	if h.more != nil {
		n += len(*h.more) * heapChunk
	}
	return n
}

// TestHeapIsOrderedAndGivesMemoryBack: with random keys, few or many, over several blocks and
// back. The first block grows 4, 16, 64, 256, 1024, then blocks are added.
func TestHeapIsOrderedAndGivesMemoryBack(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 3))
		few := 1 + rng.Uint64N([]uint64{50, 1 << 40}[seed%2])
		jobs := slab.NewPool[Job]()
		var h Heap
		var all []uint32 // records
		push := func() {
			i, j := jobs.Alloc()
			j.ID = JobID(len(all) + 1)
			h.Push(jobs, entry{rng.Uint64N(few), rng.Uint32N(3), i})
			all = append(all, i)
		}
		remove := func(k int) {
			h.Remove(jobs, int(jobs.At(all[k]).Pos))
			jobs.Free(all[k])
			all = slices.Delete(all, k, k+1)
		}
		check := func() {
			t.Helper()
			if h.N != len(all) {
				t.Fatalf("%d entries, want %d", h.N, len(all))
			}
			seen := make(map[uint32]bool, h.N)
			h.Check(jobs, anyRecord, func(e entry) { seen[e.Job] = true }, fails(t))
			if len(seen) != len(all) {
				t.Fatalf("%d jobs in %d entries", len(seen), len(all))
			}
		}
		most := []int{400, 3*heapChunk + 1}[seed%2]
		for len(all) < most {
			push()
			n := len(all)
			if want := min(heapChunk, 1<<(2*((bits.Len(uint(n-1))+1)/2))); n > 4 && n <= heapChunk && h.room() != want {
				t.Fatalf("%d jobs: room for %d, want %d", n, h.room(), want)
			}
			if n > 1000 && n%500 == 0 || n < 8 {
				check()
			}
		}
		for step := range 300 {
			if k := rng.IntN(len(all)); step%2 == 0 {
				h.Set(jobs, int(jobs.At(all[k]).Pos), entry{rng.Uint64N(few), rng.Uint32N(3), all[k]})
			} else {
				remove(k)
			}
			if step%30 == 0 {
				check()
			}
		}
		var last entry
		for len(all) > 0 {
			e := *h.top()
			if e.B < last.B || e.B == last.B && e.A < last.A {
				t.Fatalf("%v comes after %v", e, last)
			}
			last = e
			remove(slices.Index(all, e.Job))
			if n := len(all); h.room() > n+heapChunk*3/2 || n < 512 && h.room() > max(heapSmall, 16*n+16) {
				t.Fatalf("%d jobs: room for %d", n, h.room())
			}
		}
		if check(); h.room() > heapSmall {
			t.Errorf("an empty heap keeps room for %d", h.room())
		}
		jobs.Close()
	}
}
