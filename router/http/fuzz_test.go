package http

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
)

// FuzzCursor: a text that is not a cursor of the list is refused, and a cursor is read as it was
// written.
func FuzzCursor(f *testing.F) {
	filter := hashed("t*", "-ready")
	for _, k := range []cursor{{filter, 0, ""}, {filter, 1<<64 - 1, "a\x00b"}, {hashed("", "name"), 7, "mail"}} {
		f.Add(k.String())
	}
	f.Add("")
	f.Add(strings.Repeat("A", 44))
	f.Fuzz(func(t *testing.T, text string) {
		k := cursor{filter: filter}
		err := k.read(text)
		p, ok := errors.AsType[*wire.Problem](err)
		require(t, err == nil || ok && p.Status == 400 && p.Field == "after", "%q: %v", text, err)
		if err == nil {
			again := cursor{filter: filter}
			err := again.read(k.String())
			require(t, err == nil && again == k, "%q is read as %+v, and that as %+v, %v", text, k, again, err)
		}
	})
}

// FuzzRequest: for any path, query and body, the answer is valid by openapi.json, and never an
// internal error.
func FuzzRequest(f *testing.F) {
	for _, s := range [][4]string{
		{"GET", "/api/v1/tubes?limit=3&sort=-ready&after=x", "", ""},
		{"POST", "/api/v1/tubes/a%2Fb/jobs", "application/json", `{"body":"x"}`},
		{"POST", "/api/v1/tubes/mail/jobs?pri=1&ttr=2", "application/octet-stream", "\x00\xff"},
		{"PUT", "/api/v1/tubes/%00/pause", "application/json", `{"seconds":1}`},
		{"DELETE", "/api/v1/jobs/18446744073709551615", "", ""},
		{"POST", "/api/v1/session", "application/json", `{"token":null}`},
		{"GET", "/api/v1/tubes/../tubes//x", "", ""},
		{"PUT", "/api/v1/log-level", "application/json; charset=x", `{"level":{}}`},
		{"GET", "/api/v1/history?tube=mail&series=ready,run_p99_seconds&from=0&to=2026-01-02T15:04:05Z&step=60", "", ""},
		{"GET", "/api/v1/history?step=5&from=137438953472&to=137438953472", "", ""},
		{"GET", "/api/v1/events?topics=server,tubes,tube:a%252Fb,journal&match=[a-z]*&sort=-oldest&limit=2", "", ""},
		{"HEAD", "/api/v1/events?topics=operation:1", "", ""},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	w := newWorld(f, setup{anonymous: "operate", maxJob: 1000, options: withHistory(10)})
	f.Fuzz(func(t *testing.T, method, target, kind, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") || u.Host != "" {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
		r.Method, r.URL, r.Host = method, u, "localhost"
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		r = r.WithContext(ctx) // ends streams
		r.Header.Set("Authorization", "Bearer "+operateToken)
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		got := httptest.NewRecorder()
		w.web.ServeHTTP(got, r)
		require(t, got.Code < 500 || got.Code == 503, "%s %q: %d %s", method, target, got.Code, got.Body)
		if got.Code >= 400 && got.Header().Get("Content-Type") != "application/problem+json" && !strings.HasSuffix(u.Path, "z") {
			t.Fatalf("%s %q: %d of type %q", method, target, got.Code, got.Header().Get("Content-Type"))
		}
	})
}
