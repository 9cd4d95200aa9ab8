package trend

import (
	"iter"
	"runtime"
	"sync"

	"polystalk/router/admin"
	"polystalk/shard/core"
)

// A View is the tubes that somebody looks at: those that match, of these the first.
type View struct {
	Key     string // those with the same key show the same
	Match   func(name string) bool
	Compare func(a, b *core.TubeRow) int // the order
	Limit   int
}

// selected are the rows of a sample that a view shows, in their order, and how many match.
type selected struct {
	rows     []int
	matching int
}

// views are what the views of all subscribers show of the newest sample: those who look at
// the same share it.
type views struct {
	mu     sync.Mutex // held while one is worked out, so one is at a time
	sample *admin.TubeSample
	of     map[string]selected
}

// rows works out what a view shows.
func (s *views) rows(v *admin.TubeSample, view *View) selected {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sample != v {
		s.sample, s.of = v, make(map[string]selected)
	}
	sel, ok := s.of[view.Key]
	if !ok {
		sel.rows = First(sel.count(v, view), view.Limit, func(a, b int) int { return view.Compare(&v.Rows[a], &v.Rows[b]) })
		s.of[view.Key] = sel
		runtime.Gosched()
	}
	return sel
}

// count gives the rows that match, and counts them.
func (s *selected) count(v *admin.TubeSample, view *View) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range v.Rows {
			if view.Match(v.Rows[i].Name) {
				s.matching++
				if !yield(i) {
					return
				}
			}
		}
	}
}

// A Look is what one subscriber has seen of a view. It belongs to one goroutine.
type Look struct {
	w        *Watch
	view     View
	seen     map[string]shown // the tubes that the view has shown; nil: nothing was shown yet
	number   uint64           // of the last sample
	matching int
}

// shown says whether a tube that was shown has to be shown again.
type shown bool

const (
	current shown = false
	stale   shown = true
)

// changeMost is how many rows there are in a Change: what is made for a subscriber, who may be
// slow, does not grow with the view.
const changeMost = 100

// Look begins to look at a view.
func (w *Watch) Look(v View) *Look { return &Look{w: w, view: v} }

// A Change is what is another in a view than it was.
type Change struct {
	Whole    bool     // nothing was shown before
	More     bool     // this is not all: Next, with the newest sample, has more at once
	Rows     []int    // of the sample: tubes that have changed, or that have come into the view
	Gone     []string // tubes that are no longer in the view
	Matching int      // tubes that match, in the view or not
}

// Next is what has changed since the last sample, and what was left then; not ok: nothing.
func (l *Look) Next(v *admin.TubeSample) (c Change, ok bool) {
	sel := l.w.views.rows(v, &l.view)
	c.Whole, c.Matching = l.seen == nil, sel.matching
	now := make(map[string]shown, len(sel.rows))
	for _, i := range sel.rows {
		name := v.Rows[i].Name
		was, before := l.seen[name]
		delete(l.seen, name)
		switch {
		case before && was == current && v.Changed[i] <= l.number:
			now[name] = current
		case len(c.Rows) < changeMost:
			c.Rows = append(c.Rows, i)
			now[name] = current
		default:
			if c.More = true; before {
				now[name] = stale
			}
		}
	}
	for name := range l.seen {
		c.Gone = append(c.Gone, name)
	}
	ok = c.Whole || c.Rows != nil || c.Gone != nil || c.Matching != l.matching
	l.seen, l.number, l.matching = now, v.Number, sel.matching
	return c, ok
}
