package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"polystalk/shard/core"
)

// TestRegistryIsASortedSlice: the registry has all sessions in order, finds each by its number, and
// a walk from any number yields the sessions after it.
func TestRegistryIsASortedSlice(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var reg registry
		var all []*Session
		last := uint64(0)
		most := 1 + r.IntN(2000)
		for step := range 6000 {
			if grow := step/1500%2 == 0; len(all) == 0 || len(all) < most && r.IntN(4) < 3 == grow {
				last += 1 + r.Uint64N(3)
				s := new(Session)
				s.activity.number = last
				reg.add(s)
				all = append(all, s)
			} else {
				i := r.IntN(len(all))
				reg.remove(all[i])
				all = slices.Delete(all, i, i+1)
			}
			number := r.Uint64N(last + 2)
			at, _ := slices.BinarySearchFunc(all, number, func(s *Session, n uint64) int { return int(s.activity.number) - int(n) })
			var want *Session
			if at < len(all) && all[at].activity.number == number {
				want = all[at]
				at++
			}
			if got := reg.find(number); got != want {
				t.Fatalf("seed %d: session %d is found: %t, want %t", seed, number, got != nil, want != nil)
			}
			for s := range reg.after(number) {
				if at == len(all) || s != all[at] || r.IntN(20) == 0 {
					break
				}
				at++
			}
			if step%50 == 0 {
				if err := reg.check(len(all)); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if got := slices.Collect(reg.after(0)); !slices.Equal(got, all) {
					t.Fatalf("seed %d: %d sessions, want %d", seed, len(got), len(all))
				}
				if most, n := 4*len(all)/sessionBlockMax+2, len(reg.blocks); n > most {
					t.Fatalf("seed %d: %d blocks for %d sessions", seed, n, len(all))
				}
			}
		}
	}
}

// check looks for contradictions in a registry of want sessions.
func (r *registry) check(want int) error {
	n, last := 0, uint64(0)
	for _, b := range r.blocks {
		if b.n == 0 {
			return fmt.Errorf("the registry has an empty block")
		}
		for _, s := range b.s[:b.n] {
			if s.activity.number <= last {
				return fmt.Errorf("session %d is registered behind %d", s.activity.number, last)
			}
			last = s.activity.number
			n++
		}
	}
	if n != want || r.n != want {
		return fmt.Errorf("%d sessions are registered, counted %d, want %d", n, r.n, want)
	}
	return nil
}

// TestNumbersTellTheirLoops: numbers are unique and rising, name their loops, and have few gaps when
// all loops get equally many connections.
func TestNumbersTellTheirLoops(t *testing.T) {
	now := core.Time(1)
	h := newTestHost(&now)
	for range 5 {
		NewLoop(h, func() {})
	}
	r := rand.New(rand.NewPCG(1, 1))
	last := uint64(0)
	for range 1000 {
		l := r.IntN(5)
		n := h.numberFor(l)
		if n <= last || n > last+5 || h.LoopOf(n).Index != l {
			t.Fatalf("loop %d gives %d behind %d, which is loop %d's", l, n, last, h.LoopOf(n).Index)
		}
		last = n
	}
}
