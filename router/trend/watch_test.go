package trend

import (
	"context"
	"errors"
	"slices"
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
	walks   []time.Time // over all tubes
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
		f.walks = append(f.walks, time.Now())
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
func inBubble(t *testing.T, subscriptions, tubes int, test func(t *testing.T, f *fake, w *Watch)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		w := New(f, subscriptions, tubes)
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

func (f *fake) counts() (looks, walks int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.looks), len(f.walks)
}

// TestNobodyIsLookedFor: without a subscriber and a history there are no samples, also after the
// last subscriber has closed.
func TestNobodyIsLookedFor(t *testing.T) {
	inBubble(t, 2, 0, func(t *testing.T, f *fake, w *Watch) {
		time.Sleep(time.Minute)
		if looks, walks := f.counts(); looks+walks != 0 {
			t.Errorf("%d looks and %d walks for nobody", looks, walks)
		}
		a := w.Subscribe(false)
		time.Sleep(10 * time.Second)
		if looks, walks := f.counts(); looks < 10 || looks > 12 || walks != 0 {
			t.Errorf("%d looks and %d walks in ten seconds for who wants no tubes", looks, walks)
		}
		b := w.Subscribe(true)
		expect(t, w.Subscribe(false) == nil && w.Subscriptions() == 2, "there are more subscriptions than may be")
		time.Sleep(10 * time.Second)
		_, walks := f.counts()
		expect(t, walks >= 5 && walks <= 7, "%d walks in ten seconds", walks)
		for _, at := range f.looks[1:10] { // the first was for the new subscriber
			expect(t, at.Nanosecond() == int(every/2), "a look at %v", at)
		}
		a.Close()
		b.Close()
		time.Sleep(2 * time.Second)
		before, _ := f.counts()
		time.Sleep(time.Minute)
		looks, _ := f.counts()
		expect(t, looks == before, "%d looks after all have gone", looks-before)
	})
}

// TestFirstSnapshotIsFresh: after a long time without samples, a subscriber gets a new one at once.
func TestFirstSnapshotIsFresh(t *testing.T) {
	inBubble(t, 2, 0, func(t *testing.T, f *fake, w *Watch) {
		for _, tubes := range []bool{false, true, true} {
			s := w.Subscribe(tubes)
			begun := time.Now()
			v, err := s.Next(t.Context())
			expect(t, err == nil && time.Since(begun) <= time.Second && time.Since(v.Server.At) <= 2*time.Second && (!tubes || v.Tubes != nil), "after %v: %+v, %v", time.Since(begun), v, err)
			s.Close()
			time.Sleep(time.Hour)
		}
	})
}

// TestSlowSubscriberSkips: it gets the newest snapshot, and a fast subscriber gets all.
func TestSlowSubscriberSkips(t *testing.T) {
	inBubble(t, 2, 0, func(t *testing.T, f *fake, w *Watch) {
		fast, slow := w.Subscribe(false), w.Subscribe(false)
		defer fast.Close()
		defer slow.Close()
		if _, err := slow.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		var last uint64
		n := 0
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); n++ {
			v, err := fast.Next(t.Context())
			require(t, err == nil && v.Server.Number > last, "%d after %d, %v", v.Server.Number, last, err)
			last = v.Server.Number
		}
		expect(t, n >= 20, "%d snapshots in twenty seconds", n)
		if v, err := slow.Next(t.Context()); err != nil || v.Server.Number != last {
			t.Errorf("the slow one gets %d, want %d (%v)", v.Server.Number, last, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := slow.Next(ctx)
		expect(t, err != nil, "there was one more in his queue")
	})
}

// known counts the known points of a series in the last hour.
func known(t *testing.T, w *Watch, tube string, layout *Layout, series string, step int64) (n, all int) {
	t.Helper()
	now := time.Now().Unix()
	span := SpanOf(now-FineFor+60, now, step, now)
	i := slices.Index(layout.Series(), series)
	points, ok := w.History().ServerPoints([]int{i}, span)
	if tube != "" {
		points, ok = w.History().TubePoints(tube, []int{i}, span)
	}
	require(t, ok, "there is no history of %q", tube)
	for _, v := range points[0] {
		if v == v {
			n++
		}
	}
	return n, len(points[0])
}

// TestHistoryHasNoGaps with and without subscribers: each slot has a reading, unless the server was
// busy. Removed tubes keep their history.
func TestHistoryHasNoGaps(t *testing.T) {
	for _, subscribed := range []bool{false, true} {
		inBubble(t, 2, 2, func(t *testing.T, f *fake, w *Watch) {
			row := core.TubeRow{TubeStats: core.TubeStats{Name: "a", Ready: 5}, Bytes: 70, Oldest: 3 * core.Second}
			f.set(func() {
				f.rows = []core.TubeRow{row}
				f.flows = map[string]core.Flow{"a": {Wait: stats.Times{N: [stats.FlowBuckets]uint64{4: 1}}}}
			})
			if subscribed {
				s := w.Subscribe(true)
				defer s.Close()
			}
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
			w.SetHistory(0)
			expect(t, len(w.History().Kept()) == 0, "a history is kept after all")
			f.set(func() { f.rows = []core.TubeRow{row} })
			w.SetHistory(1)
			time.Sleep(time.Minute)
			expect(t, len(w.History().Kept()) == 1, "%q have a history", w.History().Kept())
		})
	}
}

// TestOfManyTubesTheBusiestHaveAHistory: within half a minute of becoming so.
func TestOfManyTubesTheBusiestHaveAHistory(t *testing.T) {
	inBubble(t, 2, 2, func(t *testing.T, f *fake, w *Watch) {
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
