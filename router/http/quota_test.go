package http

import (
	"strconv"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
)

// TestQuotasHoldForRequests: puts above the rate get 429 and a time to wait, and above the jobs 507.
// A job that is copied, and each line of many jobs, counts.
func TestQuotasHoldForRequests(t *testing.T) {
	const rateToken = "rate-token-0123456789"
	w := newWorld(t, setup{quotas: true, options: withHistory(10), access: rightsText +
		identity("full", lookToken+"2", "put = [\"full-*\"]\nmanage = [\"full-*\"]\njobs = 3\nbytes = 100") +
		identity("rate", rateToken, "put = [\"rate\"]\nputs-per-second = 1")})
	full := ask{token: lookToken + "2", header: octets, body: "x"}
	w.do("POST", "/api/v1/tubes/full-1/jobs", full).wants(t, 201, "")
	full.body = strings.Repeat("x", 100)
	w.do("POST", "/api/v1/tubes/full-1/jobs", full).wants(t, 507, "quota-reached")
	lines := ask{token: lookToken + "2", header: map[string]string{"Content-Type": wire.LinesType}, body: strings.Repeat(`{"tube":"full-2","body":"x"}`+"\n", 4)}
	a := w.do("POST", "/api/v1/jobs", lines)
	if n := strings.Count(a.body, "quota-reached"); a.status != 200 || n != 2 {
		t.Errorf("%d: %d of 4 lines are refused: %s", a.status, n, a.body)
	}
	w.do("POST", "/api/v1/jobs/1/copy", ask{token: lookToken + "2", json: true, body: `{"to":"full-3"}`}).wants(t, 507, "quota-reached")
	w.do("POST", operations, ask{token: lookToken + "2", json: true, body: `{"action":"copy","to":"full-3","select":{"tube":"full-2"}}`})
	metrics := w.do("GET", "/metrics", ask{token: adminToken}).body
	for _, want := range []string{`identity_jobs{identity="full"} 3`, `identity_job_bytes{identity="full"} 3`, `identity_refused_total{identity="full",quota="jobs"}`, `identity_connections{identity="rate"} 0`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	rate := ask{token: rateToken, header: octets, body: "x"}
	w.do("POST", "/api/v1/tubes/rate/jobs", rate).wants(t, 201, "")
	a = w.do("POST", "/api/v1/tubes/rate/jobs", rate)
	a.wants(t, 429, "throttled")
	if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n != 1 {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
}

// TestRequestUsesARateForABoundedTime: it pays only for the lines that are permitted, and those of more
// than ten seconds are refused before they use the rate.
func TestRequestUsesARateForABoundedTime(t *testing.T) {
	const token = "rate-token-0123456789"
	w := newWorld(t, setup{quotas: true, access: rightsText + identity("rate", token, "put = [\"rate\"]\nputs-per-second = 1")})
	put := func(permitted, denied int) *answer {
		return w.do("POST", "/api/v1/jobs", ask{token: token, header: map[string]string{"Content-Type": wire.LinesType},
			body: strings.Repeat(`{"tube":"rate","body":"x"}`+"\n", permitted) + strings.Repeat(`{"tube":"other","body":"x"}`+"\n", denied)})
	}
	put(11, 0).wants(t, 413, "too-large")
	put(1000, 0).wants(t, 413, "too-large")
	put(0, 500).wants(t, 200, "")
	put(10, 500).wants(t, 200, "")
	a := put(1, 500)
	a.wants(t, 429, "throttled")
	if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n > 10 {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	put(0, 1).wants(t, 200, "")
}

// TestQuotasHoldForChangesAndCopies: a larger body counts, and a copy is a put. A move inside the
// identity's tubes needs no room.
func TestQuotasHoldForChangesAndCopies(t *testing.T) {
	w := newWorld(t, setup{quotas: true, access: rightsText +
		identity("full", lookToken+"2", "put = [\"full-*\"]\nmanage = [\"full-*\"]\njobs = 2\nbytes = 100") +
		identity("rate", lookToken+"3", "put = [\"rate\"]\nmanage = [\"rate\"]\nputs-per-second = 2")})
	ask2 := func(body string) ask { return ask{token: lookToken + "2", json: true, body: body} }
	w.do("POST", "/api/v1/tubes/full-1/jobs", ask2(`{"body":"x"}`)).wants(t, 201, "")
	w.do("POST", "/api/v1/tubes/full-1/jobs", ask2(`{"body":"y"}`)).wants(t, 201, "")
	w.do("PATCH", "/api/v1/jobs/1", ask2(`{"body":"`+strings.Repeat("x", 100)+`"}`)).wants(t, 507, "quota-reached")
	w.do("PATCH", "/api/v1/jobs/1", ask2(`{"body":"`+strings.Repeat("x", 99)+`"}`)).wants(t, 204, "")
	w.do("POST", "/api/v1/jobs/2/copy", ask2(`{"to":"full-2"}`)).wants(t, 507, "quota-reached")
	w.do("POST", "/api/v1/jobs/2/move", ask2(`{"to":"full-2"}`)).wants(t, 201, "")
	rate := ask{token: lookToken + "3", json: true}
	rate.body = `{"body":"x"}`
	id := w.do("POST", "/api/v1/tubes/rate/jobs", rate).wants(t, 201, "").header.Get("Location")
	id = id[strings.LastIndex(id, "/"):]
	rate.body = `{"action":"copy","to":"rate","select":{"tube":"rate"}}`
	w.do("POST", operations, rate) // waits for the rate
	rate.body = `{"to":"rate"}`
	w.do("POST", "/api/v1/jobs"+id+"/copy", rate).wants(t, 429, "throttled")
}
