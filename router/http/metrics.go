package http

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/router/session"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// metrics serves /metrics: constant metrics made from one sample, and the counters of HTTP, of
// the process and of Go's runtime.
type metrics struct {
	api      *API
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	shows    func(tube string) bool // what the client of this scrape may look at; set in the slot of scrapes
}

func newMetrics(a *API) *metrics {
	m := &metrics{
		api: a,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "http_requests_total", Help: "HTTP requests.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metricPrefix + "http_request_seconds", Help: "Time to serve an HTTP request.",
			Buckets: prometheus.ExponentialBuckets(1.0/4096, 4, 9),
		}, []string{"route"}),
	}
	gauge := func(name, help string, n func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: metricPrefix + name, Help: help}, func() float64 { return float64(n()) })
	}
	r := prometheus.NewRegistry()
	r.MustRegister(
		m, m.requests, m.seconds,
		gauge("http_event_streams", "Open event streams.", func() int { return len(a.streams) }),
		gauge("http_connections", "Open HTTP connections.", a.connections.len),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: metricPrefix + "http_connections_dropped_total", Help: "HTTP connections closed to make room for others.",
		}, func() float64 { return float64(a.connections.dropped.Load()) }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.handler = promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError, EnableOpenMetrics: true,
	})
	return m
}

// served counts a request. Unknown methods share a label, since clients can invent any number.
func (m *metrics) served(route, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// recentTubes returns the tubes for a scrape. It uses the last sample of the history, so that a
// scrape needs no other sample.
func (a *API) recentTubes(ctx context.Context) (*admin.TubeSample, error) {
	return a.op.Tubes(ctx, max(admin.TubesFor, a.watch.Steady()))
}

// showMetrics serves /metrics.
func (a *API) showMetrics(c *call) error {
	a.metrics.shows = c.mayLook
	a.metrics.handler.ServeHTTP(c.W, c.R)
	return nil
}

// showTubes serves /metrics/tubes. It holds the slot of scrapes while it renders a part, but not
// while it sends the part.
func (a *API) showTubes(c *call) error {
	match, err := newGlob(c.Query.Get("match"))
	if err != nil {
		return err
	}
	groups := metricGroups
	if c.Query.Has("family") {
		groups = strings.Split(c.Query.Get("family"), ",")
	}
	for _, g := range groups {
		if !slices.Contains(metricGroups, g) {
			return wire.BadRequest.With("family", fmt.Sprintf("%q is unknown", g), "give some of "+strings.Join(metricGroups, ", ")+", separated by commas")
		}
	}
	all, err := a.recentTubes(c.Ctx)
	if err != nil {
		return err
	}
	leave, err := a.scrapes.take(c.Ctx)
	if err != nil {
		return err
	}
	defer func() {
		if leave != nil {
			leave()
		}
	}()
	out := c.begin(metricsType)
	p := tubePage{operator: a.op, sample: all, groups: groups}
	for i := range all.Rows {
		if name := all.Rows[i].Name; match(name) && c.mayLook(name) {
			p.rows = append(p.rows, i)
		}
	}
	p.part = func(made []byte) ([]byte, bool) {
		if out.buf = made; len(made) < streamPart {
			return made, true
		}
		leave()
		leave = nil
		more := out.flush()
		leave, err = a.scrapes.take(c.Ctx) // nil after an error
		return out.buf, more && leave != nil
	}
	if p.write(c.Ctx) != nil || leave == nil {
		panic(http.ErrAbortHandler) // the client must see that the answer is incomplete
	}
	leave()
	leave = nil
	out.end()
	return nil
}

// To add a metric: count it where it happens (a counter of a loop in router/session/stats.go, a
// field of shard.Counters), emit it here, and add a row to the table in cmd/manual/guide/monitoring.md.

// An emitter makes constant metrics. A name must always have the same help and labels.
type emitter struct{ out chan<- prometheus.Metric }

// label has the names of the labels of a family.
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

// gauges emits a family with one label: n[i] has the label value values[i].
func gauges[N int64 | uint64](e emitter, name, help, of string, values []string, n ...N) {
	for i, v := range values {
		e.gauge(name, help, float64(n[i]), label{of}, v)
	}
}

// oneOf emits a family that is 1 for one value of its label, and 0 for the others.
func (e emitter) oneOf(name, help, of, is string, values ...string) {
	for _, v := range values {
		e.gauge(name, help, truth(v == is), label{of}, v)
	}
}

// ofMember emits a gauge of a member of the cluster, unless v is nil: unknown.
func ofMember[N int64 | uint64 | float64](e emitter, name, help string, v *N, m *wire.ClusterMember) {
	if v != nil {
		e.gauge(name, help, float64(*v), label{"node"}, m.Name)
	}
}

// descriptions caches each *prometheus.Desc by name: making one takes longer than its metric.
var descriptions sync.Map

func describe(name, help string, labels label) *prometheus.Desc {
	if d, ok := descriptions.Load(name); ok {
		return d.(*prometheus.Desc)
	}
	d, _ := descriptions.LoadOrStore(name, prometheus.NewDesc(metricPrefix+name, help, labels, nil))
	return d.(*prometheus.Desc)
}

// truth returns 1 for true.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// flow emits a histogram of job times, with all its bounds.
func (e emitter) flow(name, help string, t *stats.Times) {
	bound := func(b int) float64 { return stats.FlowBound(b) / 1e9 }
	e.histogram(name, help, t.N[:], t.Sum/1e9, bound, 0, stats.FlowBuckets-2)
}

// histogram emits a histogram with the bounds from first to last, in the unit of scale and sum.
func (e emitter) histogram(name, help string, counts []uint64, sum float64, scale func(bucket int) float64, first, last int) {
	buckets := make(map[float64]uint64, last-first+1)
	n := uint64(0)
	for b, k := range counts {
		n += k
		if b >= first && b <= last {
			buckets[scale(b)] = n
		}
	}
	e.out <- prometheus.MustNewConstHistogram(describe(name, help, nil), n, sum, buckets)
}

// The first and last bucket bounds shown for syncs (61 µs to 16 s), commits (1 to 65536
// records) and operators' steps (3.8 µs to 1 s).
const (
	firstSync   = 2
	lastSync    = 11
	firstCommit = 0
	lastCommit  = 8
	firstStep   = 0
	lastStep    = 9
)

// metricsWithin is the timeout for a sample. After it, the sample's families are missing.
const metricsWithin = 5 * time.Second

// Describe implements prometheus.Collector. It describes nothing in advance: some families
// depend on whether there is a journal.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. It emits the server and a bounded number of tubes.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	e, op := emitter{out}, m.api.op
	e.gauge("build_info", "Version of the program; always 1.", 1, label{"version", "goversion", "speaks"}, m.api.opts.Version, runtime.Version(), m.api.opts.Speaks)
	e.gauge("ready", "1 if the server is ready for clients, as /readyz says.", truth(op.Readiness().Status == "ok"), nil)
	e.gauge("draining", "1 while the server refuses new jobs.", truth(op.Draining()), nil)
	e.gauge("start_time_seconds", "Start time of the server, in Unix time.", float64(op.Started().UnixNano())/1e9, nil)
	e.operators(op)
	e.tls(op.Handshakes())
	if ids := m.api.opts.Access; ids != nil {
		e.identities(ids, op.Used)
	}
	for use, at := range m.api.opts.CertificateEnds() {
		e.gauge("tls_certificate_not_after_seconds", "Expiry of the certificate that clients (clients) or operators (http) see, in Unix time.", float64(at.Unix()), label{"use"}, use)
	}
	if j, pressure := op.Kept(); j != nil {
		e.journal(j, pressure)
	}
	if k, err := op.ClusterStatus(); err == nil {
		commits := op.ClusterCommits()
		e.cluster(k, &commits)
	}
	ctx, cancel := context.WithTimeout(m.api.ended, metricsWithin)
	defer cancel()
	if v, err := op.Sample(ctx, admin.SampleFor); err == nil {
		e.jobs(v)
		e.clients(v)
		e.inside(v)
	}
	if all, err := m.api.recentTubes(ctx); err == nil {
		m.tubes(ctx, e, all)
	}
}

// tubes emits the sums over all tubes, and the metrics of the chosen ones.
func (m *metrics) tubes(ctx context.Context, e emitter, all *admin.TubeSample) {
	var bytes uint64
	var oldest core.Time
	for i := range all.Rows {
		bytes += all.Rows[i].Bytes
		oldest = max(oldest, all.Rows[i].Oldest)
	}
	e.gauge("job_body_bytes", "Size of all job bodies.", float64(bytes), nil)
	e.gauge("oldest_ready_age_seconds", "Age of the oldest ready job; 0 if there is none.", float64(oldest)/float64(core.Second), nil)
	chosen := slices.DeleteFunc(slices.Clone(m.api.shown.Of(all)), func(i int) bool { return !m.shows(all.Rows[i].Name) })
	e.gauge("metrics_tubes_omitted", "Tubes with metrics that are left out of this page.", float64(len(all.Rows)-len(chosen)), nil)
	for _, i := range chosen {
		t, err := m.api.op.View(ctx, all, i)
		if err != nil {
			return
		}
		e.tube(&t)
	}
}

func (e emitter) jobs(v *admin.Sample) {
	j := &v.Jobs
	gauges(e, "jobs", "Jobs, by state.", "state", []string{"ready", "delayed", "reserved", "buried"}, j.Ready, j.Delayed, j.Reserved, j.Buried)
	e.gauge("jobs_urgent", "Ready jobs with a priority below 1024.", float64(v.Jobs.Urgent), nil)
	e.gauge("tubes", "Number of tubes.", float64(v.Tubes), nil)
	e.gauge("memory_mapped_bytes", "Memory of jobs and their bodies outside the garbage collector's heap.", float64(v.Jobs.MappedBytes), nil)
	event := func(name string, n uint64) {
		e.counter("job_events_total", "Job events.", float64(n), label{"event"}, name)
	}
	f := &v.Flow
	event("put", f.Puts)
	event("delete", f.Deletes)
	for i, name := range admin.EventNames {
		event(name, f.Events[i])
	}
	e.flow("job_wait_seconds", "Time that jobs were ready before they were reserved.", &f.Wait)
	e.flow("job_run_seconds", "Length of reservations, however they ended.", &f.Run)
}

// The first and last bucket bounds shown for TLS handshakes: 1 ms to 4 s.
const (
	firstHandshake = 4
	lastHandshake  = 10
)

// tls emits the TLS handshakes of clients.
func (e emitter) tls(h *session.Handshakes) {
	for i := range h.Results {
		e.counter("tls_handshakes_total", "TLS handshakes of clients, by their end.", float64(h.Results[i].Load()), label{"result"}, session.HandshakeResult(i).String())
	}
	e.gauge("tls_pending", "TLS handshakes of clients in progress.", float64(h.Pending.Load()), nil)
	took := h.Seconds.Read()
	e.histogram("tls_handshake_seconds", "Time from accepting a client to the end of its TLS handshake, with what it waits.", took.N[:], float64(took.Sum)/1e9,
		stats.HistogramSeconds, firstHandshake, lastHandshake)
}

// clients emits the connections of the protocols, and their commands.
func (e emitter) clients(v *admin.Sample) {
	for _, p := range v.Commands {
		e.gauge("connections", "Open client connections, without HTTP.", float64(p.Open), label{"protocol"}, p.Name)
		e.counter("connections_accepted_total", "Accepted client connections.", float64(p.Accepted), label{"protocol"}, p.Name)
	}
	e.gauge("connections_limit", "Largest number of open client connections.", float64(v.Connections), nil)
	for i, n := range v.Sums.Rejected {
		e.counter("connections_rejected_total", "Rejected client connections.", float64(n), label{"reason"}, session.Rejection(i).String())
	}
	s := v.Sums
	gauges(e, "clients", "Connections that have put a job (producer), have reserved a job (worker) or wait for one (waiting), and Gearman workers that sleep until there is one (sleeping).",
		"role", []string{"producer", "worker", "waiting", "sleeping"}, s.Producers, s.Workers, s.Waiting, s.Sleeping)
	for _, p := range v.Commands {
		for _, c := range p.Kinds {
			e.counter("commands_total", "Well-formed commands.", float64(c.Count), label{"protocol", "command"}, p.Name, c.Name)
		}
		for _, c := range p.Errors {
			e.counter("command_errors_total", "Error replies.", float64(c.Count), label{"protocol", "error"}, p.Name, c.Name)
		}
	}
}

// tallies are the shown counters of the event loops.
var tallies = map[session.Counter]struct{ name, help string }{
	session.CountReceived: {"network_received_bytes_total", "Bytes received from clients."},
	session.CountSent:     {"network_sent_bytes_total", "Bytes sent to clients."},
	session.CountDeferred: {"turns_deferred_total", "Times that a connection yielded its turn to others."},
	session.CountBehind:   {"sockets_behind_total", "Times that a socket did not accept a whole reply."},
	session.CountPauses:   {"input_pauses_total", "Times that reading from a connection was paused because it sent too far ahead."},
	session.CountVisits:   {"shard_visits_total", "Times that an event loop acquired a shard."},
	session.CountBusy:     {"shard_busy_total", "Times that an event loop found a shard owned by another loop."},
	session.CountLeft:     {"inbox_sent_total", "Operations sent to the inbox of a busy shard."},
}

// inside emits the event loops and shards.
func (e emitter) inside(v *admin.Sample) {
	e.gauge("event_loops", "Number of event loops.", float64(v.Loops), nil)
	e.gauge("shards", "Number of shards.", float64(len(v.Shards)), nil)
	for i, n := range v.Sums.Counters {
		if t, ok := tallies[session.Counter(i)]; ok {
			e.counter(t.name, t.help, float64(n), nil)
		}
	}
	most := uint64(0)
	for _, c := range v.Shards {
		most = max(most, c.Deepest)
	}
	e.gauge("inbox_depth_max", "Largest number of operations that waited for a shard at once.", float64(most), nil)
}

func (e emitter) journal(j *commit.Stats, pressure commit.Pressure) {
	gauges(e, "journal_bytes", "Size of the journal: its files, their live records, records not written yet, and reserved space for incoming bodies.",
		"kind", []string{"files", "live", "pending", "promised"}, j.Bytes, j.Live, j.Pending, j.Promised)
	e.gauge("journal_room_bytes", "Bytes that can still be written, in files and on the disk.", float64(j.Room), nil)
	e.gauge("journal_segments", "Number of journal files.", float64(j.Segments), nil)
	e.counter("journal_batches_total", "Batches written since the journal was made.", float64(j.Batches), nil)
	e.counter("journal_records_total", "Records written.", float64(j.Records), nil)
	e.counter("journal_written_bytes_total", "Bytes written.", float64(j.Written), nil)
	e.counter("journal_migrated_records_total", "Records written again by compaction.", float64(j.Migrated), nil)
	e.histogram("journal_commit_records", "Records per commit.", j.Sizes.N[:], float64(j.Sizes.Sum), stats.HistogramBound, firstCommit, lastCommit)
	e.histogram("journal_sync_seconds", "Time of each sync to disk.", j.Syncs.N[:], float64(j.Syncs.Sum)/1e9, stats.HistogramSeconds, firstSync, lastSync)
	names := []string{commit.Open: "open", commit.Wait: "wait", commit.Full: "full"}
	e.oneOf("journal_pressure", "1 for the current state: open, wait (the disk is behind) or full.", "state", names[pressure], names...)
}

// operators emits the operations of operators.
func (e emitter) operators(op *admin.Operator) {
	steps := op.Steps()
	e.histogram("operator_step_seconds", "Time that one step of an operator's operation owned a shard.", steps.N[:], float64(steps.Sum)/1e9, stats.HistogramSeconds, firstStep, lastStep)
	operations, jobs := op.ActionCounts()
	for of, n := range operations {
		e.counter("operator_operations_total", "Operators' operations, by result: done, or the type of the problem.", float64(n), label{"action", "result"}, of[:]...)
	}
	for of, n := range jobs {
		e.counter("operator_jobs_total", "Jobs that operators changed or skipped.", float64(n), label{"action", "result"}, of[:]...)
	}
}

// cluster emits the state of the cluster. Only the leader knows some of it.
func (e emitter) cluster(k *wire.Cluster, commits *stats.Counts) {
	e.oneOf("cluster_role", "1 for the server's role: leader, candidate or follower.", "role", k.Role, "leader", "candidate", "follower")
	e.gauge("cluster_has_leader", "1 if the server knows a leader.", truth(k.Leader != nil), nil)
	e.gauge("cluster_lease", "1 if the server leads and no other server can.", truth(k.Lease), nil)
	e.gauge("cluster_term", "Number of the term; each leader has its own.", float64(k.Term), nil)
	gauges(e, "cluster_index", "Index of the last log entry on this disk, on the disks of a majority, and applied to this server's jobs.",
		"at", []string{"last", "committed", "applied"}, k.LastIndex, k.CommittedIndex, k.AppliedIndex)
	e.histogram("cluster_commit_seconds", "Time until a majority had a change on disk, on the leader.", commits.N[:], float64(commits.Sum)/1e9, stats.HistogramSeconds, firstSync, lastSync)
	e.gauge("cluster_outstanding_entries", "Proposed entries that are not committed.", float64(k.Outstanding.Entries), nil)
	e.gauge("cluster_outstanding_bytes", "Size of the proposed entries that are not committed.", float64(k.Outstanding.Bytes), nil)
	count := func(name, help string, n uint64) { e.counter("cluster_"+name+"_total", help, float64(n), nil) }
	t := &k.Totals
	count("leader_changes", "Leader changes that the server has seen.", t.LeaderChanges)
	count("lease_lapses", "Times that the leader lost its lease, so that replies had to wait.", t.LeaseLapses)
	count("fetches", "Times that another server was told to fetch the journal.", t.Fetches)
	count("forwarded", "Client connections forwarded to a leader.", t.Forwarded)
	kinds := make(map[string]int)
	for i := range k.Members {
		kinds[k.Members[i].Kind]++
		e.member(&k.Members[i], k.Members[i].Name == k.Node)
	}
	for _, kind := range []string{wire.MemberVotes, wire.MemberJoins, wire.MemberStandby} {
		e.gauge("cluster_members", "Servers of the cluster: voters, joining servers, and standbys.", float64(kinds[kind]), label{"kind"}, kind)
	}
}

// member emits one member.
func (e emitter) member(m *wire.ClusterMember, self bool) {
	node := label{"node"}
	ofMember(e, "cluster_match_index", "Index of the last log entry on a server's disk, as the leader knows.", m.MatchIndex, m)
	ofMember(e, "cluster_lag_entries", "Replication lag of a server, in entries.", m.LagEntries, m)
	ofMember(e, "cluster_lag_seconds", "Replication lag of a server.", m.LagSeconds, m)
	ofMember(e, "cluster_room_bytes", "Bytes that a server can still write to its journal, as it reports.", m.RoomBytes, m)
	if m.RoomBytes != nil {
		e.gauge("cluster_disk_full", "1 if a server's disk has no space for changes.", truth(m.DiskFull), node, m.Name)
	}
	if m.AccessDigest != nil {
		e.gauge("cluster_access_differs", "1 if a server has other rules in its access file than the leader.", truth(m.AccessDiffers), node, m.Name)
	}
	if self {
		if m.CertificateNotAfter != nil {
			e.gauge("cluster_certificate_not_after_seconds", "Expiry of the server's own certificate, in Unix time.", float64(m.CertificateNotAfter.Unix()), nil)
		}
		return
	}
	e.gauge("cluster_connected", "1 if the server can send to another one.", truth(m.Connected), node, m.Name)
	ofMember(e, "cluster_clock_ahead_seconds", "Time by which another server's clock is ahead of this server's clock.", m.ClockAheadSeconds, m)
	e.counter("cluster_sent_bytes_total", "Bytes of messages sent to a server.", float64(m.SentBytes), node, m.Name)
	e.counter("cluster_received_bytes_total", "Bytes of messages received from a server.", float64(m.ReceivedBytes), node, m.Name)
	e.counter("cluster_dropped_messages_total", "Messages to a server that were dropped, because it did not read or was not connected.", float64(m.Dropped), node, m.Name)
}
