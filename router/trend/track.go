package trend

import (
	"math"
	"time"

	"polystalk/shard/stats"
)

// How long history reaches back, and in which slots, in seconds.
const (
	FineStep   = 5
	FineFor    = 3600
	CoarseStep = 60
	CoarseFor  = 24 * 3600
)

// rateWithin is how far two readings may be apart for a rate to be known: after a longer
// time, what was counted in it would be shown as if it were of the last slot alone.
const rateWithin = 3 * FineStep * time.Second

// A track is the history of one thing. The zero value is not of use.
type track struct {
	layout       *Layout
	fine, coarse ring

	at     time.Time // of the last reading; zero: there is none
	counts []float64 // its counters
	times  []stats.Times
	grown  growth // reused
}

// growth is what has been counted between two readings.
type growth struct {
	took   float64 // seconds
	counts []float64
	times  []stats.Times
}

func newTrack(l *Layout) *track {
	t := &track{
		layout: l,
		counts: make([]float64, len(l.Counters)), times: make([]stats.Times, len(l.Times)),
		grown: growth{counts: make([]float64, len(l.Counters)), times: make([]stats.Times, len(l.Times))},
	}
	t.fine, t.coarse = newRings(l)
	return t
}

// add adds a reading, which is not kept.
func (t *track) add(r *Reading) {
	known := t.since(r)
	for _, to := range []*ring{&t.fine, &t.coarse} {
		to.open(r.At.Unix())
		to.put(r.Gauges)
		if known {
			to.grow(&t.grown, len(r.Gauges))
		}
	}
	t.at = r.At
	copy(t.counts, r.Counters)
	copy(t.times, r.Times)
}

// since works out what has been counted since the last reading. It is not known after a
// long time, nor if something has become less: then it counts anew.
func (t *track) since(r *Reading) (known bool) {
	took := r.At.Sub(t.at)
	if t.at.IsZero() || took <= 0 || took > rateWithin {
		return false
	}
	t.grown.took = took.Seconds()
	for i, n := range r.Counters {
		if t.grown.counts[i] = n - t.counts[i]; t.grown.counts[i] < 0 {
			return false
		}
	}
	for i := range r.Times {
		for b, n := range r.Times[i].N {
			if n < t.times[i].N[b] {
				return false
			}
		}
		t.grown.times[i] = r.Times[i]
		t.grown.times[i].Sub(&t.times[i])
	}
	return true
}

// points are those of a series, by its place in Layout.Series: as many as the span has, NaN
// where nothing is known.
func (t *track) points(series int, s Span) []float32 {
	r := &t.fine
	if s.Step%CoarseStep == 0 {
		r = &t.coarse
	}
	values := t.layout.values()
	get, merge := r.value, (*merged).largest
	if series >= values {
		get, series = r.quantile, series-values
	} else if series >= len(t.layout.Gauges) {
		merge = (*merged).mean
	}
	list := make([]float32, 0, s.Points())
	for at := s.From; at < s.To; at += s.Step {
		m := merged{value: float32(math.NaN())}
		first, last := r.kept(at/r.step, (at+s.Step)/r.step-1)
		for slot := first; slot <= last; slot++ {
			if v := get(series, slot); v == v { // known
				merge(&m, v)
			}
		}
		list = append(list, m.value)
	}
	return list
}

// merged is what several slots are as one.
type merged struct {
	value float32 // NaN: there is none yet
	n     int
}

func (m *merged) largest(v float32) {
	if !(m.value >= v) {
		m.value = v
	}
}

func (m *merged) mean(v float32) {
	if m.n++; m.n == 1 {
		m.value = v
	} else {
		m.value += (v - m.value) / float32(m.n)
	}
}
