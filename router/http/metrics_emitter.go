package http

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"polystalk/shard/stats"
)

// An emitter makes constant metrics. A name has the same help and labels each time.
type emitter struct{ out chan<- prometheus.Metric }

// label is the names of the labels of a family.
type label []string

func (e emitter) gauge(name, help string, v float64, labels label, values ...string) {
	e.emit(prometheus.GaugeValue, name, help, v, labels, values)
}

func (e emitter) counter(name, help string, v float64, labels label, values ...string) {
	e.emit(prometheus.CounterValue, name, help, v, labels, values)
}

func (e emitter) emit(t prometheus.ValueType, name, help string, v float64, labels label, values []string) {
	e.out <- prometheus.MustNewConstMetric(describe(name, help, labels), t, v, values...)
}

// descOf are the descriptions by name: to make one takes longer than a metric of it.
var descOf sync.Map

func describe(name, help string, labels label) *prometheus.Desc {
	if d, ok := descOf.Load(name); ok {
		return d.(*prometheus.Desc)
	}
	d, _ := descOf.LoadOrStore(name, prometheus.NewDesc(Prefix+name, help, labels, nil))
	return d.(*prometheus.Desc)
}

// truth is 1 for what is so.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// flow emits a histogram of what happens to jobs, with all its bounds.
func (e emitter) flow(name, help string, t *stats.Times) {
	buckets := make(map[float64]uint64, stats.FlowBuckets)
	n := uint64(0)
	for b, k := range t.N {
		n += k
		if b < stats.FlowBuckets-1 {
			buckets[stats.FlowBound(b)/1e9] = n
		}
	}
	e.out <- prometheus.MustNewConstHistogram(describe(name, help, nil), n, t.Sum/1e9, buckets)
}

// rare emits a histogram of what happens now and then, with the bounds from first to last as
// scale has them. The sum is in the same unit.
func (e emitter) rare(name, help string, c *stats.Counts, sum float64, scale func(bucket int) float64, first, last int) {
	buckets := make(map[float64]uint64, last-first+1)
	n := uint64(0)
	for b, k := range c.N {
		n += k
		if b >= first && b <= last {
			buckets[scale(b)] = n
		}
	}
	e.out <- prometheus.MustNewConstHistogram(describe(name, help, nil), n, sum, buckets)
}
