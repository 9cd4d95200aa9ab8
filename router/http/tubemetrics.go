package http

import (
	"context"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// metricPrefix begins the names of all metrics.
const metricPrefix = "polystalk_"

// A tubeFamily is a metric of every tube.
type tubeFamily struct {
	group  string // of the parameter family
	name   string
	help   string
	kind   string // counter or gauge
	label  string // in addition to tube; empty: there is one series
	policy bool   // only tubes with a policy have it
	series []tubeSeries
}

// A tubeSeries is one series of a family.
type tubeSeries struct {
	value string // of the family's label
	of    func(t *core.TubeRow) float64
}

// metricGroups are the groups of families; latency has the histograms.
var metricGroups = []string{"jobs", "events", "age", "latency"}

var tubeFamilies = []tubeFamily{
	{group: "jobs", name: "tube_jobs", help: "Jobs in a tube, by state.", kind: "gauge", label: "state", series: []tubeSeries{
		{"ready", func(t *core.TubeRow) float64 { return float64(t.Ready) }},
		{"delayed", func(t *core.TubeRow) float64 { return float64(t.Delayed) }},
		{"reserved", func(t *core.TubeRow) float64 { return float64(t.Reserved) }},
		{"buried", func(t *core.TubeRow) float64 { return float64(t.Buried) }},
	}},
	{group: "jobs", name: "tube_job_body_bytes", help: "Size of the job bodies in a tube.", kind: "gauge", series: []tubeSeries{
		{"", func(t *core.TubeRow) float64 { return float64(t.Bytes) }},
	}},
	{group: "jobs", name: "tube_clients", help: "Connections that use a tube, watch it, or wait for its jobs.", kind: "gauge", label: "role", series: []tubeSeries{
		{"using", func(t *core.TubeRow) float64 { return float64(t.Using) }},
		{"watching", func(t *core.TubeRow) float64 { return float64(t.Watching) }},
		{"waiting", func(t *core.TubeRow) float64 { return float64(t.Waiting) }},
	}},
	{group: "jobs", name: "tube_paused", help: "1 while a tube is paused.", kind: "gauge", series: []tubeSeries{
		{"", func(t *core.TubeRow) float64 { return truth(t.PauseLeft > 0) }},
	}},
	{group: "jobs", name: "tube_held", help: "1 while a pause, or running or per_second of its policy, holds back the reserves of a tube with a policy.", kind: "gauge", label: "by", policy: true, series: heldSeries()},
	{group: "age", name: "tube_oldest_ready_age_seconds", help: "Age of the oldest ready job in a tube; 0 if there is none.", kind: "gauge", series: []tubeSeries{
		{"", func(t *core.TubeRow) float64 { return float64(t.Oldest) / float64(core.Second) }},
	}},
	{group: "events", name: "tube_job_events_total", help: "Job events in a tube.", kind: "counter", label: "event", series: eventSeries()},
	{group: "events", name: "tube_policy_total", help: "Jobs that the policy of a tube has buried (dead), delayed, expired, dropped or refused.", kind: "counter", label: "what", policy: true, series: policySeries()},
}

func heldSeries() (list []tubeSeries) {
	for by := core.HeldByPause; by <= core.HeldByRate; by++ {
		list = append(list, tubeSeries{admin.HeldNames[by], func(t *core.TubeRow) float64 { return truth(t.Held == by) }})
	}
	return list
}

func policySeries() (list []tubeSeries) {
	for e, name := range admin.PolicyEventNames {
		list = append(list, tubeSeries{name, func(t *core.TubeRow) float64 { return float64(t.Policed[e]) }})
	}
	return list
}

func eventSeries() []tubeSeries {
	list := []tubeSeries{
		{"put", func(t *core.TubeRow) float64 { return float64(t.Total) }},
		{"delete", func(t *core.TubeRow) float64 { return float64(t.Deletes) }},
	}
	for e, name := range admin.EventNames {
		list = append(list, tubeSeries{name, func(t *core.TubeRow) float64 { return float64(t.Events[e]) }})
	}
	return list
}

// A timesFamily is a histogram of every tube.
type timesFamily struct {
	name, help string
	of         func(f *core.Flow) *stats.Times
}

var timesFamilies = []timesFamily{
	{"tube_job_wait_seconds", "Time that jobs of a tube were ready before they were reserved.", func(f *core.Flow) *stats.Times { return &f.Wait }},
	{"tube_job_run_seconds", "Length of the reservations of a tube's jobs, however they ended.", func(f *core.Flow) *stats.Times { return &f.Run }},
}

// A tube's histograms show every second bound, from 4^-4 to 4^7 seconds.
const (
	firstBound = 3
	lastBound  = 25
)

// cumulative calls f with each bound, in seconds, and the count up to it. It returns the total.
func cumulative(t *stats.Times, f func(bound float64, n uint64)) (all uint64) {
	for b, k := range t.N {
		all += k
		if b >= firstBound && b <= lastBound && (b-firstBound)%2 == 0 {
			f(stats.FlowBound(b)/1e9, all)
		}
	}
	return all
}

// tube emits the metrics of one tube.
func (e emitter) tube(t *admin.TubeView) {
	tube := wire.ShownName(t.Name)
	for i := range tubeFamilies {
		f := &tubeFamilies[i]
		if f.policy && t.Policy == nil {
			continue
		}
		kind, names := prometheus.GaugeValue, label{"tube", f.label}
		if f.kind == "counter" {
			kind = prometheus.CounterValue
		}
		for k := range f.series {
			s := &f.series[k]
			n := 2
			if f.label == "" {
				n = 1
			}
			e.emit(kind, f.name, f.help, s.of(&t.TubeRow), names[:n], []string{tube, s.value}[:n])
		}
	}
	for _, h := range timesFamilies {
		times := h.of(&t.Flow)
		buckets := make(map[float64]uint64)
		n := cumulative(times, func(bound float64, n uint64) { buckets[bound] = n })
		e.out <- prometheus.MustNewConstHistogram(describe(h.name, h.help, label{"tube"}), n, times.Sum/1e9, buckets, tube)
	}
}

// flowsAtOnce is the largest number of tubes with their histograms in memory.
const flowsAtOnce = 64

// A tubePage has the metrics of many tubes as text. It does not use the library, which makes an
// object for each series: too much memory for 50,000 tubes with dozens of series each. The text
// is valid in Prometheus's format 0.0.4 and, by its names and types, in OpenMetrics.
// Source: prometheus.io/docs/instrumenting/exposition_formats, "Text-based format".
type tubePage struct {
	operator *admin.Operator
	sample   *admin.TubeSample
	rows     []int    // of sample
	groups   []string // see metricGroups
	// part takes the text made so far, and returns the buffer to continue with; false ends the
	// page. It may block: the page holds no lock meanwhile.
	part func(made []byte) (buf []byte, more bool)
}

const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// write makes the page, family by family.
func (p *tubePage) write(ctx context.Context) error {
	buf, ok := p.part(nil)
	for i := range tubeFamilies {
		if f := &tubeFamilies[i]; ok && slices.Contains(p.groups, f.group) {
			buf, ok = p.numbers(buf, f)
		}
	}
	for i := range timesFamilies {
		if !ok || !slices.Contains(p.groups, "latency") {
			break
		}
		var err error
		if buf, ok, err = p.times(ctx, buf, &timesFamilies[i]); err != nil {
			return err
		}
	}
	return nil
}

// numbers adds a family of numbers.
func (p *tubePage) numbers(buf []byte, f *tubeFamily) (_ []byte, ok bool) {
	name := metricPrefix + f.name
	buf = appendFamily(buf, name, f.kind, f.help)
	var labels []byte
	for _, i := range p.rows {
		t := &p.sample.Rows[i]
		if f.policy && t.Policy == nil {
			continue
		}
		labels = appendLabel(labels[:0], "tube", wire.ShownName(t.Name))
		tube := len(labels)
		for k := range f.series {
			s := &f.series[k]
			if f.label != "" {
				labels = appendLabel(labels[:tube], f.label, s.value)
			}
			buf = appendSeries(buf, name, labels, s.of(t))
		}
		if buf, ok = p.part(buf); !ok {
			return buf, false
		}
	}
	return p.part(buf)
}

// times adds a family of histograms.
func (p *tubePage) times(ctx context.Context, buf []byte, h *timesFamily) (_ []byte, ok bool, err error) {
	name := metricPrefix + h.name
	bucket, sum, count := name+"_bucket", name+"_sum", name+"_count"
	buf = appendFamily(buf, name, "histogram", h.help)
	flows := make([]core.Flow, flowsAtOnce)
	var labels []byte
	for list := range slices.Chunk(p.rows, flowsAtOnce) {
		if err := p.operator.Flows(ctx, p.sample, list, flows); err != nil {
			return buf, false, err
		}
		for k, i := range list {
			t := h.of(&flows[k])
			labels = appendLabel(labels[:0], "tube", wire.ShownName(p.sample.Rows[i].Name))
			tube := len(labels)
			n := cumulative(t, func(bound float64, n uint64) {
				labels = append(appendNumber(append(labels[:tube], `,le="`...), bound), '"')
				buf = appendSeries(buf, bucket, labels, float64(n))
			})
			labels = appendLabel(labels[:tube], "le", "+Inf")
			buf = appendSeries(buf, bucket, labels, float64(n))
			buf = appendSeries(buf, sum, labels[:tube], t.Sum/1e9)
			buf = appendSeries(buf, count, labels[:tube], float64(n))
			if buf, ok = p.part(buf); !ok {
				return buf, false, nil
			}
		}
	}
	buf, ok = p.part(buf)
	return buf, ok, nil
}

// appendFamily begins a family: its series must follow. The help must have no line ends and no
// backslashes.
func appendFamily(dst []byte, name, kind, help string) []byte {
	for _, s := range []string{"# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"} {
		dst = append(dst, s...)
	}
	return dst
}

// appendLabel adds a label. The value must be UTF-8.
func appendLabel(dst []byte, label, value string) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(append(dst, label...), `="`...)
	for i := range len(value) {
		switch value[i] {
		case '\\', '"':
			dst = append(dst, '\\', value[i])
		case '\n':
			dst = append(dst, `\n`...)
		default:
			dst = append(dst, value[i])
		}
	}
	return append(dst, '"')
}

// appendSeries adds a series with the labels that appendLabel has made.
func appendSeries(dst []byte, name string, labels []byte, v float64) []byte {
	dst = append(append(dst, name...), '{')
	dst = append(append(dst, labels...), "} "...)
	return append(appendNumber(dst, v), '\n')
}

// appendNumber adds the shortest form of a number. Most are whole, which is fast.
func appendNumber(dst []byte, v float64) []byte {
	if n := int64(v); v >= 0 && v < 1<<53 && float64(n) == v {
		return strconv.AppendInt(dst, n, 10)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}
