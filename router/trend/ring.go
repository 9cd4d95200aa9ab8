package trend

import (
	"math"

	"polystalk/shard/stats"
)

// A ring is a bounded number of slots of equal length, the newest in place of the oldest.
// A slot's number is its time divided by its length, so that slots begin at full minutes.
type ring struct {
	step   int64 // how long a slot is, in seconds
	slots  int64
	newest int64 // the number of a slot; none: nothing was put yet

	values []float32 // of each series that has them, slot by slot; NaN: not known
	levels []uint8   // of each quantile, slot by slot: its bucket and one; 0: not known
	part   part
}

// A part is what the newest slot is made of so far.
type part struct {
	took   []float64 // the seconds over which each counter is known
	counts []float64 // how much each has grown in them
	times  []stats.Times
}

const none = math.MinInt64

// newRings makes a track's two, in one piece: memory comes in pages, of which each ring
// would leave a part unused.
func newRings(l *Layout) (fine, coarse ring) {
	const first, second = FineFor / FineStep, CoarseFor / CoarseStep
	n, k := l.values(), len(l.Times)*len(quantiles)
	values, levels := make([]float32, n*(first+second)), make([]uint8, k*(first+second))
	for i := range values {
		values[i] = float32(math.NaN())
	}
	fine = ring{step: FineStep, slots: first, newest: none, values: values[:n*first], levels: levels[:k*first], part: newPart(l)}
	coarse = ring{step: CoarseStep, slots: second, newest: none, values: values[n*first:], levels: levels[k*first:], part: newPart(l)}
	return fine, coarse
}

func newPart(l *Layout) part {
	n := len(l.Counters)
	return part{took: make([]float64, n), counts: make([]float64, n), times: make([]stats.Times, len(l.Times))}
}

// place is where the slot of a number is, of a series that begins at zero.
func (r *ring) place(slot int64) int64 { return (slot%r.slots + r.slots) % r.slots }

// open makes the slot of a time the newest. Slots that were passed over hold nothing; those
// of a time that is still to come, since the clock was set back, neither.
func (r *ring) open(unix int64) {
	slot := unix / r.step
	if slot == r.newest {
		return
	}
	first, last := r.newest+1, slot
	if slot < r.newest {
		first, last = slot, r.newest
	}
	if r.newest != none {
		for n := max(first, last-r.slots+1); n <= last; n++ {
			r.clear(r.place(n))
		}
	}
	r.newest = slot
	clear(r.part.took)
	clear(r.part.counts)
	clear(r.part.times)
}

func (r *ring) clear(place int64) {
	for i := place; i < int64(len(r.values)); i += r.slots {
		r.values[i] = float32(math.NaN())
	}
	for i := place; i < int64(len(r.levels)); i += r.slots {
		r.levels[i] = 0
	}
}

// put adds gauges to the newest slot.
func (r *ring) put(gauges []float64) {
	at := r.place(r.newest)
	for _, g := range gauges {
		if v := &r.values[at]; !math.IsNaN(g) && !(float64(*v) >= g) { // as when nothing is known
			*v = float32(g)
		}
		at += r.slots
	}
}

// grow adds to the newest slot what has been counted since the reading before.
func (r *ring) grow(d *growth, gauges int) {
	at := int64(gauges)*r.slots + r.place(r.newest)
	for i, n := range d.counts {
		if !math.IsNaN(n) {
			r.part.took[i] += d.took
			r.part.counts[i] += n
			r.values[at] = float32(r.part.counts[i] / r.part.took[i])
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

// kept are those of some slots that are kept, if any: then first is not after last.
func (r *ring) kept(from, to int64) (first, last int64) {
	if r.newest == none {
		return 1, 0
	}
	return max(from, r.newest-r.slots+1), min(to, r.newest)
}

// value is that of a series in a slot that is kept; NaN: nothing is known.
func (r *ring) value(series int, slot int64) float32 {
	return r.values[int64(series)*r.slots+r.place(slot)]
}

// quantile is value of one of the quantiles, in seconds.
func (r *ring) quantile(k int, slot int64) float32 {
	if level := r.levels[int64(k)*r.slots+r.place(slot)]; level > 0 {
		return float32(stats.FlowBound(int(level)-1) / 1e9)
	}
	return float32(math.NaN())
}
