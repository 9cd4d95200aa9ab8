package trend

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/shard/stats"
)

var (
	small = &Layout{Gauges: []string{"ready"}, Counters: []string{"put"}, Times: []string{"wait"}}
	// The series of small.
	ready, put, waitP50, waitP99 = 0, 1, 2, 3
)

// A world has simulated time: wall is the time of the machine's clock, and readings have no
// monotonic time.
type world struct {
	t     *testing.T
	h     *history
	wall  time.Time
	count float64
	times stats.Times
}

func newWorld(t *testing.T) *world {
	h := newHistory(small, small, 3)
	return &world{t: t, h: h, wall: time.Unix(1_000_000_020, 0)} // a full minute
}

func (w *world) reading(gauge float64) *reading {
	return &reading{At: w.wall, Gauges: []float64{gauge}, Counters: []float64{w.count}, Times: []stats.Times{w.times}}
}

// read reads the server, after a time.
func (w *world) read(after time.Duration, gauge float64) {
	w.wall = w.wall.Add(after)
	w.h.add(nil, w.reading(gauge))
}

// wants compares the points of a series in the last seconds.
func (w *world) wants(series int, ago time.Duration, step int64, want ...float64) {
	w.t.Helper()
	s := SpanOf(w.wall.Add(-ago).Unix(), w.wall.Unix()+1, step, w.wall.Unix())
	got, ok := w.h.Points(nil, []int{series}, s)
	if !ok || !slices.EqualFunc(got[0], want, func(g float32, x float64) bool {
		return math.Abs(float64(g)-x) < 1e-5 || math.IsNaN(float64(g)) && math.IsNaN(x)
	}) {
		w.t.Errorf("series %d by %d s: %v, want %v", series, step, got, want)
	}
}

var nan = math.NaN()

// TestSlotsKeepTheLargestAndTheMean, for any step.
func TestSlotsKeepTheLargestAndTheMean(t *testing.T) {
	w := newWorld(t)
	for i := range 20 { // readings after 1, 2, … 20 seconds
		w.count += float64(i)
		w.read(time.Second, float64(100-i))
	}
	w.wants(ready, 20*time.Second, 5, 100, 96, 91, 86, 81)
	// The first slot has the rate of three seconds, each other slot of five.
	w.wants(put, 20*time.Second, 5, (1.0+2+3)/3, (4.0+5+6+7+8)/5, (9.0+10+11+12+13)/5, (14.0+15+16+17+18)/5, 19)
	w.wants(ready, 20*time.Second, 10, 100, 91, 81)
	w.wants(ready, 20*time.Second, 60, 100)
	w.wants(put, 20*time.Second, 60, 10)
}

// TestNothingIsMadeUp: a time without a reading has no points, and a time that was too long has no
// rate.
func TestNothingIsMadeUp(t *testing.T) {
	w := newWorld(t)
	w.read(0, 1)
	w.wants(ready, 0, 5, 1)
	w.wants(put, 0, 5, nan) // one reading gives no rate
	w.count = 10
	w.read(5*time.Second, 2)
	w.count = 1000
	w.read(rateWithin+time.Second, 3)
	w.count += 50
	w.read(5*time.Second, 4)
	w.wants(ready, 26*time.Second, 5, 1, 2, nan, nan, 3, 4)
	w.wants(put, 26*time.Second, 5, nan, 2, nan, nan, nan, 10)
	w.read(5*time.Second, nan)
	w.wants(ready, 5*time.Second, 5, 4, nan)
	w.count = 1 // the counter was reset
	w.read(5*time.Second, 5)
	w.wants(put, 5*time.Second, 5, 0, nan)
	w.wants(waitP99, 31*time.Second, 60, nan)
}

// TestOldSlotsAreGone after one long step, and a span of any length costs only as much as the stored
// slots.
func TestOldSlotsAreGone(t *testing.T) {
	w := newWorld(t)
	for i, pause := range []time.Duration{0, 30 * time.Hour, 1000 * time.Hour} {
		w.read(pause, float64(i))
		got, _ := w.h.Points(nil, []int{ready, waitP50}, SpanOf(0, 1<<40, 0, w.wall.Unix()))
		known := slices.DeleteFunc(slices.Clone(got[0]), func(v float32) bool { return v != v })
		expect(t, slices.Equal(known, []float32{float32(i)}) && len(got[0]) <= PointsMost && len(got[1]) == len(got[0]), "after %v there is %v of %d points", pause, known, len(got[0]))
	}
}

// TestQuantilesAreOfTheirSlot: only times counted in the slot are in its quantiles.
func TestQuantilesAreOfTheirSlot(t *testing.T) {
	w := newWorld(t)
	w.times.N[20] = 1_000_000 // long ago
	w.read(0, 0)
	w.times.N[3] += 99
	w.times.N[7]++
	w.read(5*time.Second, 0)
	w.read(5*time.Second, 0)
	w.times.N[stats.FlowBuckets-1]++
	w.read(5*time.Second, 0)
	bound := func(b int) float64 { return stats.FlowBound(b) / 1e9 }
	w.wants(waitP50, 15*time.Second, 5, nan, bound(3), nan, bound(stats.FlowBuckets-2))
	w.wants(waitP99, 15*time.Second, 5, nan, bound(7), nan, bound(stats.FlowBuckets-2))
	w.wants(waitP50, 15*time.Second, 60, bound(3))
	w.wants(waitP99, 15*time.Second, 30, bound(stats.FlowBuckets-2))
	for b := range stats.FlowBuckets { // a bucket is what is kept
		w := newWorld(t)
		w.read(0, 0)
		w.times.N[b]++
		w.read(5*time.Second, 0)
		want, _ := w.times.Quantile(0.5)
		w.wants(waitP50, 0, 5, want/1e9)
	}
}

// TestLikeATwin: readings at random times, with a clock that is set, against a history that
// keeps everything.
func TestLikeATwin(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	gauges, rates := make(map[int64]float64), make(map[int64][2]float64) // by the seconds in which they begin
	var last time.Time
	lastCount := 0.0
	for range 3000 {
		after := time.Duration(rnd.IntN(7000)) * time.Millisecond
		switch rnd.IntN(40) {
		case 0:
			after = time.Duration(rnd.IntN(300)) * time.Second
		case 1:
			after = -time.Duration(rnd.IntN(200)) * time.Second
		}
		w.count += float64(rnd.IntN(100))
		g := float64(rnd.IntN(1000))
		w.read(after, g)
		slot := w.wall.Unix() / 5 * 5
		for s := range gauges {
			if s <= slot-FineFor || s > slot || s == slot && w.wall.Before(last) && last.Unix()/5*5 != slot {
				delete(gauges, s)
				delete(rates, s)
			}
		}
		gauges[slot] = max(gauges[slot], g)
		if took := w.wall.Sub(last); took > 0 && took <= rateWithin {
			r := rates[slot]
			rates[slot] = [2]float64{r[0] + w.count - lastCount, r[1] + took.Seconds()}
		}
		last, lastCount = w.wall, w.count
	}
	now := w.wall.Unix()
	s := SpanOf(now-FineFor+5, now+1, 5, now)
	got, _ := w.h.Points(nil, []int{ready, put}, s)
	for i := range got[0] {
		at := s.From + int64(i)*5
		g, known := gauges[at]
		if v := got[0][i]; known != (v == v) || known && v != float32(g) {
			t.Fatalf("seed %d: %v at %d, want %v %v", seed, v, at, g, known)
		}
		r, known := rates[at]
		v := float64(got[1][i])
		require(t, known == (v == v) && (!known || math.Abs(v-r[0]/r[1]) <= 1e-3*v), "seed %d: %v a second at %d, want %v %v", seed, v, at, r[0]/r[1], known)
	}
}

func TestSpans(t *testing.T) {
	const now = 1_000_000_020
	for _, c := range []struct {
		from, to, step int64
		want           Span
	}{
		{now - 60, now, 0, Span{now - 60, now, 5}},
		{now - 58, now + 1, 0, Span{now - 60, now + 5, 5}},
		{now - FineFor, now, 0, Span{now - FineFor, now, 5}},
		{now - FineFor - 1, now, 0, Span{now - FineFor - 60, now, 60}},
		{now - CoarseFor, now, 0, Span{now - CoarseFor, now, 60}},
		{now - 10, now, 300, Span{1_000_000_000 - 1_000_000_000%300, 1_000_000_200, 300}},
		{now, now, 0, Span{now, now + 5, 5}},
		{0, now, 0, Span{0, 1_000_334_160, 667_140}},
	} {
		got := SpanOf(c.from, c.to, c.step, now)
		if c.from == 0 {
			expect(t, got.Points() <= PointsMost && got.To >= now && ValidStep(got.Step), "all of it: %+v", got)
			continue
		}
		expect(t, got == c.want, "%+v: %+v", c, got)
	}
	for step, want := range map[int64]bool{5: true, 10: true, 15: true, 20: true, 30: true, 60: true, 120: true, 25: false, 1: false, 0: false, -5: false, 61: false, 90: false} {
		expect(t, ValidStep(step) == want, "ValidStep(%d) is %v", step, !want)
	}
}

// TestTubesThatVanishKeepTheirGraph until another tube needs the place. Wanted tubes keep theirs.
func TestTubesThatVanishKeepTheirGraph(t *testing.T) {
	w := newWorld(t)
	step := func(there, wanted, kept string) {
		t.Helper()
		w.wall = w.wall.Add(5 * time.Second)
		w.h.place(w.wall, strings.Fields(wanted))
		for name := range strings.FieldsSeq(there) {
			w.h.add(&name, w.reading(7))
		}
		got := strings.Join(w.h.Kept(), " ")
		expect(t, got == kept, "with %q, of which %q are wanted, %q have a history, want %q", there, wanted, got, kept)
	}
	step("a b x", "a b", "a b")
	step("b c", "b c", "a b c") // a has gone
	for range 100 {
		step("b c", "b", "a b c")
	}
	s := SpanOf(w.wall.Unix()-FineFor, w.wall.Unix(), 5, w.wall.Unix())
	p, ok := w.h.Points(new("a"), []int{ready}, s)
	expect(t, ok && slices.Contains(p[0], 7), "the graph of a has gone")
	_, ok = w.h.Points(new("x"), []int{ready}, s)
	expect(t, !ok, "x has a graph, and was never wanted")
	step("b c d", "b d", "b c d") // a place is needed: a goes
	step("b d e", "e", "b d e")   // all of them are there: c was not wanted for longest
	step("b e f", "e", "b d e")
	step("b e f", "e f", "b e f") // d has gone before
	step("e", "e", "b e f")
	step("e", "e b d g h", "b d e") // b is wanted again, so it stays although it has gone
	w.h.limit(1)
	step("", "", "e")
	w.h.limit(0)
	step("e", "e", "")
	_, ok = w.h.Points(nil, []int{0}, s)
	expect(t, !ok, "there is a history of nothing")
	w.h.limit(2)
	step("e", "e", "e")
}

// TestMemoryOfATube: it is constant, and as large as the guide says.
func TestMemoryOfATube(t *testing.T) {
	l := &Layout{Gauges: make([]string, 6), Counters: make([]string, 4), Times: make([]string, 2)}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	h := newHistory(l, l, 100)
	var names []string
	for i := range 100 {
		names = append(names, strconv.Itoa(i))
	}
	now := time.Unix(1e9, 0)
	h.place(now, names)
	for i := range 50 {
		for _, name := range names {
			h.add(&name, &reading{At: now.Add(time.Duration(i) * time.Minute), Gauges: make([]float64, 6), Counters: make([]float64, 4), Times: make([]stats.Times, 2)})
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (after.HeapAlloc - before.HeapAlloc) / 101
	t.Logf("%d bytes each", each)
	expect(t, each <= 110_000, "a tube takes %d bytes", each)
	runtime.KeepAlive(h)
}

// expect fails the test unless ok, but lets it continue.
func expect(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// require ends the test unless ok.
func require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}
