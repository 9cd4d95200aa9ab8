package core

import (
	"math/rand/v2"
	"slices"
	"testing"

	"polystalk/shard/slab"
)

// heapTwin is the trivial model of a Heap: the entries in any order.
type heapTwin struct {
	jobs *slab.Pool[Job]
	heap Heap
	list []entry
	last JobID
}

func (w *heapTwin) compare(a, b entry) int {
	x, y := w.jobs.At(a.Job), w.jobs.At(b.Job)
	switch {
	case a.B != b.B:
		return int(int64(a.B) - int64(b.B))
	case a.A != b.A:
		return int(int64(a.A) - int64(b.A))
	}
	return int(x.ID) - int(y.ID)
}

func (w *heapTwin) push(a uint64, b uint32) {
	i, j := w.jobs.Alloc()
	w.last++
	j.ID = w.last
	e := entry{a, b, i}
	w.heap.Push(w.jobs, e)
	w.list = append(w.list, e)
}

func (w *heapTwin) remove(k int) {
	e := w.list[k]
	w.list = slices.Delete(w.list, k, k+1)
	w.heap.Remove(w.jobs, int(w.jobs.At(e.Job).Pos))
	w.jobs.Free(e.Job)
}

// room is for how many entries the heap has room.
func (w *heapTwin) room() int {
	n := len(w.heap.first)
	if w.heap.more != nil {
		n += len(*w.heap.more) * heapChunk
	}
	return n
}

// check compares with the list: the top, every position, the order along
// every path, and the blocks held.
func (w *heapTwin) check(t *testing.T) {
	t.Helper()
	if w.heap.N != len(w.list) {
		t.Fatalf("%d entries, want %d", w.heap.N, len(w.list))
	}
	for _, e := range w.list {
		if got := *w.heap.At(int(w.jobs.At(e.Job).Pos)); got != e {
			t.Fatalf("entry %v is not where its job says; there is %v", e, got)
		}
	}
	for i := 1; i < w.heap.N; i++ {
		if w.compare(*w.heap.At(i), *w.heap.At((i - 1) / 4)) < 0 {
			t.Fatalf("entry %d is before its parent", i)
		}
	}
	if len(w.list) > 0 {
		if want := slices.MinFunc(w.list, w.compare); *w.heap.top() != want {
			t.Fatalf("top %v, want %v", *w.heap.top(), want)
		}
	}
	if most := (w.heap.N+heapChunk-1)/heapChunk + 1; w.room() > most*heapChunk {
		t.Fatalf("room for %d entries for %d", w.room(), w.heap.N)
	}
}

func TestHeapEqualsSortedList(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := &heapTwin{jobs: slab.NewPool[Job]()}
		few := 1 + rng.Uint64N(50) // so that keys repeat
		for step := range 3000 {
			growing := step/700%2 == 0
			switch n := rng.IntN(10); {
			case n < 6 == growing || len(w.list) == 0:
				w.push(rng.Uint64N(few), rng.Uint32N(3))
			case n == 9:
				k := rng.IntN(len(w.list))
				w.list[k].A, w.list[k].B = rng.Uint64N(few), rng.Uint32N(3)
				w.heap.Set(w.jobs, int(w.jobs.At(w.list[k].Job).Pos), w.list[k])
			default:
				w.remove(rng.IntN(len(w.list)))
			}
			if step%40 == 0 || len(w.list) < 8 {
				w.check(t)
			}
		}
		for len(w.list) > 0 {
			w.remove(slices.Index(w.list, *w.heap.top()))
		}
		w.check(t)
		w.jobs.Close()
	}
}

// The first block grows 4, 16, 64, 256, 1024, then blocks are added; an
// emptied heap is small again.
func TestHeapBlocksFollowTheNumberOfJobs(t *testing.T) {
	w := &heapTwin{jobs: slab.NewPool[Job]()}
	defer w.jobs.Close()
	for n := 1; n <= 3*heapChunk+1; n++ {
		w.push(uint64(n), 0)
		want := 4
		for want < n && want < heapChunk {
			want *= 4
		}
		if n > heapChunk {
			want = (n + heapChunk - 1) / heapChunk * heapChunk
		}
		if w.room() != want {
			t.Fatalf("%d jobs: room for %d, want %d", n, w.room(), want)
		}
	}
	w.check(t)
	for len(w.list) > 0 {
		w.remove(len(w.list) - 1)
		if n := len(w.list); w.room() > n+heapChunk*3/2 || n < 512 && w.room() > max(heapSmall, 16*n+16) {
			t.Fatalf("%d jobs: room for %d", n, w.room())
		}
	}
	if w.room() > heapSmall {
		t.Errorf("an empty heap keeps room for %d", w.room())
	}
}
