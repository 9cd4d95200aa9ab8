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

// most is a view of tubes with a prefix, with most ready jobs first.
func most(prefix string, limit int) View {
	return View{
		Key: fmt.Sprintf("%s %d", prefix, limit), Limit: limit,
		Match: func(name string) bool { return strings.HasPrefix(name, prefix) },
		Compare: func(a, b *core.TubeRow) int {
			return cmp.Or(-cmp.Compare(a.Ready, b.Ready), cmp.Compare(a.Name, b.Name))
		},
	}
}

// A client has the view that the changes have given it.
type client struct {
	look *Look
	view View
	has  map[string]uint64
	seen uint64 // number of the last sample that was shown as a whole
}

func (c *client) apply(t *testing.T, v *admin.TubeSample, ch Change) {
	for _, name := range ch.Gone {
		_, had := c.has[name]
		require(t, had, "%s has gone, and was never there", name)
		delete(c.has, name)
	}
	for _, i := range ch.Rows {
		name := v.Rows[i].Name
		_, had := c.has[name]
		require(t, !had || v.Changed[i] > c.seen, "%s is shown again, and has not changed", name)
		c.has[name] = v.Rows[i].Ready
	}
}

// TestViewsFollowLikeATwin: a client that applies the changes always has the view. It gets a tube
// again only if the tube has changed or has entered the view.
func TestViewsFollowLikeATwin(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	w := New(nil, 1, 0)
	all := &table{number: 1, ready: make(map[string]uint64), since: make(map[string]uint64)}
	var clients []*client
	for i, limit := range []int{1, 3, 3, 10, 100, 1000} {
		view := most([]string{"", "a"}[i%2], limit)
		clients = append(clients, &client{w.Look(view), view, make(map[string]uint64), 0})
	}
	for range rounds {
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
				continue // the client is slow
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
			c.seen = v.Number
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
