package http

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"polystalk/router/access"
)

// pathOf returns a path that a route serves.
func pathOf(rt route) string {
	_, path, _ := strings.Cut(rt.pattern, " ")
	return strings.NewReplacer("{tube}", "default", "{id}", "1", "{slug}", "no-token", "{$}", "", "{file...}", "app.mjs").Replace(path)
}

// TestEveryRouteRefuses a request by the same rules: of Host, token, role, origin and parameters.
func TestEveryRouteRefuses(t *testing.T) {
	public := map[string]bool{
		"GET /livez": true, "GET /healthz": true, "GET /readyz": true, "GET /leader": true, "GET /problems/{slug}": true,
		"GET /{$}": true, "GET /console/{file...}": true, // the console itself contains no data
		"GET /api/v1/session": true, "POST /api/v1/session": true, "DELETE /api/v1/session": true,
	}
	tokens := map[access.Role]string{access.Nobody: "", access.Read: readToken, access.Operate: operateToken, access.Admin: adminToken}
	w, anonymous := newWorld(t, setup{}), newWorld(t, setup{anonymous: access.Operate})
	for i, rt := range testRoutes {
		path := pathOf(rt)
		r, err := http.NewRequest(rt.method(), w.url+path, nil)
		noErr(t, err)
		_, pattern := w.web.mux.Handler(r)
		expect(t, pattern == rt.pattern, "%s is served by %q", rt.pattern, pattern)
		expect(t, (rt.need == access.Nobody) == public[rt.pattern], "%s needs the role %v", rt.pattern, rt.need)
		expect(t, !rt.changes() || rt.need != access.Read && rt.flags&large == 0, "%s changes something: a reader may not, and its answer must not be held", rt.pattern)
		if testing.Short() && i%4 != 0 {
			continue
		}
		for role, token := range tokens {
			a := w.do(rt.method(), path, ask{token: token})
			switch {
			case role >= rt.need:
				bodies := role == access.Read && strings.HasSuffix(rt.pattern, "/body")
				expect(t, (a.status != 401 || public[rt.pattern]) && (a.status == 403) == bodies, "%s with the role %v: %d %s", rt.pattern, role, a.status, a.body)
			case role == access.Nobody:
				a.wants(t, 401, "no-token")
				expect(t, a.header.Get("WWW-Authenticate") != "", "%s: no WWW-Authenticate", rt.pattern)
			default:
				p := a.wants(t, 403, "read-only").problem(t)
				expect(t, strings.Contains(p.Remedy, rt.need.String()), "%s with the role %v: %s", rt.pattern, role, a.body)
			}
		}
		if rt.flags&probe != 0 {
			anonymous.do("GET", path, ask{host: "evil.example"}).wants(t, 200, "")
		} else {
			anonymous.do(rt.method(), path, ask{host: "evil.example"}).wants(t, 421, "wrong-host")
			anonymous.do(rt.method(), path, ask{host: "evil.example", token: "wrong"}).wants(t, 401, "no-token")
		}
		for _, header := range []map[string]string{{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}} {
			if rt.changes() {
				w.do(rt.method(), path, ask{header: header, token: adminToken}).wants(t, 403, "cross-origin").has(t, "--http-origin")
			}
		}
		if rt.query != anyQuery { // probes and scrapers may add their own
			w.do(rt.method(), path+"?frobnicate=1", ask{token: adminToken}).wants(t, 400, "bad-request").field(t, "frobnicate")
		}
	}
	for _, header := range []map[string]string{{"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}} {
		w.do("DELETE", "/api/v1/session", ask{header: header}).wants(t, 403, "cross-origin")
	}
	for _, header := range []map[string]string{
		{"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "cross-site", "Origin": "https://ops.example"}, {"Origin": w.url},
	} {
		w.do("DELETE", "/api/v1/session", ask{header: header}).wants(t, 204, "")
	}
}

func TestForeignHostIsRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "queue.example.evil", "evil.example:11380", "2130706433", "0x7f.1"} {
		for _, path := range []string{"/problems/no-token", "/nothing"} {
			w.do("GET", path, ask{host: host}).wants(t, 421, "wrong-host").has(t, "--http-host", host)
		}
	}
	for _, host := range []string{"localhost", "LocalHost:1", "localhost.", "127.0.0.1", "10.1.2.3:80", "[::1]", "[::1]:8080", "queue.example", "QUEUE.example:443"} {
		w.do("GET", "/problems/no-token", ask{host: host}).wants(t, 200, "")
	}
}

// login begins a session, and returns the header Cookie for it.
func (w *world) login(token string) string {
	w.t.Helper()
	a := w.do("POST", "/api/v1/session", ask{json: true, body: fmt.Sprintf(`{"token":%q}`, token)}).wants(w.t, 200, "")
	set := a.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Max-Age=43200"} {
		expect(w.t, strings.Contains(set, want), "the cookie has no %s: %s", want, set)
	}
	expect(w.t, !strings.Contains(set, "Path=") && !strings.Contains(set, "Secure"), "the cookie is %s", set)
	cookie, _, _ := strings.Cut(set, ";")
	return cookie
}

func TestSessionStandsForItsToken(t *testing.T) {
	w := newWorld(t, setup{})
	for _, tt := range []struct {
		ask    ask
		status int
		slug   string
	}{
		{ask{json: true, body: `{"token":"wrong"}`}, 401, "no-token"},
		{ask{json: true, body: `{"token":""}`}, 401, "no-token"},
		{ask{json: true, body: `{}`}, 401, "no-token"},
		{ask{json: true, body: `{"token":1}`}, 422, "invalid"},
		{ask{json: true, body: `{"tokens":"x"}`}, 422, "invalid"},
		{ask{json: true, body: `{"token"`}, 400, "bad-request"},
		{ask{json: true}, 400, "bad-request"},
		{ask{json: true, body: `{"token":"x"}{}`}, 400, "bad-request"},
		{ask{body: "token=" + readToken}, 415, "not-json"},
		{ask{body: `{"token":"x"}`, header: map[string]string{"Content-Type": "text/plain"}}, 415, "not-json"},
		{ask{json: true, body: `x`, header: map[string]string{"Content-Encoding": "gzip"}}, 415, "not-json"},
	} {
		a := w.do("POST", "/api/v1/session", tt.ask).wants(t, tt.status, tt.slug)
		expect(t, a.header.Get("Set-Cookie") == "", "%+v: a cookie is set", tt.ask)
	}
	cookie := w.login(readToken)
	has := ask{header: map[string]string{"Cookie": cookie}}
	w.do("GET", "/metrics", has).wants(t, 200, "")
	w.do("DELETE", "/api/v1/session", has).wants(t, 204, "")
	w.do("GET", "/metrics", has).wants(t, 401, "no-token")

	proxied := w.do("POST", "/api/v1/session", ask{json: true, body: fmt.Sprintf(`{"token":%q}`, readToken), header: map[string]string{"X-Forwarded-Proto": "https"}})
	expect(t, !strings.Contains(proxied.header.Get("Set-Cookie"), "Secure"), "anybody is believed that he speaks TLS")
	// A browser sends a cookie to all ports of a host, so each server uses another name.
	other, _, _ := strings.Cut(newWorld(t, setup{}).login(readToken), "=")
	expect(t, !strings.HasPrefix(cookie, other), "two servers call their cookie %s", other)
	bare := newWorld(t, setup{noTokens: true})
	bare.do("GET", "/metrics", ask{token: readToken}).wants(t, 401, "no-token")
	bare.do("POST", "/api/v1/session", ask{json: true, body: `{"token":"x"}`}).wants(t, 404, "not-found")
}

// TestBodiesAreShownAsFarAsTheServerSays to operators and administrators, on each path where a
// body could be read or guessed. Readers never see bodies; tokens with +bodies always do.
func TestBodiesAreShownAsFarAsTheServerSays(t *testing.T) {
	for usual, ways := range map[access.Bodies]struct{ preview, full int }{access.None: {403, 403}, access.Preview: {200, 403}, access.Full: {200, 200}} {
		w := newWorld(t, setup{anonymous: access.Operate, options: func(o *Options) { o.Rules.Bodies = usual }})
		w.put("mail", 1)
		for token, want := range map[string]struct{ preview, full int }{
			readToken: {403, 403}, bodiesToken: {200, 200}, operateToken: ways, adminToken: ways, "": ways,
		} {
			see := func(path string, status int) {
				t.Helper()
				slug := ""
				if status == 403 {
					slug = "read-only"
				}
				a := w.do("GET", path, ask{token: token}).wants(t, status, slug)
				expect(t, status != 403 || !strings.Contains(a.body, `"body":"x"`) && strings.Contains(a.problem(t).Remedy, "+bodies"), "%v, %q: %s", usual, token, a.body)
			}
			for _, path := range []string{"/api/v1/jobs/1", "/api/v1/tubes/mail/jobs", "/api/v1/jobs"} {
				see(path, 200)
				see(path+"?body=none", 200)
				see(path+"?body=preview", want.preview)
				see(path+"?body=full", want.full)
			}
			see("/api/v1/jobs/1/body", want.full)
			see("/api/v1/jobs?contains=x", want.full)
			if token == readToken || token == bodiesToken {
				continue
			}
			count := ask{token: token, json: true, body: `{"action":"delete","dry_run":true,"select":{"all_tubes":true,"contains":"x"}}`}
			slug := ""
			if want.full == 403 {
				slug = "read-only"
			}
			w.do("POST", "/api/v1/operations", count).wants(t, want.full, slug)
		}
	}
}
