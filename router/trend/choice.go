package trend

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"polystalk/router/admin"
)

// stay is how long a chosen tube stays that is not among the busiest any more.
const stay = time.Hour

// A Choice says which tubes are shown where there is only place for some. Those come first
// whose names were asked for, then the busiest; a tube that was chosen stays until it is
// gone, or was not among the busiest for an hour, of which there are twice as many as
// places: graphs with holes, and alerts on series that come and go, help nobody. It may be
// used by anyone at any time.
type Choice struct {
	mu     sync.Mutex
	most   int
	match  func(name string) bool
	sample *admin.TubeSample
	chosen []int // rows of sample
	// last is when a tube that is chosen was chosen, or was among the busiest.
	last map[string]time.Time
}

// NewChoice makes one of at most so many tubes; match says which are asked for by name.
func NewChoice(most int, match func(name string) bool) *Choice {
	return &Choice{most: most, match: match, last: make(map[string]time.Time)}
}

// Set changes how many are chosen, and which are asked for by name. What was chosen stays if
// there is a place for it.
func (c *Choice) Set(most int, match func(name string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most, c.match, c.sample = most, match, nil
}

// Of gives the rows of a sample that are shown; they are not to be changed.
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
		if !c.match(name) {
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

// activity is how much goes on in a tube.
func activity(v *admin.TubeSample, i int) float32 {
	r := &v.Rates[i]
	return r.Put + r.Reserve + r.Delete + r.Timeout
}

// First are the first n in an order, sorted. Few of many are moved at all.
func First(rows func(func(int) bool), n int, compare func(a, b int) int) []int {
	if n == 0 {
		return nil
	}
	var list []int
	full := false // then who comes after the n-th is none of them
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
