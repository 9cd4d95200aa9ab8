package http

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
)

// metrics serves /metrics: constant metrics made from one sample, and the counters of HTTP, of
// the process and of Go's runtime.
type metrics struct {
	api      *API
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
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
		gauge("http_event_streams", "Open event streams.", a.watch.Subscriptions),
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

// scrapedWithin is the largest age of the tubes in a scrape when no history is kept.
const scrapedWithin = 2 * time.Second

// recentTubes returns the tubes for a scrape. It uses the last sample of the history, so that a
// scrape needs no other sample.
func (a *API) recentTubes(ctx context.Context) (*admin.TubeSample, error) {
	return a.op.TubesWithin(ctx, max(scrapedWithin, a.watch.Steady()))
}

// showMetrics serves /metrics.
func (a *API) showMetrics(c *call) error {
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
		if match(all.Rows[i].Name) {
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
