package slab

import "math/bits"

// A set holds small numbers (of regions) and finds the least one by looking at
// one summary word per 4096 of them: 4 GiB of regions.
type set struct {
	words []uint64 // bit i%64 of word i/64: i is in the set
	sums  []uint64 // bit w%64 of sum w/64: word w is not zero
}

// add puts i into the set, in which it may be.
func (s *set) add(i int) {
	w := i / 64
	for len(s.words) <= w {
		s.words = append(s.words, 0)
	}
	for len(s.sums) <= w/64 {
		s.sums = append(s.sums, 0)
	}
	s.words[w] |= 1 << (i % 64)
	s.sums[w/64] |= 1 << (w % 64)
}

// remove takes i out of the set, in which it need not be.
func (s *set) remove(i int) {
	w := i / 64
	if w >= len(s.words) {
		return
	}
	s.words[w] &^= 1 << (i % 64)
	if s.words[w] == 0 {
		s.sums[w/64] &^= 1 << (w % 64)
	}
}

// min returns the least member, or -1.
func (s *set) min() int {
	for i, sum := range s.sums {
		if sum != 0 {
			w := i*64 + bits.TrailingZeros64(sum)
			return w*64 + bits.TrailingZeros64(s.words[w])
		}
	}
	return -1
}
