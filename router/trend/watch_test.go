package trend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/router/session"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// A fake is a Source with figures that a test sets.
type fake struct {
	mu      sync.Mutex
	number  uint64
	server  *admin.Sample
	tubes   *admin.TubeSample
	rows    []core.TubeRow
	flows   map[string]core.Flow
	refuses error
	looks   []time.Time // at the server
}

func (f *fake) Sample(_ context.Context, age time.Duration) (*admin.Sample, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuses != nil {
		return nil, f.refuses
	}
	if f.server == nil || time.Since(f.server.At) >= age {
		f.number++
		f.looks = append(f.looks, time.Now())
		v := &admin.Sample{Number: f.number, At: time.Now(), Sums: &session.Sums{Commands: []uint64{f.number * 3, f.number * 4}}}
		v.Jobs.Ready = f.number
		v.Flow.Puts = 10 * f.number
		f.server = v
	}
	return f.server, nil
}

func (f *fake) Tubes(_ context.Context, age time.Duration) (*admin.TubeSample, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuses != nil {
		return nil, f.refuses
	}
	if f.tubes == nil || time.Since(f.tubes.At) >= age {
		f.number++
		f.tubes = &admin.TubeSample{
			Number: f.number, At: time.Now(), Rows: slices.Clone(f.rows), Rates: make([]wire.Rates, len(f.rows)), Changed: make([]uint64, len(f.rows)),
		}
	}
	return f.tubes, nil
}

func (f *fake) Flows(_ context.Context, v *admin.TubeSample, rows []int, out []core.Flow) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, i := range rows {
		out[k] = f.flows[v.Rows[i].Name]
	}
	return f.refuses
}

// set changes the fake.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// inBubble runs a test in simulated time with a watch of a fake.
func inBubble(t *testing.T, tubes int, test func(t *testing.T, f *fake, w *Watch)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		w := New(f, tubes)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(done)
		}()
		test(t, f, w)
		cancel()
		<-done
	})
}

// known counts the known points of a series in the last hour.
func known(t *testing.T, w *Watch, tube string, layout *Layout, series string, step int64) (n, all int) {
	t.Helper()
	now := time.Now().Unix()
	span := SpanOf(now-FineFor+60, now, step, now)
	i := slices.Index(layout.Series(), series)
	points, ok := w.History().Points(nil, []int{i}, span)
	if tube != "" {
		points, ok = w.History().Points(&tube, []int{i}, span)
	}
	require(t, ok, "there is no history of %q", tube)
	for _, v := range points[0] {
		if v == v {
			n++
		}
	}
	return n, len(points[0])
}

// TestHistoryHasNoGaps: each slot has a reading, unless the server was busy. Samples are taken in the
// middle of seconds. Removed tubes keep their history, and without a history nothing is sampled.
func TestHistoryHasNoGaps(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, f *fake, w *Watch) {
		row := core.TubeRow{TubeStats: core.TubeStats{Name: "a", Ready: 5}, Bytes: 70, Oldest: 3 * core.Second}
		f.set(func() {
			f.rows = []core.TubeRow{row}
			f.flows = map[string]core.Flow{"a": {Wait: stats.Times{N: [stats.FlowBuckets]uint64{4: 1}}}}
		})
		time.Sleep(time.Hour + time.Minute)
		wants := func(tube, series string, step int64, least, most float64) {
			t.Helper()
			layout := ServerLayout
			if tube != "" {
				layout = TubeLayout
			}
			n, all := known(t, w, tube, layout, series, step)
			part := float64(n) / float64(all)
			expect(t, part >= least && part <= most, "%s of %q by %d: %d of %d points are known", series, tube, step, n, all)
		}
		for _, series := range []string{"ready", "put_per_second", "job_body_bytes", "oldest_ready_seconds", "commands_per_second"} {
			wants("", series, 5, 1, 1)
		}
		for _, step := range []int64{5, 60} {
			wants("a", "ready", step, 1, 1)
			wants("a", "put_per_second", step, 1, 1)
		}
		wants("", "journal_bytes", 5, 0, 0)
		f.set(func() { f.refuses = errors.New("busy") })
		time.Sleep(10 * time.Minute)
		f.set(func() { f.refuses, f.rows = nil, nil })
		time.Sleep(20 * time.Minute)
		wants("", "ready", 60, 49.0/59, 50.0/59)
		wants("a", "ready", 60, 29.0/59, 31.0/59)
		for _, at := range f.looks {
			expect(t, at == f.looks[0] || at.Nanosecond() == int(Every/2), "a sample at %v", at)
		}
		w.SetHistory(0)
		before := len(f.looks)
		time.Sleep(time.Minute)
		expect(t, len(w.History().Kept()) == 0 && len(f.looks) <= before+1, "a history is kept, or %d samples are taken for nothing", len(f.looks)-before)
		f.set(func() { f.rows = []core.TubeRow{row} })
		w.SetHistory(1)
		time.Sleep(time.Minute)
		expect(t, len(w.History().Kept()) == 1, "%q have a history", w.History().Kept())
	})
}

// TestOfManyTubesTheBusiestHaveAHistory: within half a minute of becoming so.
func TestOfManyTubesTheBusiestHaveAHistory(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, f *fake, w *Watch) {
		f.set(func() {
			for i := range 10 {
				f.rows = append(f.rows, core.TubeRow{TubeStats: core.TubeStats{Name: string(rune('a' + i)), Total: uint64(i)}})
			}
		})
		time.Sleep(time.Minute)
		if got := w.History().Kept(); !slices.Equal(got, []string{"i", "j"}) {
			t.Errorf("%q have a history", got)
		}
		f.set(func() {
			f.rows = append(f.rows[:8:8], core.TubeRow{TubeStats: core.TubeStats{Name: "z", Total: 99}})
		})
		time.Sleep(chooseEvery + 10*time.Second)
		got := w.History().Kept()
		expect(t, slices.Equal(got, []string{"h", "z"}), "%q have a history, once those before have gone", got)
	})
}

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
	w := New(nil, 0)
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

// sampleOf returns a sample of tubes with the given activities.
func sampleOf(at time.Time, rates map[string]float32) *admin.TubeSample {
	v := &admin.TubeSample{At: at}
	for name, r := range rates {
		v.Rows = append(v.Rows, core.TubeRow{TubeStats: core.TubeStats{Name: name}})
		v.Rates = append(v.Rates, wire.Rates{Put: r})
	}
	return v
}

func names(c *Choice, v *admin.TubeSample) []string {
	var list []string
	for _, i := range c.Of(v) {
		list = append(list, v.Rows[i].Name)
	}
	slices.Sort(list)
	return list
}

// TestAChosenTubeStays until it is removed, or for an hour was not among the 2*most busiest tubes.
func TestAChosenTubeStays(t *testing.T) {
	at := time.Now()
	c := NewChoice(2, func(name string) bool { return strings.HasPrefix(name, "want") })
	wants := func(after time.Duration, rates map[string]float32, want ...string) {
		t.Helper()
		got := names(c, sampleOf(at.Add(after), rates))
		expect(t, slices.Equal(got, want), "after %v: %v are chosen, want %v", after, got, want)
	}
	wants(0, map[string]float32{"a": 9, "b": 8, "c": 7, "d": 6, "e": 5}, "a", "b")
	b := map[string]float32{"a": 9, "b": 1, "c": 7, "d": 6, "e": 5}
	wants(30*time.Minute, b, "a", "b")
	wants(59*time.Minute, b, "a", "b")
	wants(59*time.Minute+30*time.Second, map[string]float32{"a": 9, "b": 5.5, "c": 7, "d": 6, "e": 5}, "a", "b") // among the four
	wants(61*time.Minute, b, "a", "b")
	wants(120*time.Minute, b, "a", "c")
	wants(121*time.Minute, map[string]float32{"a": 9, "b": 8, "c": 0, "d": 6}, "a", "c")
	wants(122*time.Minute, map[string]float32{"a": 9, "b": 8, "d": 6}, "a", "b")
	wants(123*time.Minute, map[string]float32{"a": 9, "b": 8, "wanted": 0}, "a", "wanted")
	wants(124*time.Minute, map[string]float32{"x": 0}, "x")
	wants(125*time.Minute, nil)
	c.Set(1, func(name string) bool { return name == "b" })
	wants(126*time.Minute, b, "b")
	c.Set(2, func(string) bool { return false })
	wants(127*time.Minute, b, "a", "b") // it stays, though others are busier
	none := NewChoice(0, c.match)
	got := none.Of(sampleOf(at, map[string]float32{"wanted": 1}))
	expect(t, len(got) == 0, "of none, %v are chosen", got)
}

// TestBestAreTheFirst of all rows in sorted order.
func TestBestAreTheFirst(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100, 999, 1000, 1001, 5000} {
		rates := make(map[string]float32)
		for i := range 1000 {
			rates[fmt.Sprintf("t%04d", i)] = float32(i * 7919 % 1000)
		}
		v := sampleOf(time.Now(), rates)
		got := names(NewChoice(n, func(string) bool { return false }), v)
		want := slices.Collect(func(yield func(string) bool) {
			for name, r := range rates {
				if int(r) >= 1000-n && !yield(name) {
					return
				}
			}
		})
		slices.Sort(want)
		expect(t, slices.Equal(got, want), "%d: %d are chosen, want %d", n, len(got), len(want))
	}
}
