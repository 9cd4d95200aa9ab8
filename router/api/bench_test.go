package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
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

// BenchmarkPages is what pages cost with 50,000 tubes: /metrics, which shows
// some of them, the first part of their list, and all of them with our names and the exporter's. A sample
// of a second ago serves most of them, as it does who asks often.
func BenchmarkPages(b *testing.B) {
	w := newWorld(b, setup{})
	w.tubesOf(50_000)
	w.used(50_000)
	for _, target := range []string{"/metrics", "/api/v1/tubes?sort=-ready", "/metrics/beanstalkd", "/metrics/tubes", "/livez"} {
		b.Run(target, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				r := httptest.NewRequest("GET", target, nil)
				r.Host = "localhost"
				r.Header.Set("Authorization", "Bearer "+operateToken)
				got := &counted{header: make(http.Header)}
				w.web.ServeHTTP(got, r)
				if got.status != 200 {
					b.Fatal(got.status)
				}
				n = got.bytes
			}
			b.ReportMetric(float64(n), "bytes")
		})
	}
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
