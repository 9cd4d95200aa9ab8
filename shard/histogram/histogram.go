// Package histogram counts things by their size, in buckets whose bounds are powers of four:
// how long a sync of the disk took, how many records a commit had. It is for what happens
// once for many jobs, so that a few atomic additions are nothing. What happens to every job
// is counted by package flow.
package histogram

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is how many a Histogram has. The last one has no bound.
const Buckets = 16

// A Histogram is one of numbers, or one of lengths of time. Anyone may count and read at any
// time. The zero value has counted nothing.
type Histogram struct {
	n   [Buckets]atomic.Uint64
	sum atomic.Uint64
}

// Bound is the largest number in a bucket but the last: 1, 4, 16 and so on.
func Bound(bucket int) float64 { return math.Ldexp(1, 2*bucket) }

// Seconds is the longest time in a bucket but the last: 4^-9 seconds, which is 3.8 µs, 4^-8
// and so on, exactly, so that every scale by powers of two can be made of them.
func Seconds(bucket int) float64 { return math.Ldexp(1, 2*(bucket-9)) }

// unit is the nanoseconds of the first bucket's bound, of which it takes 512.
const unit = 1953125

// Count counts a number.
func (h *Histogram) Count(v uint64) { h.add(v, v) }

// Took counts a length of time. A negative one, which a clock that was set may leave behind,
// is none.
func (h *Histogram) Took(d time.Duration) {
	ns := uint64(max(0, d))
	h.add((min(ns, 1<<50)*512+unit-1)/unit, ns)
}

// add counts v, whose part in the sum is given.
func (h *Histogram) add(v, part uint64) {
	b := 0
	if v > 1 {
		b = min((bits.Len64(v-1)+1)/2, Buckets-1)
	}
	h.n[b].Add(1)
	h.sum.Add(part)
}

// Counts are what a Histogram has counted: by bucket, not yet added up.
type Counts struct {
	N   [Buckets]uint64
	Sum uint64 // of numbers, or nanoseconds
}

// Read copies what was counted, not all of it at one moment.
func (h *Histogram) Read() (c Counts) {
	for b := range h.n {
		c.N[b] = h.n[b].Load()
	}
	c.Sum = h.sum.Load()
	return c
}
