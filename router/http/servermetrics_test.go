package http

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polystalk/shard/stats"
)

// emitted is what an emitter is told by a function.
type emitted func(e emitter)

func (emitted) Describe(chan<- *prometheus.Desc)       {}
func (f emitted) Collect(out chan<- prometheus.Metric) { f(emitter{out}) }

// buckets returns the counts of the only emitted histogram by bound, its count and its sum.
func buckets(t *testing.T, f emitted) (n map[float64]uint64, count uint64, sum float64) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(f)
	tubeFamilies, err := r.Gather()
	require(t, err == nil && len(tubeFamilies) == 1 && len(tubeFamilies[0].Metric) == 1, "%v: %v", err, tubeFamilies)
	h := tubeFamilies[0].Metric[0].Histogram
	n = make(map[float64]uint64)
	for _, b := range h.Bucket {
		n[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	return n, h.GetSampleCount(), h.GetSampleSum()
}

// TestRareHistogramsAreCutToTheirBounds: what is below the first bound is counted by that, and
// what is above the last by the whole alone.
func TestRareHistogramsAreCutToTheirBounds(t *testing.T) {
	var h stats.Histogram
	for _, d := range []time.Duration{1, time.Microsecond, 50 * time.Microsecond, time.Millisecond, time.Minute} {
		h.Took(d)
	}
	c := h.Read()
	n, count, sum := buckets(t, func(e emitter) {
		e.histogram("test_seconds", "For a test.", c.N[:], float64(c.Sum)/1e9, stats.HistogramSeconds, firstSync, lastSync)
	})
	want := map[float64]uint64{}
	for b := firstSync; b <= lastSync; b++ {
		want[math.Pow(4, float64(b-9))] = 4
	}
	want[math.Pow(4, -7)], want[math.Pow(4, -6)], want[math.Pow(4, -5)] = 3, 3, 3 // 61 µs, 0.24 ms and 0.98 ms
	expect(t, len(n) == len(want) && count == 5 && sum >= 60.00105 && sum <= 60.00106, "%v, %d with the sum %v; want %v", n, count, sum, want)
	for bound, k := range want {
		expect(t, n[bound] == k, "%v: %d, want %d", bound, n[bound], k)
	}
}

// TestHistogramsOfJobsHaveAllBounds: a number for each, of what does not exceed it.
func TestHistogramsOfJobsHaveAllBounds(t *testing.T) {
	var times stats.Times
	for b := range times.N {
		times.N[b] = 1
	}
	times.Sum = 7e9
	n, count, sum := buckets(t, func(e emitter) { e.flow("test_job_seconds", "For a test.", &times) })
	expect(t, len(n) == stats.FlowBuckets-1 && count == stats.FlowBuckets && sum == 7, "%d bounds, %d with the sum %v", len(n), count, sum)
	for b := range stats.FlowBuckets - 1 {
		k := n[stats.FlowBound(b)/1e9]
		expect(t, k == uint64(b+1), "%v: %d, want %d", stats.FlowBound(b)/1e9, k, b+1)
	}
}
