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

// metrics are what /metrics shows: constant metrics over one sample, what is counted here
// about HTTP itself, and the process's and the runtime's own.
type metrics struct {
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(a *API) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: Prefix + "http_requests_total", Help: "Requests by HTTP, by route.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: Prefix + "http_request_seconds", Help: "Time to serve a request by HTTP.",
			Buckets: prometheus.ExponentialBuckets(1.0/4096, 4, 9),
		}, []string{"route"}),
	}
	streams := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: Prefix + "http_event_streams", Help: "Streams of events that are open.",
	}, func() float64 { return float64(a.watch.Subscriptions()) })
	connections := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: Prefix + "http_connections", Help: "Connections by HTTP.",
	}, func() float64 {
		open, _ := a.Connections()
		return float64(open)
	})
	dropped := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: Prefix + "http_connections_dropped_total", Help: "Connections by HTTP that were closed for others.",
	}, func() float64 {
		_, dropped := a.Connections()
		return float64(dropped)
	})
	r := prometheus.NewRegistry()
	r.MustRegister(
		m.requests, m.seconds, streams, connections, dropped,
		&serverMetrics{Operator: a.op, Tubes: a.recentTubes, Shown: a.shown, Ended: a.Ended(), Version: a.opts.Version, Speaks: a.opts.Speaks},
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
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// scrapedWithin is how old the tubes are at most that scrapers are shown where nobody else
// looks at them.
const scrapedWithin = 2 * time.Second

// recentTubes are the tubes that scrapers are shown: those that the history has looked at, if
// there is one, so that a scrape looks at nothing.
func (a *API) recentTubes(ctx context.Context) (*admin.TubeSample, error) {
	return a.op.TubesWithin(ctx, max(scrapedWithin, a.watch.Steady()))
}

// showMetrics serves /metrics.
func (a *API) showMetrics(c *Call) error {
	a.metrics.handler.ServeHTTP(c.W, c.R)
	return nil
}

// showTubes serves /metrics/tubes: all tubes, or those that match=GLOB says, with the
// families of the groups in family=, else with all.
func (a *API) showTubes(c *Call) error {
	q, err := c.Query("match", "family")
	if err != nil {
		return err
	}
	match, err := newGlob(q.Get("match"))
	if err != nil {
		return err
	}
	groups := Groups
	if q.Has("family") {
		groups = strings.Split(q.Get("family"), ",")
	}
	for _, g := range groups {
		if !slices.Contains(Groups, g) {
			return wire.BadRequest.With("family", fmt.Sprintf("%q is unknown", g), "give some of "+strings.Join(Groups, ", ")+", with commas between them")
		}
	}
	all, err := a.recentTubes(c.Ctx)
	if err != nil {
		return err
	}
	return a.page(c, func(part Part) error {
		page := Page{Operator: a.op, Sample: all, Wanted: match.matches, Groups: groups, Part: part}
		return page.Write(c.Ctx)
	})
}

// page sends what write makes. It has the place of scrapes while it makes something, and none while
// it sends that, for as long as a client takes within the time of an operation.
func (a *API) page(c *Call, write func(part Part) error) error {
	leave, err := a.Scrape(c.Ctx)
	if err != nil {
		return err
	}
	defer func() {
		if leave != nil {
			leave()
		}
	}()
	out := c.Stream(ContentType)
	err = write(func(made []byte) ([]byte, bool) {
		if out.Buf = made; len(made) < StreamPart {
			return made, true
		}
		leave()
		leave = nil
		goOn := out.Flush()
		if leave, err = a.Scrape(c.Ctx); err != nil {
			leave = nil
		}
		return out.Buf, goOn && leave != nil
	})
	if err != nil || leave == nil {
		panic(http.ErrAbortHandler) // it has begun: an end would say that it is all
	}
	leave()
	leave = nil
	out.End()
	return nil
}
