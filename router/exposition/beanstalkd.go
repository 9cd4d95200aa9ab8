package exposition

import (
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/codec/openmetrics"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// The names here are those of the exporter for beanstalkd that is most used, so that its
// dashboards and alerts go on to work. Types are those of the names: what ends in _total is
// a counter, all else a gauge. They stand apart from /metrics because some of them break
// Prometheus's rules for names, and are written by hand because there may be many tubes.
// Source of the names: davidtannock/beanstalkd_exporter, internal/exporter/metrics.go.
const beanstalkdPrefix = "beanstalkd_"

// beanstalkdCommands are the commands that it knows.
var beanstalkdCommands = []string{
	"bury", "delete", "ignore", "kick", "list-tube-used", "list-tubes", "list-tubes-watched", "pause-tube",
	"peek", "peek-buried", "peek-delayed", "peek-ready", "put", "release", "reserve", "reserve-with-timeout",
	"stats", "stats-job", "stats-tube", "touch", "use", "watch",
}

// beanstalkdServer are its figures about the server, by what stats calls them.
var beanstalkdServer = []struct {
	stat  string
	value func(v *admin.Sample) uint64
}{
	{"current-connections", func(v *admin.Sample) uint64 { return uint64(v.Sums.Connections) }},
	{"current-jobs-buried", func(v *admin.Sample) uint64 { return v.Jobs.Buried }},
	{"current-jobs-delayed", func(v *admin.Sample) uint64 { return v.Jobs.Delayed }},
	{"current-jobs-ready", func(v *admin.Sample) uint64 { return v.Jobs.Ready }},
	{"current-jobs-reserved", func(v *admin.Sample) uint64 { return v.Jobs.Reserved }},
	{"current-jobs-urgent", func(v *admin.Sample) uint64 { return v.Jobs.Urgent }},
	{"current-producers", func(v *admin.Sample) uint64 { return uint64(v.Sums.Producers) }},
	{"current-tubes", func(v *admin.Sample) uint64 { return uint64(v.Tubes) }},
	{"current-waiting", func(v *admin.Sample) uint64 { return uint64(v.Sums.Waiting) }},
	{"current-workers", func(v *admin.Sample) uint64 { return uint64(v.Sums.Workers) }},
	{"job-timeouts", func(v *admin.Sample) uint64 { return v.Jobs.Timeouts }},
	{"total-connections", func(v *admin.Sample) uint64 { return v.Sums.TotalConnections }},
	{"total-jobs", func(v *admin.Sample) uint64 { return v.Jobs.Total }},
}

// beanstalkdTube are its figures about a tube, and what its names end in.
var beanstalkdTube = []struct {
	stat, unit string
	value      func(t *core.TubeRow) uint64
}{
	{"cmd-delete", "_total", func(t *core.TubeRow) uint64 { return t.Deletes }},
	{"cmd-pause-tube", "_total", func(t *core.TubeRow) uint64 { return t.Pauses }},
	{"current-jobs-buried", "_count", func(t *core.TubeRow) uint64 { return t.Buried }},
	{"current-jobs-delayed", "_count", func(t *core.TubeRow) uint64 { return t.Delayed }},
	{"current-jobs-ready", "_count", func(t *core.TubeRow) uint64 { return t.Ready }},
	{"current-jobs-reserved", "_count", func(t *core.TubeRow) uint64 { return t.Reserved }},
	{"current-jobs-urgent", "_count", func(t *core.TubeRow) uint64 { return t.Urgent }},
	{"current-using", "_count", func(t *core.TubeRow) uint64 { return t.Using }},
	{"current-waiting", "_count", func(t *core.TubeRow) uint64 { return t.Waiting }},
	{"current-watching", "_count", func(t *core.TubeRow) uint64 { return t.Watching }},
	{"pause", "_seconds_total", func(t *core.TubeRow) uint64 { return uint64(t.Pause / core.Second) }},
	{"pause-time-left", "_seconds_total", func(t *core.TubeRow) uint64 { return uint64(t.PauseLeft / core.Second) }},
	{"total-jobs", "_count", func(t *core.TubeRow) uint64 { return t.Total }},
}

// beanstalkdName is the name of a metric.
func beanstalkdName(stat, unit string) string {
	return beanstalkdPrefix + strings.ReplaceAll(stat, "-", "_") + unit
}

func kindOf(name string) openmetrics.Kind {
	if strings.HasSuffix(name, "_total") {
		return openmetrics.Counter
	}
	return openmetrics.Gauge
}

// A BeanstalkdPage is the text of a server and of many tubes with the exporter's names.
type BeanstalkdPage struct {
	Sample *admin.Sample
	Tubes  *admin.TubeSample
	Wanted func(name string) bool // which tubes
	Part   Part
}

// Write makes the page, family by family.
func (p *BeanstalkdPage) Write() {
	buf, ok := p.Part(nil)
	if !ok {
		return
	}
	buf = p.server(buf)
	var names []string // as they are shown
	var rows []*core.TubeRow
	for i := range p.Tubes.Rows {
		if t := &p.Tubes.Rows[i]; p.Wanted(t.Name) {
			rows, names = append(rows, t), append(names, wire.ShownName(t.Name))
		}
	}
	for _, f := range beanstalkdTube {
		name := beanstalkdName("tube-"+f.stat, f.unit)
		buf = openmetrics.AppendFamily(buf, name, kindOf(name), "As "+f.stat+" in stats-tube.")
		for i, t := range rows {
			buf = openmetrics.AppendSample(buf, name, "tube", names[i], f.value(t))
			if buf, ok = p.Part(buf); !ok {
				return
			}
		}
	}
	p.Part(buf)
}

// server adds the families of the server.
func (p *BeanstalkdPage) server(buf []byte) []byte {
	single := func(name, help string, n uint64) {
		buf = openmetrics.AppendFamily(buf, name, kindOf(name), help)
		buf = openmetrics.AppendSample(buf, name, "", "", n)
	}
	counts := make(map[string]uint64)
	for _, front := range p.Sample.Commands {
		for _, k := range front.Kinds {
			counts[k.Name] = k.Count
		}
	}
	single(beanstalkdPrefix+"up", "Whether beanstalkd answers; always 1.", 1)
	for _, name := range beanstalkdCommands {
		single(beanstalkdName("cmd-"+name, "_total"), "Commands "+name+" so far.", counts["cmd-"+name])
	}
	for _, f := range beanstalkdServer {
		single(beanstalkdName(f.stat, "_count"), "As "+f.stat+" in stats.", f.value(p.Sample))
	}
	return buf
}
