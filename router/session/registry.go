package session

import (
	"iter"
	"slices"
	"sort"
)

// A registry has a loop's sessions in the order of their numbers, which is the order of their
// connections. It uses blocks, so that adding, removing and finding a session is cheap in a
// registry of any size, and each session takes little more than a pointer.
type registry struct {
	blocks []*sessionBlock          // none is empty
	n      int                      // sessions
	ends   map[*Session][]func()    // see Session.WhenGone
	timers map[*Session]func() bool // stops the timers of Throttled sessions

	unproven fifo[deadline] // of sessions whose clients must authenticate; some may be gone
}

// sessionBlockMax is chosen so that a block fills a size class of Go's allocator.
const sessionBlockMax = 127

type sessionBlock struct {
	n int
	s [sessionBlockMax]*Session
}

// add appends a session.
func (r *registry) add(s *Session) {
	k := len(r.blocks) - 1
	if k < 0 || r.blocks[k].n == sessionBlockMax {
		r.blocks = append(r.blocks, new(sessionBlock))
		k++
	}
	b := r.blocks[k]
	b.s[b.n] = s
	b.n++
	r.n++
}

// above returns the place of the first session with a higher number: its block and its position
// there. If there is none, block is len(r.blocks).
func (r *registry) above(number uint64) (block, at int) {
	block = sort.Search(len(r.blocks), func(i int) bool {
		b := r.blocks[i]
		return b.s[b.n-1].activity.number > number
	})
	if block < len(r.blocks) {
		b := r.blocks[block]
		at = sort.Search(b.n, func(i int) bool { return b.s[i].activity.number > number })
	}
	return block, at
}

// find returns the session with a number, nil if it is gone.
func (r *registry) find(number uint64) *Session {
	if number == 0 {
		return nil
	}
	if block, at := r.above(number - 1); block < len(r.blocks) {
		if s := r.blocks[block].s[at]; s.activity.number == number {
			return s
		}
	}
	return nil
}

// remove removes a session.
func (r *registry) remove(s *Session) {
	block, at := r.above(s.activity.number - 1)
	if block == len(r.blocks) || r.blocks[block].s[at] != s {
		s.impossible("is not in the registry")
	}
	b := r.blocks[block]
	copy(b.s[at:], b.s[at+1:b.n])
	b.n--
	b.s[b.n] = nil
	r.n--
	switch {
	case b.n == 0:
		r.blocks = slices.Delete(r.blocks, block, block+1)
	case block+1 < len(r.blocks) && b.n+r.blocks[block+1].n <= sessionBlockMax/2:
		r.merge(block)
	case block > 0 && b.n+r.blocks[block-1].n <= sessionBlockMax/2:
		r.merge(block - 1)
	}
}

// merge joins a block and the next one, which together fill at most half a block.
func (r *registry) merge(block int) {
	b, next := r.blocks[block], r.blocks[block+1]
	b.n += copy(b.s[b.n:], next.s[:next.n])
	r.blocks = slices.Delete(r.blocks, block+1, block+2)
}

// after yields the sessions with higher numbers, in order. The registry must not change meanwhile.
func (r *registry) after(number uint64) iter.Seq[*Session] {
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

// enroll registers and counts a new session.
func (l *Loop) enroll(s *Session, f Front) {
	s.front = l.host.indexOf(f)
	c := &l.counts.fronts[s.front]
	c.open.Add(1)
	c.accepted.Add(1)
	s.activity = activity{number: l.host.numberFor(l.Index), since: l.batch.Now}
	l.registry.add(s)
}

// Sessions yields the loop's sessions with higher numbers, in order. The caller must hold the
// loop, and no session may begin or end meanwhile.
func (l *Loop) Sessions(above uint64) iter.Seq[*Session] { return l.registry.after(above) }

// Session returns the loop's session with that number, nil if it is gone. The caller must hold
// the loop.
func (l *Loop) Session(number uint64) *Session { return l.registry.find(number) }
