package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polystalk/router/admin"
	"polystalk/router/exposition"
	"polystalk/router/session"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/flow"
)

// serverMetrics shows a sample as metrics, and a bounded number of tubes.
type serverMetrics struct{ a *API }

// sampleWithin bounds the wait for a sample; without one the server's families are missing.
const sampleWithin = 5 * time.Second

// Describe implements prometheus.Collector. Nothing is said of what will come: some of it
// depends on whether there is a journal.
func (m *serverMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *serverMetrics) Collect(out chan<- prometheus.Metric) {
	e := emitter{out}
	op := m.a.op
	ready := op.Readiness().Status == "ok"
	e.gauge("build_info", "What runs; always 1.", 1, label{"version", "goversion", "speaks"}, m.a.build()...)
	e.gauge("ready", "Whether clients should be sent here, as /readyz says.", truth(ready), nil)
	e.gauge("draining", "Whether new jobs are refused.", truth(op.Draining()), nil)
	open, dropped := m.a.Connections()
	e.gauge("http_connections", "Connections by HTTP.", float64(open), nil)
	e.counter("http_connections_dropped_total", "Connections by HTTP that were closed for others.", float64(dropped), nil)
	ctx, cancel := context.WithTimeout(m.a.Ended(), sampleWithin)
	defer cancel()
	if v, err := op.Sample(ctx); err == nil {
		e.server(v)
	}
	m.tubes(ctx, e)
}

// tubes emits the families of the tubes that are chosen.
func (m *serverMetrics) tubes(ctx context.Context, e emitter) {
	all, err := m.a.op.Tubes(ctx)
	if err != nil {
		return
	}
	chosen := m.a.shown.Of(all)
	for _, i := range chosen {
		t, err := m.a.op.View(ctx, all, i)
		if err != nil {
			return
		}
		exposition.Collect(e.out, &t)
	}
	e.gauge("metrics_tubes_omitted", "Tubes that are not shown here, for there are too many.", float64(len(all.Rows)-len(chosen)), nil)
}

// An emitter makes constant metrics.
type emitter struct{ out chan<- prometheus.Metric }

type label []string

func (e emitter) gauge(name, help string, v float64, labels label, values ...string) {
	e.emit(prometheus.GaugeValue, name, help, v, labels, values)
}

func (e emitter) counter(name, help string, v float64, labels label, values ...string) {
	e.emit(prometheus.CounterValue, name, help, v, labels, values)
}

func (e emitter) emit(t prometheus.ValueType, name, help string, v float64, labels label, values []string) {
	d := prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	e.out <- prometheus.MustNewConstMetric(d, t, v, values...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// server emits the families of the whole server.
func (e emitter) server(v *admin.Sample) {
	e.gauge("start_time_seconds", "When the server was started, in Unix time.", float64(v.Started.UnixNano())/1e9, nil)
	e.jobs(v)
	e.clients(v)
	for _, p := range v.Commands {
		for _, c := range p.Kinds {
			e.counter("commands_total", "Commands received and well formed.", float64(c.Count), label{"protocol", "command"}, p.Name, c.Name)
		}
	}
	e.inside(v)
	if v.Journal != nil {
		e.journal(v.Journal, v.Pressure)
	}
}

func (e emitter) jobs(v *admin.Sample) {
	for _, s := range []struct {
		state string
		n     uint64
	}{{"ready", v.Jobs.Ready}, {"delayed", v.Jobs.Delayed}, {"reserved", v.Jobs.Reserved}, {"buried", v.Jobs.Buried}} {
		e.gauge("jobs", "Jobs there are, by their state.", float64(s.n), label{"state"}, s.state)
	}
	e.gauge("jobs_urgent", "Ready jobs with a priority below 1024.", float64(v.Jobs.Urgent), nil)
	e.gauge("tubes", "Tubes there are.", float64(v.Tubes), nil)
	e.gauge("memory_mapped_bytes", "Memory for jobs and their bodies, outside of the collector's heap.", float64(v.Jobs.MappedBytes), nil)
	e.flow(&v.Flow)
}

// flow emits what has passed through all tubes.
func (e emitter) flow(f *core.Flow) {
	event := func(name string, n uint64) {
		e.counter("job_events_total", "What happened to jobs.", float64(n), label{"event"}, name)
	}
	event("put", f.Puts)
	event("delete", f.Deletes)
	for i, name := range exposition.Events {
		event(name, f.Events[i])
	}
	e.times("job_wait_seconds", "How long jobs were ready before they were reserved.", &f.Wait)
	e.times("job_run_seconds", "How long reservations took, however they ended.", &f.Run)
}

// times emits a histogram.
func (e emitter) times(name, help string, t *flow.Times) {
	buckets := make(map[float64]uint64)
	n := uint64(0)
	for b, k := range t.N {
		n += k
		if b < flow.Buckets-1 {
			buckets[flow.Bound(b)/1e9] = n
		}
	}
	d := prometheus.NewDesc(namespace+"_"+name, help, nil, nil)
	e.out <- prometheus.MustNewConstHistogram(d, n, t.Sum/1e9, buckets)
}

func (e emitter) clients(v *admin.Sample) {
	e.gauge("connections", "Connections of clients of all protocols, but for HTTP.", float64(v.Sums.Connections), nil)
	e.gauge("connections_limit", "Connections of clients that are served at a time.", float64(v.Connections), nil)
	e.counter("connections_accepted_total", "Connections of clients that were served.", float64(v.Sums.TotalConnections), nil)
	for _, r := range []struct {
		role string
		n    int64
	}{{"producer", v.Sums.Producers}, {"worker", v.Sums.Workers}, {"waiting", v.Sums.Waiting}} {
		e.gauge("clients", "Connections that have put a job, that have asked for one, and that wait for one.", float64(r.n), label{"role"}, r.role)
	}
}

// tallies are the loops' figures that are shown, under their names as counters of the server.
var tallies = map[string]struct{ name, help string }{
	"shard-visits":   {"shard_visits_total", "Times that an event loop took a shard."},
	"shard-busy":     {"shard_busy_total", "Times that an event loop found a shard owned by another."},
	"inbox-sent":     {"inbox_sent_total", "Operations left in the inbox of a busy shard."},
	"turns-deferred": {"turns_deferred_total", "Turns put off, so that other connections had theirs."},
	"behind":         {"sockets_behind_total", "Times that a socket did not take all of a reply."},
	"pauses":         {"input_pauses_total", "Times that a connection was not read for a while because it got ahead."},
}

// inside emits what tells how the event loops and shards get on.
func (e emitter) inside(v *admin.Sample) {
	e.gauge("event_loops", "Event loops.", float64(v.Loops), nil)
	e.gauge("shards", "Shards of the tubes.", float64(len(v.Shards)), nil)
	for i, n := range v.Sums.Tallies {
		if t, ok := tallies[session.Tally(i).String()]; ok {
			e.counter(t.name, t.help, float64(n), nil)
		}
	}
	most := uint64(0)
	for _, c := range v.Shards {
		most = max(most, c.Deepest)
	}
	e.gauge("inbox_depth_max", "The most operations that were found waiting in an inbox.", float64(most), nil)
}

func (e emitter) journal(j *commit.Stats, pressure commit.Pressure) {
	for _, b := range []struct {
		kind string
		n    int64
	}{{"files", j.Bytes}, {"live", j.Live}, {"pending", j.Pending}} {
		e.gauge("journal_bytes", "Bytes of the journal: its files, what jobs that live take of them, what is not written yet.", float64(b.n), label{"kind"}, b.kind)
	}
	e.gauge("journal_segments", "Files of the journal.", float64(j.Segments), nil)
	e.counter("journal_batches_total", "Batches of records written to the journal.", float64(j.Batches), nil)
	e.counter("journal_records_total", "Records written to the journal.", float64(j.Records), nil)
	e.counter("journal_migrated_records_total", "Records written again, so that an old file could be given up.", float64(j.Migrated), nil)
	for i, name := range []string{commit.Open: "open", commit.Wait: "wait", commit.Full: "full"} {
		e.gauge("journal_pressure", "Whether changes are taken: open, not now, or not while the disk is full.", truth(commit.Pressure(i) == pressure), label{"state"}, name)
	}
}
