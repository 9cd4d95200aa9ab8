package stats

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// histogramBuckets is the number of buckets of a Histogram. The last one has no bound.
const histogramBuckets = 16

// A Histogram counts numbers or durations in buckets with powers of four as bounds. It costs a few
// atomic additions, so it is for work that happens once for many jobs; a Flow counts what happens
// to every job. All methods may be called at any time. The zero value has counted nothing.
type Histogram struct {
	n   [histogramBuckets]atomic.Uint64
	sum atomic.Uint64
}

// HistogramBound is the largest number in a bucket but the last: 1, 4, 16 and so on.
func HistogramBound(bucket int) float64 { return math.Ldexp(1, 2*bucket) }

// HistogramSeconds is the longest time in a bucket but the last: 4^-9 seconds, which is 3.8 µs, 4^-8
// and so on, exactly, so that every scale by powers of two can be made of them.
func HistogramSeconds(bucket int) float64 { return math.Ldexp(1, 2*(bucket-9)) }

// histogramUnit is 512 times the first bucket's bound, in nanoseconds.
const histogramUnit = 1953125

// Count counts a number.
func (h *Histogram) Count(v uint64) { h.add(v, v) }

// Took counts a length of time. A negative one, which a clock that was set may leave behind,
// counts as zero.
func (h *Histogram) Took(d time.Duration) {
	ns := uint64(max(0, d))
	h.add((min(ns, 1<<50)*512+histogramUnit-1)/histogramUnit, ns)
}

// add counts v, and adds part to the sum.
func (h *Histogram) add(v, part uint64) {
	b := 0
	if v > 1 {
		b = min((bits.Len64(v-1)+1)/2, histogramBuckets-1)
	}
	h.n[b].Add(1)
	h.sum.Add(part)
}

// Counts are what a Histogram has counted: by bucket, not yet added up.
type Counts struct {
	N   [histogramBuckets]uint64
	Sum uint64 // of numbers, or nanoseconds
}

// Read copies the counts, but not all at the same moment.
func (h *Histogram) Read() (c Counts) {
	for b := range h.n {
		c.N[b] = h.n[b].Load()
	}
	c.Sum = h.sum.Load()
	return c
}
