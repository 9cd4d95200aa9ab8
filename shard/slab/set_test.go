package slab

import (
	"math/rand/v2"
	"testing"
)

func TestSetFindsLeast(t *testing.T) {
	var s set
	in := map[int]bool{}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		i := rng.IntN(10000)
		if rng.IntN(3) == 0 {
			s.add(i)
			in[i] = true
		} else {
			if m := s.min(); m >= 0 && rng.IntN(2) == 0 {
				i = m
			}
			s.remove(i)
			delete(in, i)
		}
		want := -1
		for k := range in {
			if want < 0 || k < want {
				want = k
			}
		}
		if got := s.min(); got != want {
			t.Fatalf("min %d, want %d", got, want)
		}
	}
	s.remove(1 << 20)
}
