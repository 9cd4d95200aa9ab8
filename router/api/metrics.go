package api

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
	"polystalk/router/web"
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

func newMetrics(a *API) *metrics {
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
		m.requests, m.seconds, &serverMetrics{a},
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
func (a *API) showMetrics(c *web.Call) error {
	a.metrics.handler.ServeHTTP(c.W, c.R)
	return nil
}

// showTubes serves /metrics/tubes: all tubes, or those that match=GLOB says, with the
// families of the groups in family=, else with all.
func (a *API) showTubes(c *web.Call) error {
	q, err := c.Query("match", "family")
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
	all, err := a.op.Tubes(c.Ctx)
	if err != nil {
		return err
	}
	leave, err := a.Heavy(c.Ctx) // while it is made; not while it is sent, for as long as a client likes
	if err != nil {
		return err
	}
	defer func() {
		if leave != nil {
			leave()
		}
	}()
	out := c.Stream(openmetrics.ContentType)
	page := exposition.Page{Operator: a.op, Sample: all, Wanted: match.matches, Groups: groups, Part: func(made []byte) ([]byte, bool) {
		if out.Buf = made; len(made) < web.StreamPart {
			return made, true
		}
		leave()
		goOn := out.Flush()
		if leave, err = a.Heavy(c.Ctx); err != nil {
			leave = nil
		}
		return out.Buf, goOn && leave != nil
	}}
	if err := page.Write(c.Ctx); err != nil || leave == nil {
		panic(http.ErrAbortHandler) // it has begun: an end would say that it is all
	}
	leave()
	leave = nil
	out.End()
	return nil
}

// build are the labels of build_info.
func (a *API) build() []string {
	return []string{a.opts.Version, runtime.Version(), a.opts.Speaks}
}
