package compare

import (
	"slices"

	"polystalk/loadtest/measure"
)

// A Metric is one figure of a run. Figures that are zero are not known.
type Metric struct {
	Name     string
	Of       func(*measure.Run) float64
	Absolute bool // means something without a baseline
}

// Metrics are all there are, in the order of the CSV columns.
var Metrics = []Metric{
	{"ops", func(r *measure.Run) float64 { return r.OpsRate }, false},
	{"cpu", func(r *measure.Run) float64 { return r.CPU }, false},
	{"busy", func(r *measure.Run) float64 { return r.Busy }, true},
	{"p50", func(r *measure.Run) float64 { return r.Latency.P50 }, false},
	{"p99", func(r *measure.Run) float64 { return r.Latency.P99 }, false},
	{"p999", func(r *measure.Run) float64 { return r.Latency.P999 }, false},
	{"max", func(r *measure.Run) float64 { return r.Latency.Max }, false},
	{"rss", func(r *measure.Run) float64 { return float64(r.RSSAfter) }, false},
	{"rss-before", func(r *measure.Run) float64 { return float64(r.RSSBefore) }, false},
	{"load-cpu", func(r *measure.Run) float64 { return r.LoadCPU }, false},
	{"load-busy", func(r *measure.Run) float64 { return r.LoadBusy }, true},
	{"bytes", func(r *measure.Run) float64 { return r.Memory.BytesPerJob() }, true},
	{"early", func(r *measure.Run) float64 { return r.Growth.EarlyRate() }, false},
	{"late", func(r *measure.Run) float64 { return r.Growth.LateRate() }, false},
	{"sustained", func(r *measure.Run) float64 { return r.Growth.Sustained() }, true},
	{"kept", func(r *measure.Run) float64 { return r.Memory.Kept() }, true},
}

func metricNamed(name string) (Metric, bool) {
	i := slices.IndexFunc(Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return Metrics[i], true
}
