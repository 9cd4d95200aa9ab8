package shard

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// starts are first positions: the usual one, and some from which the index,
// and twice the index, wrap around within a test.
var starts = []uint64{0, math.MaxUint64 - 5, 1<<63 - 5}

func TestRingRefusesOddCapacities(t *testing.T) {
	for _, c := range []int{-1, 0, 3, 6, 1000, math.MinInt} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("capacity %d was taken", c)
				}
			}()
			newRing[int](c)
		}()
	}
	for _, c := range []int{1, 2, 1024} {
		newRing[int](c)
	}
}

func TestRingIsFullEmptyAndInOrder(t *testing.T) {
	for _, start := range starts {
		for _, capacity := range []int{1, 2, 4, 16} {
			r := newRingAt[int](capacity, start)
			next, want := 1, 1
			for lap := range 20 {
				if !r.Empty() || r.Len() != 0 {
					t.Fatalf("start %d capacity %d: %d left", start, capacity, r.Len())
				}
				if v, ok := r.Pop(); ok || v != 0 {
					t.Fatalf("popped %d from an empty ring", v)
				}
				// In odd laps half full, so that laps begin anywhere.
				n := capacity
				if lap%2 == 1 {
					n = (capacity + 1) / 2
				}
				for i := range n {
					if !r.Push(next) {
						t.Fatalf("start %d: push %d of %d refused", start, i, capacity)
					}
					next++
					if r.Empty() || r.Len() != i+1 {
						t.Fatalf("Len %d after %d pushes", r.Len(), i+1)
					}
				}
				if n == capacity && r.Push(-1) {
					t.Fatalf("start %d capacity %d: pushed into a full ring", start, capacity)
				}
				for range n {
					if v, ok := r.Pop(); !ok || v != want {
						t.Fatalf("popped %d %v, want %d", v, ok, want)
					}
					want++
				}
			}
		}
	}
}

func TestPopForgetsValue(t *testing.T) {
	r := newRing[*int](4)
	for range 6 {
		r.Push(new(int))
		r.Pop()
	}
	for i := range r.slots {
		if r.slots[i].value != nil {
			t.Errorf("slot %d keeps a popped value", i)
		}
	}
}

// A producer that has claimed a position and stands still hides later values
// from Pop, but not from Empty.
func TestStalledProducerIsNotEmpty(t *testing.T) {
	for _, start := range starts {
		r := newRingAt[int](4, start)
		pos := r.tail.Load() // the first half of a Push
		r.tail.Store(pos + 1)
		if !r.Push(2) {
			t.Fatal("push refused")
		}
		if v, ok := r.Pop(); ok {
			t.Fatalf("popped %d past an unfinished push", v)
		}
		if r.Empty() || r.Len() != 2 {
			t.Fatalf("Empty %v, Len %d while a pushed value is left", r.Empty(), r.Len())
		}
		s := &r.slots[pos&r.mask] // the second half
		s.value = 1
		s.seq.Store(pos<<1 | 1)
		for want := 1; want <= 2; want++ {
			if v, ok := r.Pop(); !ok || v != want {
				t.Fatalf("popped %d %v, want %d", v, ok, want)
			}
		}
		if !r.Empty() {
			t.Fatal("not empty at the end")
		}
	}
}

// message is like the real thing: written by the producer before the push, so
// that the race detector sees whether Push publishes it.
type message struct{ producer, number int }

// order checks that each producer's messages come complete and in order.
type order struct {
	next []int
	seen int
}

func (o *order) take(t *testing.T, m *message) {
	if m == nil {
		t.Error("popped nil")
		return
	}
	if o.next[m.producer] != m.number {
		t.Errorf("producer %d: got %d, want %d", m.producer, m.number, o.next[m.producer])
	}
	o.next[m.producer] = m.number + 1
	o.seen++
}

// All goroutines push, and the one that gets the ownership word consumes; after the release each
// looks once more. No wake-up may be lost: once all have returned, nothing is left. The order and
// the count are plain variables, so the race detector checks the hand-over.
func TestHandOverUnderOwnership(t *testing.T) {
	const workers, each = 8, 4000
	for i, start := range starts {
		r := newRingAt[*message]([]int{1, 4, 1024}[i], start)
		var owned atomic.Bool
		o := order{next: make([]int, workers)}
		drain := func() {
			for !r.Empty() {
				if owned.Load() || !owned.CompareAndSwap(false, true) {
					return // the owner looks again after its release
				}
				for {
					m, ok := r.Pop()
					if !ok {
						break
					}
					o.take(t, m)
				}
				owned.Store(false)
				// Here !Empty may mean a push that is half done: its
				// producer, or this loop, comes back for it.
				runtime.Gosched()
			}
		}
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range each {
					for m := (&message{w, i}); !r.Push(m); runtime.Gosched() {
						drain()
					}
					drain()
				}
			})
		}
		wg.Wait()
		if o.seen != workers*each || !r.Empty() {
			t.Fatalf("start %d: %d of %d consumed, %d left", start, o.seen, workers*each, r.Len())
		}
	}
}
