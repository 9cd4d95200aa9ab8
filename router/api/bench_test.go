package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"polystalk/router/access"
)

// tubesOf has that many tubes with a job each.
func (w *world) tubesOf(n int) {
	w.t.Helper()
	for i := range n {
		if _, err := w.srv.Operator().Put(context.Background(), newJob(fmt.Sprintf("tube-%05d", i), "x")); err != nil {
			w.t.Fatal(err)
		}
	}
}

// BenchmarkPages is what pages cost with 50,000 tubes: /metrics, which shows some of them, the
// first part of their list, and all of them with our names and the exporter's. Who asks often
// shares a sample, which is made anew where it says so. cpu-ms is of the whole process, the
// collector included.
func BenchmarkPages(b *testing.B) {
	w := newWorld(b, setup{anonymous: access.Operate})
	w.tubesOf(50_000)
	w.used(50_000)
	for _, page := range []struct {
		name, target, accept, encoding string
		anew                           bool
	}{
		{name: "metrics", target: "/metrics"},
		{name: "metrics-anew", target: "/metrics", anew: true},
		{name: "metrics-gzip", target: "/metrics", encoding: "gzip"},
		{name: "metrics-openmetrics", target: "/metrics", accept: "application/openmetrics-text; version=1.0.0"},
		{name: "list-of-tubes", target: "/api/v1/tubes?sort=-ready"},
		{name: "metrics-beanstalkd", target: "/metrics/beanstalkd"},
		{name: "metrics-tubes", target: "/metrics/tubes"},
		{name: "metrics-tubes-gzip", target: "/metrics/tubes", encoding: "gzip"},
		{name: "livez", target: "/livez"},
	} {
		b.Run(page.name, func(b *testing.B) {
			b.ReportAllocs()
			n, cpu := 0, time.Duration(0)
			for b.Loop() {
				if page.anew {
					b.StopTimer()
					time.Sleep(2100 * time.Millisecond)
					b.StartTimer()
				}
				r := httptest.NewRequest("GET", page.target, nil)
				r.Host = "localhost"
				r.Header.Set("Authorization", "Bearer "+adminToken)
				r.Header.Set("Accept", page.accept)
				r.Header.Set("Accept-Encoding", page.encoding)
				got := &counted{header: make(http.Header)}
				before := processorTime(b)
				w.web.ServeHTTP(got, r)
				cpu += processorTime(b) - before
				if got.status != 200 {
					b.Fatal(got.status)
				}
				n = got.bytes
			}
			b.ReportMetric(float64(n), "bytes")
			b.ReportMetric(cpu.Seconds()*1000/float64(b.N), "cpu-ms")
		})
	}
}

// processorTime is what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A counted answer is thrown away, so that keeping it is not measured.
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

// used has a job of each of the first tubes reserved, so that they have histograms.
func (w *world) used(n int) {
	w.t.Helper()
	conn := w.connect(w.srv.Serve)
	r := bufio.NewReader(conn)
	for i := range n {
		fmt.Fprintf(conn, "watch tube-%05d\r\nreserve\r\nignore tube-%05d\r\n", i, i)
		for range 4 { // one of them is the body
			if _, err := r.ReadString('\n'); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if v, err := w.srv.Operator().Sample(context.Background()); err != nil || v.Jobs.Reserved != uint64(n) {
		w.t.Fatal(v.Jobs, err)
	}
}
