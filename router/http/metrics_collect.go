package http

import (
	"github.com/prometheus/client_golang/prometheus"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
)

// The descriptions of the tubeFamilies, and of histograms.
var (
	familyDescs = descs(len(tubeFamilies), func(i int) (string, string, string) {
		return tubeFamilies[i].name, tubeFamilies[i].help, tubeFamilies[i].label
	})
	histogramDescs = descs(len(histograms), func(i int) (string, string, string) { return histograms[i].name, histograms[i].help, "" })
)

func descs(n int, of func(i int) (name, help, label string)) (list []*prometheus.Desc) {
	for i := range n {
		name, help, label := of(i)
		labels := []string{"tube"}
		if label != "" {
			labels = append(labels, label)
		}
		list = append(list, prometheus.NewDesc(Prefix+name, help, labels, nil))
	}
	return list
}

// Collect sends the metrics of one tube.
func Collect(out chan<- prometheus.Metric, t *admin.TubeView) {
	tube := wire.ShownName(t.Name)
	for i := range tubeFamilies {
		f := &tubeFamilies[i]
		kind := prometheus.GaugeValue
		if f.counter {
			kind = prometheus.CounterValue
		}
		for _, s := range f.series {
			labels := []string{tube, s.value}
			if f.label == "" {
				labels = labels[:1]
			}
			out <- prometheus.MustNewConstMetric(familyDescs[i], kind, s.of(&t.TubeRow), labels...)
		}
	}
	for i, h := range histograms {
		times := h.of(&t.Flow)
		buckets := make(map[float64]uint64)
		n := cumulative(times, func(bound float64, n uint64) { buckets[bound] = n })
		out <- prometheus.MustNewConstHistogram(histogramDescs[i], n, times.Sum/1e9, buckets, tube)
	}
}
