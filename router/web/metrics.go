package web

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	wire "polystalk/codec/admin"
	"polystalk/codec/openmetrics"
	"polystalk/router/exposition"
)

// metrics are what /metrics shows: constant metrics over one sample, what is counted here
// about HTTP itself, and the process's and the runtime's own.
type metrics struct {
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// The prefix of all names but the library's.
const namespace = "polystalk"

func newMetrics(s *Server) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "http_requests_total", Help: "Requests by HTTP, by route.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "http_request_seconds", Help: "Time to serve a request by HTTP.",
			Buckets: prometheus.ExponentialBuckets(1.0/4096, 4, 9),
		}, []string{"route"}),
	}
	r := prometheus.NewRegistry()
	r.MustRegister(
		m.requests, m.seconds, &serverMetrics{s},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.handler = promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError, EnableOpenMetrics: true,
	})
	return m
}

// served counts a request. A method that is none of ours has no label of its own: those who
// ask could make as many as they like.
func (m *metrics) served(route, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// showMetrics serves /metrics.
func (s *Server) showMetrics(c *call) error {
	s.metrics.handler.ServeHTTP(c.w, c.r)
	return nil
}

// showTubes serves /metrics/tubes: all tubes, or those that match=GLOB says, with the
// families of the groups in family=, else with all.
func (s *Server) showTubes(c *call) error {
	q, err := c.query("match", "family")
	if err != nil {
		return err
	}
	match, err := newGlob(q.Get("match"))
	if err != nil {
		return err
	}
	groups := exposition.Groups
	if q.Has("family") {
		groups = strings.Split(q.Get("family"), ",")
	}
	for _, g := range groups {
		if !slices.Contains(exposition.Groups, g) {
			return wire.BadRequest.With("family", fmt.Sprintf("%q is unknown", g), "give some of "+strings.Join(exposition.Groups, ", ")+", with commas between them")
		}
	}
	all, err := s.op.Tubes(c.ctx)
	if err != nil {
		return err
	}
	if err := s.heavy.enter(c.ctx); err != nil {
		return err
	}
	entered := true // while it is made; not while it is sent, for as long as a client likes
	leave := func() {
		if entered {
			entered = false
			s.heavy.leave()
		}
	}
	defer leave()
	out := c.stream(openmetrics.ContentType)
	page := exposition.Page{Operator: s.op, Sample: all, Wanted: match.matches, Groups: groups, Part: func(made []byte) ([]byte, bool) {
		if out.buf = made; len(made) < streamPart {
			return made, true
		}
		leave()
		goOn := out.flush()
		entered = s.heavy.enter(c.ctx) == nil
		return out.buf, goOn && entered
	}}
	if err := page.Write(c.ctx); err != nil || !entered {
		panic(http.ErrAbortHandler) // it has begun: an end would say that it is all
	}
	leave()
	out.end()
	return nil
}

// build are the labels of build_info.
func (s *Server) build() []string {
	return []string{s.opts.Version, runtime.Version(), s.opts.Speaks}
}
