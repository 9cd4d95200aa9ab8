package http

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"polystalk/router/access"
)

// pathOf is a path that a route serves.
func pathOf(rt route) string {
	_, path, _ := strings.Cut(rt.pattern, " ")
	return strings.NewReplacer("{tube}", "default", "{id}", "1", "{slug}", "no-token", "{$}", "", "{file...}", "app.mjs").Replace(path)
}

func TestForeignHostIsRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "queue.example.evil", "evil.example:11380", "2130706433", "0x7f.1"} {
		for _, path := range []string{"/problems/no-token", "/api/v1/session", "/nothing"} {
			a := w.do("DELETE", path, ask{host: host})
			if path == "/problems/no-token" {
				a = w.do("GET", path, ask{host: host})
			}
			a.wants(t, 421, "wrong-host").has(t, "--http-host", host)
		}
		for _, path := range []string{"/livez", "/readyz", "/healthz"} {
			w.do("GET", path, ask{host: host}).wants(t, 200, "")
		}
	}
	for _, host := range []string{"localhost", "LocalHost:1", "localhost.", "127.0.0.1", "10.1.2.3:80", "[::1]", "[::1]:8080", "queue.example", "QUEUE.example:443"} {
		w.do("GET", "/problems/no-token", ask{host: host}).wants(t, 200, "")
	}
}

// TestForeignHostIsToldNothing about tubes or jobs, on any route, unless the request shows a token.
func TestForeignHostIsToldNothing(t *testing.T) {
	const foreign = "evil.example"
	probes := map[string]bool{"GET /livez": true, "GET /healthz": true, "GET /readyz": true, "GET /leader": true}
	for _, with := range []setup{{anonymous: access.Operate, noTokens: true}, {anonymous: access.Operate}} {
		w := newWorld(t, with)
		_, err := w.srv.Operator().Put(t.Context(), newJob("secret-tube", "secret-body"))
		noErr(t, err)
		for _, rt := range testRoutes {
			path := strings.ReplaceAll(pathOf(rt), "default", "secret-tube")
			a := w.do(rt.method(), path, ask{host: foreign})
			if probes[rt.pattern] {
				a = w.do("GET", path+"?verbose", ask{host: foreign})
				expect(t, a.status == 200 && !strings.Contains(a.body, "secret"), "%s: %d %s", rt.pattern, a.status, a.body)
				continue
			}
			a.wants(t, 421, "wrong-host")
			w.do(rt.method(), path, ask{host: foreign, token: "wrong"}).wants(t, 401, "no-token")
		}
		if !with.noTokens {
			w.do("GET", "/metrics", ask{host: foreign, token: readToken}).wants(t, 200, "")
			w.do("GET", "/nothing", ask{host: foreign, token: readToken}).wants(t, 404, "not-found")
			w.do("GET", "/metrics", ask{host: foreign, header: map[string]string{"Cookie": w.login(readToken)}}).wants(t, 200, "")
		}
		w.do("GET", "/metrics", ask{host: "queue.example"}).wants(t, 200, "")
	}
}

func TestCrossSiteRequestIsRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	for _, header := range []map[string]string{
		{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
		{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
	} {
		for _, rt := range testRoutes {
			if !rt.changes() {
				w.do("GET", "/problems/no-token", ask{header: header}).wants(t, 200, "")
				continue
			}
			a := w.do(rt.method(), pathOf(rt), ask{header: header, token: adminToken})
			a.wants(t, 403, "cross-origin").has(t, "--http-origin")
		}
	}
	for _, header := range []map[string]string{
		{}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"},
		{"Sec-Fetch-Site": "cross-site", "Origin": "https://ops.example"}, {"Origin": w.url},
	} {
		w.do("DELETE", "/api/v1/session", ask{header: header}).wants(t, 204, "")
	}
}

func TestEveryRouteHasARole(t *testing.T) {
	open := map[string]bool{
		"GET /livez": true, "GET /healthz": true, "GET /readyz": true, "GET /leader": true, "GET /problems/{slug}": true,
		"GET /{$}": true, "GET /console/{file...}": true, // the console itself knows nothing
		"GET /api/v1/session": true, "POST /api/v1/session": true, "DELETE /api/v1/session": true,
	}
	for _, rt := range testRoutes {
		switch {
		case rt.need == access.Nobody && !open[rt.pattern]:
			t.Errorf("%s is open to everybody", rt.pattern)
		case rt.changes() && rt.need == access.Read:
			t.Errorf("%s changes something, and reading is enough for it", rt.pattern)
		case rt.method() == "":
			t.Errorf("%q has no method", rt.pattern)
		case rt.flags&large != 0 && rt.changes():
			t.Errorf("%s is heavy and changes something: its answer would be kept back", rt.pattern)
		}
	}
	// What the mux serves is what the table has.
	w := newWorld(t, setup{})
	for _, rt := range testRoutes {
		r, err := http.NewRequest(rt.method(), w.url+pathOf(rt), nil)
		noErr(t, err)
		_, pattern := w.web.mux.Handler(r)
		expect(t, pattern == rt.pattern, "%s is served by %q", rt.pattern, pattern)
	}
}

func TestRolesAreKept(t *testing.T) {
	w := newWorld(t, setup{})
	roles := map[access.Role]string{access.Nobody: "", access.Read: readToken, access.Operate: operateToken, access.Admin: adminToken}
	for _, rt := range testRoutes {
		for role, token := range roles {
			a := w.do(rt.method(), pathOf(rt), ask{token: token})
			switch {
			case rt.need == access.Nobody || role >= rt.need:
				bodies := role == access.Read && strings.HasSuffix(rt.pattern, "/body")
				expect(t, (a.status != 401 || rt.need <= access.Nobody) && (a.status == 403) == bodies, "%s with the role %v: %d %s", rt.pattern, role, a.status, a.body)
			case role == access.Nobody:
				a.wants(t, 401, "no-token")
				expect(t, a.header.Get("WWW-Authenticate") != "", "%s: no WWW-Authenticate", rt.pattern)
			default:
				p := a.wants(t, 403, "read-only").problem(t)
				expect(t, strings.Contains(p.Remedy, rt.need.String()), "%s with the role %v: %s", rt.pattern, role, a.body)
			}
			expect(t, !rt.changes() || role != access.Read || rt.need <= access.Nobody || a.status == 403, "%s with a token for reading: %d", rt.pattern, a.status)
		}
	}
}

func TestWrongTokenIsRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	for _, header := range []string{
		"Bearer", "Bearer ", "Bearer x", "Bearer " + readToken[:len(readToken)-1], "Bearer " + readToken + "x", "Bearer  " + readToken,
		"Basic " + readToken, readToken, "", fmt.Sprintf("Bearer sha256:%x", access.DigestOf(readToken)), "Bearer " + strings.Repeat("x", 10000),
	} {
		if header == "" {
			continue
		}
		// A wrong token is reported, although none is needed.
		w.do("GET", "/metrics", ask{header: map[string]string{"Authorization": header}}).wants(t, 401, "no-token")
	}
	w.do("GET", "/metrics", ask{header: map[string]string{"Authorization": "bearer " + readToken}}).wants(t, 200, "")
	w.do("GET", "/metrics", ask{}).wants(t, 200, "")
	expect(t, !strings.Contains(w.logged.String(), readToken), "the log shows a token")
	bare := newWorld(t, setup{noTokens: true})
	bare.do("GET", "/metrics", ask{token: readToken}).wants(t, 401, "no-token")
	bare.do("GET", "/metrics", ask{}).wants(t, 401, "no-token")
}

func TestTokensAreReloaded(t *testing.T) {
	w := newWorld(t, setup{})
	w.do("GET", "/metrics", ask{token: readToken}).wants(t, 200, "")
	cookie := w.login(readToken)
	replace := func(text string) error {
		noErr(t, os.WriteFile(w.tokens, []byte(text), 0o600))
		return w.web.opts.Tokens.Reload()
	}
	expect(t, replace("nonsense\n") != nil, "a broken file is taken")
	w.do("GET", "/metrics", ask{token: readToken}).wants(t, 200, "")
	noErr(t, replace(fmt.Sprintf("new read sha256:%x\n", access.DigestOf("another"))))
	w.do("GET", "/metrics", ask{token: readToken}).wants(t, 401, "no-token")
	w.do("GET", "/metrics", ask{header: map[string]string{"Cookie": cookie}}).wants(t, 401, "no-token")
	w.do("GET", "/metrics", ask{token: "another"}).wants(t, 200, "")
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
	bare := newWorld(t, setup{noTokens: true})
	bare.do("POST", "/api/v1/session", ask{json: true, body: `{"token":"x"}`}).wants(t, 404, "not-found")
}

// TestBrowserIsLoggedInToSeveralServersOfAHost: a browser does not look at the port of a cookie.
func TestBrowserIsLoggedInToSeveralServersOfAHost(t *testing.T) {
	worlds := []*world{newWorld(t, setup{}), newWorld(t, setup{})}
	jar := make(map[string]string)
	for _, w := range worlds {
		name, value, _ := strings.Cut(w.login(readToken), "=")
		jar[name] = value
	}
	var all []string
	for name, value := range jar {
		all = append(all, name+"="+value)
	}
	has := ask{header: map[string]string{"Cookie": strings.Join(all, "; ")}}
	for _, w := range worlds {
		w.do("GET", "/api/v1/server", has).wants(t, 200, "")
	}
	worlds[0].do("DELETE", "/api/v1/session", has).wants(t, 204, "")
	worlds[0].do("GET", "/api/v1/server", has).wants(t, 401, "no-token")
	worlds[1].do("GET", "/api/v1/server", has).wants(t, 200, "")
}

func TestUnknownPathsAndMethodsAreProblems(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	w.do("GET", "/index.html", ask{}).wants(t, 404, "not-found")
	w.do("POST", "/", ask{}).wants(t, 405, "method-not-allowed")
	w.do("GET", "/api/v1/nothing", ask{}).wants(t, 404, "not-found")
	w.do("GET", "/problems/nothing", ask{}).wants(t, 404, "not-found")
	a := w.do("POST", "/livez", ask{})
	a.wants(t, 405, "method-not-allowed")
	expect(t, a.header.Get("Allow") == "GET, HEAD", "Allow is %q", a.header.Get("Allow"))
	a = w.do("HEAD", "/livez", ask{})
	expect(t, a.status == 200 && a.body == "", "HEAD: %d %q", a.status, a.body)
	w.do("GET", "/livez", ask{body: "x"}).wants(t, 400, "bad-request")
	w.do("DELETE", "/api/v1/session", ask{header: map[string]string{"If-Match": `"x"`}}).wants(t, 400, "bad-request")
}

// TestBodiesAreShownAsFarAsTheServerSays: to operators and administrators, by each way in
// which a body could be read or guessed; never to readers, always with +bodies.
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
