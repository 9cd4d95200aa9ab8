package http

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polystalk/router/admin"
	"polystalk/router/trend"
	"polystalk/shard/core"
)

// A serverMetrics shows a server and a bounded number of its tubes. It implements
// prometheus.Collector.
type serverMetrics struct {
	Operator *admin.Operator
	// Tubes gives a sample of all tubes, as new as it need be.
	Tubes   func(context.Context) (*admin.TubeSample, error)
	Shown   *trend.Choice   // which tubes
	Ended   context.Context // to look at shards ends with it
	Version string          // of the program
	Speaks  string          // the versions of the protocols, for people
}

// sampleWithin bounds the wait for a sample; without one the server's tubeFamilies are missing.
const sampleWithin = 5 * time.Second

// Describe implements prometheus.Collector. Nothing is said of what will come: some of it
// depends on whether there is a journal.
func (s *serverMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *serverMetrics) Collect(out chan<- prometheus.Metric) {
	e := emitter{out}
	op := s.Operator
	e.gauge("build_info", "What runs; always 1.", 1, label{"version", "goversion", "speaks"}, s.Version, runtime.Version(), s.Speaks)
	e.gauge("ready", "Whether clients should be sent here, as /readyz says.", truth(op.Readiness().Status == "ok"), nil)
	e.gauge("draining", "Whether new jobs are refused.", truth(op.Draining()), nil)
	e.gauge("start_time_seconds", "When the server was started, in Unix time.", float64(op.Started().UnixNano())/1e9, nil)
	e.operators(op)
	if j, pressure := op.Kept(); j != nil {
		e.journal(j, pressure)
	}
	if k := op.ClusterStatus(); k != nil {
		commits := op.ClusterCommits()
		e.cluster(k, &commits)
	}
	ctx, cancel := context.WithTimeout(s.Ended, sampleWithin)
	defer cancel()
	if v, err := op.Sample(ctx); err == nil {
		e.server(v)
	}
	if all, err := s.Tubes(ctx); err == nil {
		s.tubes(ctx, e, all)
	}
}

// tubes emits what is known from all tubes, and the tubeFamilies of those that are chosen.
func (s *serverMetrics) tubes(ctx context.Context, e emitter, all *admin.TubeSample) {
	var bytes uint64
	var oldest core.Time
	for i := range all.Rows {
		bytes += all.Rows[i].Bytes
		oldest = max(oldest, all.Rows[i].Oldest)
	}
	e.gauge("job_body_bytes", "Bytes of the bodies of all jobs.", float64(bytes), nil)
	e.gauge("oldest_ready_age_seconds", "How long the job is ready that is so for longest, of all tubes; 0 if none is.", float64(oldest)/float64(core.Second), nil)
	chosen := s.Shown.Of(all)
	e.gauge("metrics_tubes_omitted", "Tubes that are not shown here, for there are too many.", float64(len(all.Rows)-len(chosen)), nil)
	for _, i := range chosen {
		t, err := s.Operator.View(ctx, all, i)
		if err != nil {
			return
		}
		Collect(e.out, &t)
	}
}

// server emits the tubeFamilies of the whole server.
func (e emitter) server(v *admin.Sample) {
	e.jobs(v)
	e.clients(v)
	e.inside(v)
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
	event := func(name string, n uint64) {
		e.counter("job_events_total", "What happened to jobs.", float64(n), label{"event"}, name)
	}
	f := &v.Flow
	event("put", f.Puts)
	event("delete", f.Deletes)
	for i, name := range Events {
		event(name, f.Events[i])
	}
	e.flow("job_wait_seconds", "How long jobs were ready before they were reserved.", &f.Wait)
	e.flow("job_run_seconds", "How long reservations took, however they ended.", &f.Run)
}
