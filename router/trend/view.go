package trend

import (
	"runtime"
	"sync"

	"polystalk/router/admin"
	"polystalk/shard/core"
)

// A View is a list of tubes: the first Limit tubes that match.
type View struct {
	Key     string // views with the same key show the same tubes
	Match   func(name string) bool
	Compare func(a, b *core.TubeRow) int // the order
	Limit   int
}

// selected has the rows of a sample that a view shows.
type selected struct {
	rows     []int // in the view's order
	matching int
}

// views caches the selected rows of all subscribers' views in the newest sample.
type views struct {
	mu     sync.Mutex // held while a view is computed, so that one is computed at a time
	sample *admin.TubeSample
	of     map[string]selected
}

func (s *views) rows(v *admin.TubeSample, view *View) selected {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sample != v {
		s.sample, s.of = v, make(map[string]selected)
	}
	sel, ok := s.of[view.Key]
	if !ok {
		matching := func(yield func(int) bool) {
			for i := range v.Rows {
				if view.Match(v.Rows[i].Name) {
					sel.matching++
					if !yield(i) {
						return
					}
				}
			}
		}
		sel.rows = First(matching, view.Limit, func(a, b int) int { return view.Compare(&v.Rows[a], &v.Rows[b]) })
		s.of[view.Key] = sel
		runtime.Gosched()
	}
	return sel
}

// A Look stores what one subscriber has seen of a view: a name and a flag per tube. It belongs
// to one goroutine.
type Look struct {
	w        *Watch
	view     View
	stale    map[string]bool // whether a shown tube must be shown again, by name; nil: nothing was shown
	number   uint64          // of the last sample
	matching int
}

// changeMost is the largest number of rows of a Change. It bounds the memory of the events for a
// slow subscriber, however large its view is.
const changeMost = 100

// Look makes a Look at a view.
func (w *Watch) Look(v View) *Look { return &Look{w: w, view: v} }

// A Change is the difference between the rows that a Look has shown and a sample.
type Change struct {
	Whole    bool     // nothing was shown before
	More     bool     // there are more changes: call Next again with the newest sample
	Rows     []int    // rows of the sample: tubes that changed or entered the view
	Gone     []string // tubes that left the view
	Matching int      // tubes that match, inside the view or not
}

// Next returns the changes since the last call. It returns false if there are none.
func (l *Look) Next(v *admin.TubeSample) (c Change, ok bool) {
	sel := l.w.views.rows(v, &l.view)
	c.Whole, c.Matching = l.stale == nil, sel.matching
	now := make(map[string]bool, len(sel.rows))
	for _, i := range sel.rows {
		name := v.Rows[i].Name
		stale, before := l.stale[name]
		delete(l.stale, name)
		switch {
		case before && !stale && v.Changed[i] <= l.number:
			now[name] = false
		case len(c.Rows) < changeMost:
			c.Rows = append(c.Rows, i)
			now[name] = false
		default:
			if c.More = true; before {
				now[name] = true
			}
		}
	}
	for name := range l.stale {
		c.Gone = append(c.Gone, name)
	}
	ok = c.Whole || c.Rows != nil || c.Gone != nil || c.Matching != l.matching
	l.stale, l.number, l.matching = now, v.Number, sel.matching
	return c, ok
}
