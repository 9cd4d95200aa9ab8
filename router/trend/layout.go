package trend

import (
	"time"

	"polystalk/shard/stats"
)

// A Layout says what a track is made of: the names of what is in its readings.
type Layout struct {
	Gauges   []string // of counts, sizes and ages: a slot shows the largest
	Counters []string // of what only grows: a slot shows how much that was a second
	Times    []string // of histograms: a slot shows two quantiles of what they have counted in it
}

// A Reading is the figures of one moment, in the order of the layout. NaN is a figure that is
// not known.
type Reading struct {
	At       time.Time
	Gauges   []float64
	Counters []float64 // whole numbers
	Times    []stats.Times
}

// quantiles are those that are kept of each histogram.
var quantiles = [...]struct {
	of   float64
	name string
}{{0.5, "_p50_seconds"}, {0.99, "_p99_seconds"}}

// Series are the names of what a track shows, in their order: NAME of a gauge,
// NAME_per_second of a counter, NAME_p50_seconds and NAME_p99_seconds of a histogram.
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

// values is how many series have values, and so which is the first of the quantiles.
func (l *Layout) values() int { return len(l.Gauges) + len(l.Counters) }
