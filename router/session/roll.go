package session

import (
	"fmt"
	"iter"
	"slices"
	"sort"
)

// A roll is a loop's sessions in the order of their numbers, which is that in which they
// came. They stand in blocks, so that one comes, goes and is found at a cost that hardly
// depends on how many there are, and each takes little more than a pointer.
type roll struct {
	blocks []*rollBlock          // none is empty
	n      int                   // sessions
	ends   map[*Session][]func() // see Session.WhenGone
}

// rollBlockMax makes a block as large as what the allocator gives for it.
const rollBlockMax = 127

type rollBlock struct {
	n int
	s [rollBlockMax]*Session
}

// add puts a session behind all others.
func (r *roll) add(s *Session) {
	k := len(r.blocks) - 1
	if k < 0 || r.blocks[k].n == rollBlockMax {
		r.blocks = append(r.blocks, new(rollBlock))
		k++
	}
	b := r.blocks[k]
	b.s[b.n] = s
	b.n++
	r.n++
}

// above is the place of the first session with a number above that one: its block, which may
// be the one behind the last, and its position there.
func (r *roll) above(number uint64) (block, at int) {
	block = sort.Search(len(r.blocks), func(i int) bool {
		b := r.blocks[i]
		return b.s[b.n-1].notes.number > number
	})
	if block < len(r.blocks) {
		b := r.blocks[block]
		at = sort.Search(b.n, func(i int) bool { return b.s[i].notes.number > number })
	}
	return block, at
}

// find is the session of a number, nil if it has gone.
func (r *roll) find(number uint64) *Session {
	if number == 0 {
		return nil
	}
	if block, at := r.above(number - 1); block < len(r.blocks) {
		if s := r.blocks[block].s[at]; s.notes.number == number {
			return s
		}
	}
	return nil
}

// remove takes a session off.
func (r *roll) remove(s *Session) {
	block, at := r.above(s.notes.number - 1)
	if block == len(r.blocks) || r.blocks[block].s[at] != s {
		s.impossible("is not on the roll")
	}
	b := r.blocks[block]
	copy(b.s[at:], b.s[at+1:b.n])
	b.n--
	b.s[b.n] = nil
	r.n--
	switch {
	case b.n == 0:
		r.blocks = slices.Delete(r.blocks, block, block+1)
	case block+1 < len(r.blocks) && b.n+r.blocks[block+1].n <= rollBlockMax/2:
		r.merge(block)
	case block > 0 && b.n+r.blocks[block-1].n <= rollBlockMax/2:
		r.merge(block - 1)
	}
}

// merge makes one of two blocks that have become half of one.
func (r *roll) merge(block int) {
	b, next := r.blocks[block], r.blocks[block+1]
	b.n += copy(b.s[b.n:], next.s[:next.n])
	r.blocks = slices.Delete(r.blocks, block+1, block+2)
}

// after gives the sessions with numbers above that one, in order, while nobody comes or goes.
func (r *roll) after(number uint64) iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		block, at := r.above(number)
		for ; block < len(r.blocks); block, at = block+1, 0 {
			for b := r.blocks[block]; at < b.n; at++ {
				if !yield(b.s[at]) {
					return
				}
			}
		}
	}
}

// check looks for contradictions in a roll of so many.
func (r *roll) check(want int) error {
	n, last := 0, uint64(0)
	for _, b := range r.blocks {
		if b.n == 0 {
			return fmt.Errorf("an empty block is on the roll")
		}
		for _, s := range b.s[:b.n] {
			if s.notes.number <= last {
				return fmt.Errorf("session %d is on the roll behind %d", s.notes.number, last)
			}
			last = s.notes.number
			n++
		}
	}
	if n != want || r.n != want {
		return fmt.Errorf("%d sessions on the roll, counted %d, want %d", n, r.n, want)
	}
	return nil
}
