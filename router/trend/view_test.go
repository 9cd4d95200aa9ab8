package trend

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"polystalk/router/admin"
	"polystalk/shard/core"
)

// A table makes samples of tubes that change.
type table struct {
	number uint64
	ready  map[string]uint64
	since  map[string]uint64 // the sample in which each has changed
}

func (t *table) sample() *admin.TubeSample {
	v := &admin.TubeSample{Number: t.number}
	for _, name := range slices.Sorted(maps.Keys(t.ready)) {
		v.Rows = append(v.Rows, core.TubeRow{TubeStats: core.TubeStats{Name: name, Ready: t.ready[name]}})
		v.Changed = append(v.Changed, t.since[name])
	}
	return v
}

func (t *table) set(name string, ready uint64) {
	t.ready[name], t.since[name] = ready, t.number
}

// most shows tubes with a prefix, those with most ready jobs first.
func most(prefix string, limit int) View {
	return View{
		Key: fmt.Sprintf("%s %d", prefix, limit), Limit: limit,
		Match: func(name string) bool { return strings.HasPrefix(name, prefix) },
		Compare: func(a, b *core.TubeRow) int {
			return cmp.Or(-cmp.Compare(a.Ready, b.Ready), cmp.Compare(a.Name, b.Name))
		},
	}
}

func (c Change) names(v *admin.TubeSample) (list []string) {
	for _, i := range c.Rows {
		list = append(list, v.Rows[i].Name)
	}
	return list
}

// TestOnlyWhatHasChangedIsShown: rows that are others, that come into the view, that leave it.
func TestOnlyWhatHasChangedIsShown(t *testing.T) {
	w := New(nil, 1, 0)
	all := &table{number: 1, ready: make(map[string]uint64), since: make(map[string]uint64)}
	l := w.Look(most("a", 2))
	step := func(wantOK bool, want Change, names ...string) {
		t.Helper()
		v := all.sample()
		c, ok := l.Next(v)
		if ok != wantOK || c.Whole != want.Whole || c.Matching != want.Matching || !slices.Equal(c.Gone, want.Gone) || !slices.Equal(c.names(v), names) {
			t.Errorf("%v %+v %v, want %v %+v %v", ok, c, c.names(v), wantOK, want, names)
		}
		all.number++
	}
	step(true, Change{Whole: true}) // there is nothing, and that is told
	step(false, Change{})
	all.set("a1", 10)
	all.set("b1", 99)
	step(true, Change{Matching: 1}, "a1")
	step(false, Change{Matching: 1})
	all.set("b1", 98)
	step(false, Change{Matching: 1})
	all.set("a2", 5)
	all.set("a3", 4)
	step(true, Change{Matching: 3}, "a2")
	all.set("a3", 3) // not in view
	step(false, Change{Matching: 3})
	all.set("a3", 7)
	step(true, Change{Matching: 3, Gone: []string{"a2"}}, "a3")
	all.set("a3", 1) // a2, which has not changed, comes into the view again
	step(true, Change{Matching: 3, Gone: []string{"a3"}}, "a2")
	delete(all.ready, "a3")
	step(true, Change{Matching: 2})
	delete(all.ready, "a1")
	step(true, Change{Matching: 1, Gone: []string{"a1"}})
	all.set("a1", 10)
	step(true, Change{Matching: 2}, "a1")
}

// A client has what it was told.
type client struct {
	look *Look
	view View
	has  map[string]uint64
}

func (c *client) apply(t *testing.T, v *admin.TubeSample, ch Change) {
	for _, name := range ch.Gone {
		_, had := c.has[name]
		require(t, had, "%s has gone, and was never there", name)
		delete(c.has, name)
	}
	for _, i := range ch.Rows {
		c.has[v.Rows[i].Name] = v.Rows[i].Ready
	}
}

// TestViewsFollowLikeATwin: a client that applies the changes always has the view.
func TestViewsFollowLikeATwin(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	w := New(nil, 1, 0)
	all := &table{number: 1, ready: make(map[string]uint64), since: make(map[string]uint64)}
	var clients []*client
	for i, limit := range []int{1, 3, 3, 10, 100, 1000} {
		view := most([]string{"", "a"}[i%2], limit)
		clients = append(clients, &client{w.Look(view), view, make(map[string]uint64)})
	}
	for range 400 {
		all.number++
		changes := rnd.IntN(4)
		if rnd.IntN(20) == 0 {
			changes = 500
		}
		for range changes {
			name := fmt.Sprintf("%c%d", 'a'+rnd.IntN(2), rnd.IntN(4+changes/2))
			if rnd.IntN(3) == 0 {
				delete(all.ready, name)
			} else {
				all.set(name, uint64(rnd.IntN(10)))
			}
		}
		v := all.sample()
		for _, c := range clients {
			if rnd.IntN(3) == 0 {
				continue // he is slow
			}
			ch, ok := c.look.Next(v)
			for first := true; ; first = false {
				require(t, len(ch.Rows) <= changeMost && (!ch.More || len(ch.Rows) >= changeMost) && (!ch.Whole || first), "seed %d: %d rows at a time, more: %v", seed, len(ch.Rows), ch.More)
				if c.apply(t, v, ch); !ch.More || rnd.IntN(5) == 0 {
					break
				}
				ch, ok = c.look.Next(v)
			}
			require(t, ok || len(ch.Rows) <= 0 && len(ch.Gone) <= 0, "seed %d: nothing, but %+v", seed, ch)
			if ch.More {
				continue // the rest is for the next sample
			}
			want := make(map[string]uint64)
			rows := slices.DeleteFunc(slices.Clone(v.Rows), func(r core.TubeRow) bool { return !c.view.Match(r.Name) })
			slices.SortFunc(rows, func(a, b core.TubeRow) int { return c.view.Compare(&a, &b) })
			for _, r := range rows[:min(len(rows), c.view.Limit)] {
				want[r.Name] = r.Ready
			}
			require(t, maps.Equal(c.has, want) && ch.Matching == len(rows), "seed %d: a client has %v, want %v", seed, c.has, want)
		}
	}
}
