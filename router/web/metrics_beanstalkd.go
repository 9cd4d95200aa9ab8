package web

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"polystalk/router/admin"
	"polystalk/shard/core"
)

// The names here are those of the exporter for beanstalkd that is most used, so that its
// dashboards and alerts go on to work. Types are those of the names: what ends in _total is
// a counter, all else a gauge. They stand apart from /metrics because some of them break
// Prometheus's rules for names.
// Source of the names: davidtannock/beanstalkd_exporter, internal/exporter/metrics.go.
const beanstalkdPrefix = "beanstalkd_"

// beanstalkdCommands are the commands that it knows.
var beanstalkdCommands = []string{
	"bury", "delete", "ignore", "kick", "list-tube-used", "list-tubes", "list-tubes-watched", "pause-tube",
	"peek", "peek-buried", "peek-delayed", "peek-ready", "put", "release", "reserve", "reserve-with-timeout",
	"stats", "stats-job", "stats-tube", "touch", "use", "watch",
}

// showBeanstalkd serves /metrics/beanstalkd, with the tubes that match=GLOB says, else all.
func (s *Server) showBeanstalkd(c *call) error {
	q, err := c.query("match")
	if err != nil {
		return err
	}
	match, err := newGlob(q.Get("match"))
	if err != nil {
		return err
	}
	v, err := s.op.Sample(c.ctx)
	if err != nil {
		return err
	}
	tubes, err := s.op.Tubes(c.ctx)
	if err != nil {
		return err
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(beanstalkdMetrics{v, tubes, match})
	promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(c.w, c.r)
	return nil
}

type beanstalkdMetrics struct {
	server *admin.Sample
	tubes  *admin.TubeSample
	match  *glob
}

// Describe implements prometheus.Collector.
func (m beanstalkdMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m beanstalkdMetrics) Collect(out chan<- prometheus.Metric) {
	e := emitter{out, beanstalkdPrefix}
	v := m.server
	counts := make(map[string]uint64)
	for _, p := range v.Commands {
		for _, k := range p.Kinds {
			counts[k.Name] = k.Count
		}
	}
	e.gauge("up", "Whether beanstalkd answers; always 1.", 1, nil)
	for _, name := range beanstalkdCommands {
		e.counter("cmd_"+strings.ReplaceAll(name, "-", "_")+"_total", "Commands "+name+" so far.", float64(counts["cmd-"+name]), nil)
	}
	for _, g := range []struct {
		name string
		n    uint64
	}{
		{"current_connections", uint64(v.Sums.Connections)}, {"current_jobs_buried", v.Jobs.Buried},
		{"current_jobs_delayed", v.Jobs.Delayed}, {"current_jobs_ready", v.Jobs.Ready},
		{"current_jobs_reserved", v.Jobs.Reserved}, {"current_jobs_urgent", v.Jobs.Urgent},
		{"current_producers", uint64(v.Sums.Producers)}, {"current_tubes", uint64(v.Tubes)},
		{"current_waiting", uint64(v.Sums.Waiting)}, {"current_workers", uint64(v.Sums.Workers)},
		{"job_timeouts", v.Jobs.Timeouts}, {"total_connections", v.Sums.TotalConnections}, {"total_jobs", v.Jobs.Total},
	} {
		e.gauge(g.name+"_count", "As "+strings.ReplaceAll(g.name, "_", "-")+" in stats.", float64(g.n), nil)
	}
	for i := range m.tubes.Rows {
		if t := &m.tubes.Rows[i]; m.match.matches(t.Name) {
			e.tube(t)
		}
	}
}

// tube emits what the exporter has about a tube.
func (e emitter) tube(t *core.TubeStats) {
	name := shownLabel(t.Name)
	tube := label{"tube"}
	e.counter("tube_cmd_delete_total", "Jobs deleted in the tube.", float64(t.Deletes), tube, name)
	e.counter("tube_cmd_pause_tube_total", "Times that the tube was paused.", float64(t.Pauses), tube, name)
	for _, g := range []struct {
		name string
		n    uint64
	}{
		{"current_jobs_buried", t.Buried}, {"current_jobs_delayed", t.Delayed}, {"current_jobs_ready", t.Ready},
		{"current_jobs_reserved", t.Reserved}, {"current_jobs_urgent", t.Urgent}, {"current_using", t.Using},
		{"current_waiting", t.Waiting}, {"current_watching", t.Watching}, {"total_jobs", t.Total},
	} {
		e.gauge("tube_"+g.name+"_count", "As "+strings.ReplaceAll(g.name, "_", "-")+" in stats-tube.", float64(g.n), tube, name)
	}
	e.counter("tube_pause_seconds_total", "For how long the tube is paused in all.", float64(t.Pause/core.Second), tube, name)
	e.counter("tube_pause_time_left_seconds_total", "For how long the tube is still paused.", float64(t.PauseLeft/core.Second), tube, name)
}
