package trend

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"

	"polystalk/router/admin"
	"polystalk/shard/core"
)

// stay is how long a tube stays chosen after it was last among the busiest.
const stay = time.Hour

// A Choice selects a bounded number of tubes to show: first the tubes that match, then the
// busiest. A tube stays chosen until it is removed, or for an hour was not one of the 2*most
// busiest. Without this, graphs would have holes, and series of alerts would come and go. All
// methods may be called concurrently.
type Choice struct {
	mu     sync.Mutex
	most   int
	match  func(name string) bool // nil: nothing matches
	sample *admin.TubeSample
	chosen []int                // rows of sample
	last   map[string]time.Time // by name: when a chosen tube was last among the busiest
}

// NewChoice makes a choice of at most most tubes; match, which may be nil, reports which tubes
// come first.
func NewChoice(most int, match func(name string) bool) *Choice {
	return &Choice{most: most, match: match, last: make(map[string]time.Time)}
}

// Set changes the number of tubes and the match. Chosen tubes stay chosen if they fit.
func (c *Choice) Set(most int, match func(name string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most, c.match, c.sample = most, match, nil
}

// Of returns the chosen rows of a sample. The caller must not change them.
func (c *Choice) Of(v *admin.TubeSample) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sample == v {
		return c.chosen
	}
	busier := func(a, b int) int {
		return cmp.Or(-cmp.Compare(activity(v, a), activity(v, b)), -cmp.Compare(v.Rows[a].Total, v.Rows[b].Total), cmp.Compare(v.Rows[a].Name, v.Rows[b].Name))
	}
	all := func(yield func(int) bool) {
		for i := range v.Rows {
			if !yield(i) {
				return
			}
		}
	}
	for _, i := range First(all, 2*c.most, busier) {
		if name := v.Rows[i].Name; !c.last[name].IsZero() {
			c.last[name] = v.At
		}
	}
	class := make([]uint8, len(v.Rows))
	for i := range v.Rows {
		name := v.Rows[i].Name
		if c.match == nil || !c.match(name) {
			class[i] += 2
		}
		if last, ok := c.last[name]; !ok || v.At.Sub(last) >= stay {
			class[i]++
		}
	}
	chosen := First(all, c.most, func(a, b int) int { return cmp.Or(cmp.Compare(class[a], class[b]), busier(a, b)) })
	last := make(map[string]time.Time, len(chosen))
	for _, i := range chosen {
		name := v.Rows[i].Name
		last[name] = v.At
		if class[i]&1 == 0 {
			last[name] = c.last[name]
		}
	}
	c.sample, c.chosen, c.last = v, chosen, last
	return chosen
}

// activity returns the events per second in a tube.
func activity(v *admin.TubeSample, i int) float32 {
	r := &v.Rates[i]
	return r.Put + r.Reserve + r.Delete + r.Timeout
}

// First returns the first n rows in the order of compare, sorted. It stores at most 2n rows.
func First(rows func(func(int) bool), n int, compare func(a, b int) int) []int {
	if n == 0 {
		return nil
	}
	var list []int
	full := false // list[:n] has the first n rows seen so far
	for i := range rows {
		if full && compare(i, list[n-1]) > 0 {
			continue
		}
		if list = append(list, i); len(list) >= 2*n {
			slices.SortFunc(list, compare)
			list, full = list[:n], true
		}
	}
	slices.SortFunc(list, compare)
	return list[:min(n, len(list))]
}

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

// views caches the selected rows of all streams' views in the newest sample.
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

// A Look stores what one stream has shown of a view: a name and a flag per tube. It belongs
// to one goroutine.
type Look struct {
	w        *Watch
	view     View
	stale    map[string]bool // whether a shown tube must be shown again, by name; nil: nothing was shown
	number   uint64          // of the last sample
	matching int
}

// changeMost is the largest number of rows of a Change. It bounds the memory of the events for a
// slow client, however large its view is.
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
