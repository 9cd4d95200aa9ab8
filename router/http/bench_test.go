package http

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"syscall"
	"testing"

	"polystalk/router/admin"
)

// tubesOf makes n tubes with a job each.
func (w *world) tubesOf(n int) {
	w.t.Helper()
	for i := range n {
		_, err := w.srv.Operator().Put(context.Background(), newJob(fmt.Sprintf("tube-%05d", i), "x"))
		noErr(w.t, err)
	}
}

// BenchmarkPages measures pages with 50,000 tubes: /metrics with some of them, the first part of
// their list, and all of them as text. Frequent requests share a sample. cpu-ms is the CPU time of
// the whole process with its garbage collector. It fails if a mean misses its goal.
func BenchmarkPages(b *testing.B) {
	w := newWorld(b, setup{anonymous: "operate"})
	w.tubesOf(50_000)
	w.used(50_000)
	for _, page := range []struct {
		name, target, accept, encoding string
		goal                           cost // zero: there is none
	}{
		{name: "metrics", target: "/metrics", goal: cost{1.2e6, 30, 8e6}},
		{name: "metrics-gzip", target: "/metrics", encoding: "gzip", goal: cost{bytes: 100e3}},
		{name: "metrics-openmetrics", target: "/metrics", accept: "application/openmetrics-text; version=1.0.0", goal: cost{1.2e6, 30, 8e6}},
		{name: "list-of-tubes", target: "/api/v1/tubes?sort=-ready"},
		{name: "metrics-tubes", target: "/metrics/tubes", goal: cost{0, 400, 8e6}},
		{name: "metrics-tubes-gzip", target: "/metrics/tubes", encoding: "gzip"},
		{name: "livez", target: "/livez"},
	} {
		b.Run(page.name, func(b *testing.B) {
			got := &counted{header: make(http.Header)}
			ask := func() {
				r := httptest.NewRequest("GET", page.target, nil)
				r.Host = "localhost"
				r.Header.Set("Authorization", "Bearer "+adminToken)
				r.Header.Set("Accept", page.accept)
				r.Header.Set("Accept-Encoding", page.encoding)
				clear(got.header)
				w.web.ServeHTTP(got, r)
				require(b, got.status == 200, "status %d", got.status)
			}
			ask() // makes a sample
			got.bytes = 0
			before := usedSoFar(b)
			for b.Loop() {
				ask()
			}
			after := usedSoFar(b)
			for _, c := range []struct {
				unit      string
				sum, goal float64
			}{
				{"bytes", float64(got.bytes), page.goal.bytes}, {"cpu-ms", after.cpu - before.cpu, page.goal.cpu},
				{"allocated", after.allocated - before.allocated, page.goal.allocated},
			} {
				mean := c.sum / float64(b.N)
				b.ReportMetric(mean, c.unit)
				expect(b, c.goal == 0 || mean <= c.goal, "%s: %.0f %s, the goal is %.0f", page.name, mean, c.unit, c.goal)
			}
		})
	}
}

// A cost is the size of a page, and the resources that the process has used for it: CPU time in
// milliseconds, and bytes of the heap.
type cost struct{ bytes, cpu, allocated float64 }

func usedSoFar(b *testing.B) cost {
	var u syscall.Rusage
	noErr(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cost{cpu: float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6, allocated: float64(m.TotalAlloc)}
}

// A counted answer is discarded, so that storing it is not measured.
type counted struct {
	header        http.Header
	status, bytes int
}

func (w *counted) Header() http.Header    { return w.header }
func (w *counted) WriteHeader(status int) { w.status = status }

func (w *counted) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.bytes += len(p)
	return len(p), nil
}

// used reserves a job of each of the first tubes, so that they have histograms.
func (w *world) used(n int) {
	w.t.Helper()
	conn := w.connect(w.srv.Serve)
	r := bufio.NewReader(conn)
	for i := range n {
		fmt.Fprintf(conn, "watch tube-%05d\r\nreserve\r\nignore tube-%05d\r\n", i, i)
		for range 4 { // one of them is the body
			_, err := r.ReadString('\n')
			noErr(w.t, err)
		}
	}
	if v, err := w.srv.Operator().Sample(context.Background(), admin.SampleFor); err != nil || v.Jobs.Reserved != uint64(n) {
		w.t.Fatal(v.Jobs, err)
	}
}
