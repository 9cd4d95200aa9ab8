package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestPprofIsNotForOtherSites: a browser on this machine may look at a page of one.
func TestPprofIsNotForOtherSites(t *testing.T) {
	served := askedHere(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	for _, tt := range []struct {
		host, site string
		want       int
	}{
		{"127.0.0.1:6060", "", 200}, {"localhost:6060", "none", 200}, {"localhost", "same-origin", 200}, {"[::1]:6060", "", 200}, {"[::1]", "", 200},
		{"127.0.0.1:6060", "cross-site", 403}, {"localhost:6060", "same-site", 403}, {"evil.example:6060", "", 403}, {"192.0.2.1", "", 403}, {"", "", 403},
	} {
		r := httptest.NewRequest("GET", "/debug/pprof/profile", nil)
		r.Host = tt.host
		if tt.site != "" {
			r.Header.Set("Sec-Fetch-Site", tt.site)
		}
		w := httptest.NewRecorder()
		served.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%q, %q: status %d", tt.host, tt.site, w.Code)
		}
	}
}
