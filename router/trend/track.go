package trend

import (
	"math"
	"time"

	"polystalk/shard/stats"
)

// The two resolutions of a history, and how much time each covers, in seconds.
const (
	FineStep   = 5
	FineFor    = 3600
	CoarseStep = 60
	CoarseFor  = 24 * 3600
)

// PointsMost is the largest number of points of a series in one answer: somewhat more than a
// history has.
const PointsMost = 1500

// rateWithin is the longest time between two readings from which a rate is made. After a longer
// time, the last slot would show the events of many slots.
const rateWithin = 3 * FineStep * time.Second

// A Layout names the figures in the readings of a track.
type Layout struct {
	Gauges   []string // counts, sizes, ages: a slot shows the largest
	Counters []string // only grow: a slot shows the mean rate per second
	Times    []string // histograms: a slot shows two quantiles of what they counted in it
}

// A reading holds the figures at one time, in the order of the layout. NaN is an unknown value.
type reading struct {
	At       time.Time
	Gauges   []float64
	Counters []float64 // whole numbers
	Times    []stats.Times
}

// quantiles are kept of each histogram.
var quantiles = [...]struct {
	of   float64
	name string
}{{0.5, "_p50_seconds"}, {0.99, "_p99_seconds"}}

// Series returns the names of the series of a track: NAME of a gauge, NAME_per_second of a
// counter, NAME_p50_seconds and NAME_p99_seconds of a histogram.
func (l *Layout) Series() (names []string) {
	names = append(names, l.Gauges...)
	for _, c := range l.Counters {
		names = append(names, c+"_per_second")
	}
	for _, t := range l.Times {
		for _, q := range quantiles {
			names = append(names, t+q.name)
		}
	}
	return names
}

// values returns the number of series with values. The series after them are quantiles.
func (l *Layout) values() int { return len(l.Gauges) + len(l.Counters) }

// A Span is a range of points, each of Step seconds. From is Unix time and a multiple of Step.
type Span struct{ From, To, Step int64 }

// SpanOf returns the span that covers from..to. If step is zero, SpanOf uses the finest history
// that covers all of it at the time now, and a larger step if there are too many points.
func SpanOf(from, to, step, now int64) Span {
	if step == 0 {
		step = FineStep
		if from < now-FineFor || (to-from)/step >= PointsMost {
			step = CoarseStep * (1 + (to-from)/(CoarseStep*(PointsMost-1)))
		}
	}
	first := from - (from%step+step)%step
	points := max(1, (to-first+step-1)/step)
	return Span{From: first, To: first + points*step, Step: step}
}

// ValidStep reports whether slots can be merged into points of step seconds.
func ValidStep(step int64) bool {
	return step > 0 && (step%CoarseStep == 0 || step%FineStep == 0 && CoarseStep%step == 0)
}

// Points returns the number of points.
func (s Span) Points() int64 { return (s.To - s.From) / s.Step }

// A ring holds slots of equal length; the newest replaces the oldest. A slot's number is its
// time divided by its length.
type ring struct {
	step   int64 // length of a slot, in seconds
	slots  int64
	newest int64     // number of a slot; none: the ring is empty
	values []float32 // slots of one series after another; NaN: unknown
	levels []uint8   // the same for the quantiles: bucket number plus one; 0: unknown
	part   growth    // the growth in the newest slot so far
	took   []float64 // the known time of each counter of part, in seconds
}

const none = math.MinInt64

// A growth is the increase of counters and histograms over a time.
type growth struct {
	took   float64 // seconds
	counts []float64
	times  []stats.Times
}

func newGrowth(l *Layout) growth {
	return growth{counts: make([]float64, len(l.Counters)), times: make([]stats.Times, len(l.Times))}
}

// place returns the index of a slot in the first series.
func (r *ring) place(slot int64) int64 { return (slot%r.slots + r.slots) % r.slots }

// open makes the slot of a Unix time the newest one. It clears the slots between the last
// reading and this time, also if the clock was set back.
func (r *ring) open(unix int64) {
	slot := unix / r.step
	if slot == r.newest {
		return
	}
	first, last := r.newest+1, slot
	if slot < r.newest { // the clock was set back
		first, last = slot, r.newest
	}
	if r.newest != none {
		for n := max(first, last-r.slots+1); n <= last; n++ {
			for i := r.place(n); i < int64(len(r.values)); i += r.slots {
				r.values[i] = float32(math.NaN())
			}
			for i := r.place(n); i < int64(len(r.levels)); i += r.slots {
				r.levels[i] = 0
			}
		}
	}
	r.newest = slot
	clear(r.took)
	clear(r.part.counts)
	clear(r.part.times)
}

// put adds gauges to the newest slot.
func (r *ring) put(gauges []float64) {
	at := r.place(r.newest)
	for _, g := range gauges {
		if v := &r.values[at]; !math.IsNaN(g) && !(float64(*v) >= g) { // true also if v is NaN
			*v = float32(g)
		}
		at += r.slots
	}
}

// grow adds the growth since the last reading to the newest slot.
func (r *ring) grow(d *growth, gauges int) {
	at := int64(gauges)*r.slots + r.place(r.newest)
	for i, n := range d.counts {
		if !math.IsNaN(n) {
			r.took[i] += d.took
			r.part.counts[i] += n
			r.values[at] = float32(r.part.counts[i] / r.took[i])
		}
		at += r.slots
	}
	at = r.place(r.newest)
	for i := range d.times {
		t := &r.part.times[i]
		t.Add(&d.times[i])
		for _, q := range quantiles {
			if ns, ok := t.Quantile(q.of); ok {
				r.levels[at] = uint8(stats.FlowBucket(int64(ns))) + 1
			}
			at += r.slots
		}
	}
}

// value returns the value of a series in a slot; NaN: unknown. The ring must have the slot.
func (r *ring) value(series int, slot int64) float32 {
	return r.values[int64(series)*r.slots+r.place(slot)]
}

// quantile returns the k-th quantile in a slot, in seconds; NaN: unknown.
func (r *ring) quantile(k int, slot int64) float32 {
	if level := r.levels[int64(k)*r.slots+r.place(slot)]; level > 0 {
		return float32(stats.FlowBound(int(level)-1) / 1e9)
	}
	return float32(math.NaN())
}

// A track is the history of the server or of one tube.
type track struct {
	layout       *Layout
	fine, coarse ring
	at           time.Time // of the last reading; zero: there is none
	last         growth    // the counters of the last reading
	grown        growth    // the growth since the reading before; reused
}

// newTrack allocates both rings together, since the allocator rounds sizes up to pages.
func newTrack(l *Layout) *track {
	const first, second = FineFor / FineStep, CoarseFor / CoarseStep
	n, k := l.values(), len(l.Times)*len(quantiles)
	values, levels := make([]float32, n*(first+second)), make([]uint8, k*(first+second))
	for i := range values {
		values[i] = float32(math.NaN())
	}
	made := func(step, slots int64, values []float32, levels []uint8) ring {
		return ring{step: step, slots: slots, newest: none, values: values, levels: levels, part: newGrowth(l), took: make([]float64, len(l.Counters))}
	}
	return &track{
		layout: l, last: newGrowth(l), grown: newGrowth(l),
		fine:   made(FineStep, first, values[:n*first], levels[:k*first]),
		coarse: made(CoarseStep, second, values[n*first:], levels[k*first:]),
	}
}

// add adds a reading; it keeps no reference to it.
func (t *track) add(r *reading) {
	known := t.since(r)
	for _, to := range []*ring{&t.fine, &t.coarse} {
		to.open(r.At.Unix())
		to.put(r.Gauges)
		if known {
			to.grow(&t.grown, len(r.Gauges))
		}
	}
	t.at = r.At
	copy(t.last.counts, r.Counters)
	copy(t.last.times, r.Times)
}

// since sets grown to the growth since the last reading. It returns false after a long time, and
// if a counter has decreased, since it was reset.
func (t *track) since(r *reading) (known bool) {
	took := r.At.Sub(t.at)
	if t.at.IsZero() || took <= 0 || took > rateWithin {
		return false
	}
	t.grown.took = took.Seconds()
	for i, n := range r.Counters {
		if t.grown.counts[i] = n - t.last.counts[i]; t.grown.counts[i] < 0 {
			return false
		}
	}
	for i := range r.Times {
		for b, n := range r.Times[i].N {
			if n < t.last.times[i].N[b] {
				return false
			}
		}
		t.grown.times[i] = r.Times[i]
		t.grown.times[i].Sub(&t.last.times[i])
	}
	return true
}

// points returns the points of a series by its index in Layout.Series; NaN: unknown. A point of
// several slots has the mean rate, or the largest gauge or quantile.
func (t *track) points(series int, s Span) []float32 {
	r := &t.fine
	if s.Step%CoarseStep == 0 {
		r = &t.coarse
	}
	get, mean := r.value, series >= len(t.layout.Gauges)
	if values := t.layout.values(); series >= values {
		get, series, mean = r.quantile, series-values, false
	}
	list := make([]float32, 0, s.Points())
	for at := s.From; at < s.To; at += s.Step {
		merged, n := float32(math.NaN()), float32(0)
		first, last := at/r.step, (at+s.Step)/r.step-1
		for slot := max(first, r.newest-r.slots+1); slot <= min(last, r.newest); slot++ {
			v := get(series, slot)
			switch n++; {
			case v != v: // unknown
				n--
			case n == 1 || !mean && v > merged:
				merged = v
			case mean:
				merged += (v - merged) / n
			}
		}
		list = append(list, merged)
	}
	return list
}
