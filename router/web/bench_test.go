package web

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

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

// BenchmarkPages is what pages cost with 50,000 tubes: /metrics, which shows
// some of them, the first part of their list, and all of them with our names and the exporter's. A sample
// of a second ago serves most of them, as it does who asks often.
func BenchmarkPages(b *testing.B) {
	w := newWorld(b, setup{anonymous: access.Operate})
	w.tubesOf(50_000)
	for _, target := range []string{"/metrics", "/api/v1/tubes?sort=-ready", "/metrics/beanstalkd", "/metrics/tubes", "/livez"} {
		b.Run(target, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				r := httptest.NewRequest("GET", target, nil)
				r.Host = "localhost"
				got := httptest.NewRecorder()
				w.web.ServeHTTP(got, r.WithContext(context.WithValue(r.Context(), listenerKey{}, access.Operate)))
				if got.Code != 200 {
					b.Fatal(got.Code, got.Body)
				}
				n = got.Body.Len()
			}
			b.ReportMetric(float64(n), "bytes")
		})
	}
}
