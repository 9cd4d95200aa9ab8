package http

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/session"
	"polystalk/router/trend"
)

// pathOf returns a path that a route serves.
func pathOf(rt route) string {
	_, path, _ := strings.Cut(rt.pattern, " ")
	return strings.NewReplacer("{tube}", "default", "{id}", "1", "{slug}", "no-token", "{name}", "nobody", "{$}", "", "{file...}", "app.mjs").Replace(path)
}

// suffices reports whether the rights of a role are enough for a route.
func suffices(role string, n need) bool {
	by := access.Preset(role, "")
	return !n.some || !by.IsEmpty() && by.Level() >= n.level && by.Some()&n.verb == n.verb
}

// TestEveryRouteRefuses a request by the same rules: of Host, token, rights, origin and parameters.
func TestEveryRouteRefuses(t *testing.T) {
	public := map[string]bool{
		"GET /livez": true, "GET /healthz": true, "GET /readyz": true, "GET /leader": true, "GET /problems/{slug}": true,
		"GET /{$}": true, "GET /console/{file...}": true, // the console itself contains no data
		"GET /api/v1/session": true, "POST /api/v1/session": true, "DELETE /api/v1/session": true,
	}
	tokens := map[string]string{"none": "", "read": readToken, "operate": operateToken, "admin": adminToken}
	w, anonymous := newWorld(t, setup{}), newWorld(t, setup{anonymous: "operate"})
	for i, rt := range testRoutes {
		path := pathOf(rt)
		r, err := http.NewRequest(rt.method(), w.url+path, nil)
		noErr(t, err)
		_, pattern := w.web.mux.Handler(r)
		expect(t, pattern == rt.pattern, "%s is served by %q", rt.pattern, pattern)
		expect(t, rt.need.some != public[rt.pattern], "%s needs %v", rt.pattern, rt.need)
		expect(t, !rt.changes() || (public[rt.pattern] || !suffices("read", rt.need)) && rt.flags&large == 0, "%s changes something: a reader may not, and its answer must not be held", rt.pattern)
		if testing.Short() && i%4 != 0 {
			continue
		}
		for role, token := range tokens {
			a := w.do(rt.method(), path, ask{token: token})
			need := rt.need
			if strings.HasSuffix(rt.pattern, "/identities/{name}") && role != "none" {
				need = adminServer // of another one
			}
			switch {
			case suffices(role, need):
				bodies := role == "read" && strings.HasSuffix(rt.pattern, "/body")
				expect(t, (a.status != 401 || public[rt.pattern]) && (a.status == 403) == bodies, "%s with the role %v: %d %s", rt.pattern, role, a.status, a.body)
			case role == "none":
				a.wants(t, 401, "no-token")
				expect(t, a.header.Get("WWW-Authenticate") != "", "%s: no WWW-Authenticate", rt.pattern)
			default:
				p := a.wants(t, 403, "not-permitted").problem(t)
				expect(t, strings.Contains(p.Detail, need.String()), "%s with the role %v: %s", rt.pattern, role, a.body)
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
	w := newWorld(t, setup{anonymous: "operate"})
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
		{ask{json: true, body: `{}`}, 401, "no-token"},
		{ask{json: true, body: `{"token":1}`}, 422, "invalid"},
		{ask{json: true, body: `{"token"`}, 400, "bad-request"},
		{ask{body: "token=" + readToken}, 415, "not-json"},
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
// body could be read or guessed. Readers never see bodies; identities with bodies = "full" always do.
func TestBodiesAreShownAsFarAsTheServerSays(t *testing.T) {
	for usual, ways := range map[access.Bodies]struct{ preview, full int }{access.None: {403, 403}, access.Preview: {200, 403}, access.Full: {200, 200}} {
		w := newWorld(t, setup{anonymous: "operate", options: func(o *Options) { o.Rules.Bodies = usual }})
		w.put("mail", 1)
		for token, want := range map[string]struct{ preview, full int }{
			readToken: {403, 403}, bodiesToken: {200, 200}, operateToken: ways, adminToken: {200, 200}, "": ways,
		} {
			see := func(path string, status int) {
				t.Helper()
				slug := ""
				if status == 403 {
					slug = "not-permitted"
				}
				a := w.do("GET", path, ask{token: token}).wants(t, status, slug)
				expect(t, status != 403 || !strings.Contains(a.body, `"body":"x"`) && strings.Contains(a.problem(t).Remedy, `bodies = "full"`), "%v, %q: %s", usual, token, a.body)
			}
			for _, path := range []string{"/api/v1/jobs/1", "/api/v1/tubes/mail/jobs", "/api/v1/jobs"} {
				see(path, 200)
				see(path+"?body=none", 200)
				see(path+"?body=preview", want.preview)
				see(path+"?body=full", want.full)
			}
			see("/api/v1/jobs/1/body", want.full)
			see("/api/v1/jobs?contains=x", want.full)
			if token != operateToken && token != "" {
				continue
			}
			count := ask{token: token, json: true, body: `{"action":"delete","dry_run":true,"select":{"all_tubes":true,"contains":"x"}}`}
			slug := ""
			if want.full == 403 {
				slug = "not-permitted"
			}
			w.do("POST", "/api/v1/operations", count).wants(t, want.full, slug)
		}
	}
}

// TestRemedies: a problem about a member, type, role, name or token says what to do, in plain words:
// without names of Go types and prefixes of libraries.
func TestRemedies(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	const jobs = "/api/v1/tubes/mail/jobs"
	post := func(body string) ask { return ask{json: true, body: body} }
	for _, tt := range []struct {
		method, path string
		ask          ask
		status       int
		field        string
		detail       string // what it contains
		remedy       string // what it contains
	}{
		{"POST", operations, post(`{"action":"delete","select":{"tube":"mail","state":"buried"}}`), 422, "select.state", "unknown", "one of all_tubes, contains, id_max, id_min, ids, older_than_seconds, states, tube, tube_path"},
		{"POST", operations, post(`{"action":"set","select":{"tube":"mail"},"set":{"priority":1}}`), 422, "set.priority", "unknown", "delay_seconds, pri, ttr_seconds"},
		{"POST", operations, post(`{"act":"delete"}`), 422, "act", "unknown", "one of action, as_of, "},
		{"POST", operations, post(`{"action":"delete","select":{"tube":"mail","states":"buried"}}`), 422, "select.states", "type string, not a list", "give a list in brackets, each element a string"},
		{"POST", operations, post(`{"action":"delete","select":{"ids":[1,2]}}`), 422, "select.ids", "type number, not a string", "give a string, in double quotes"},
		{"POST", operations, post(`{"action":"delete","select":{"tube":"mail"},"dry_run":1}`), 422, "dry_run", "type number, not true or false", "give true or false"},
		{"POST", operations, post(`{"action":"kick","action":"delete","select":{"tube":"mail"}}`), 400, "action", "more than once", "give it once"},
		{"POST", operations, post(`{"action":"kick","select":{"tube":"mail","Tube":"x"}}`), 400, "select.Tube", "another case", "write it as tube"},
		{"POST", operations, post(`{"action":"set","set":{"body":` + strings.Repeat("[", 20_000) + `}}`), 400, "set.body", "depth", "one JSON object"},
		{"POST", operations, ask{json: true}, 400, "", "the body is empty", "one JSON object"},
		{"POST", operations, ask{}, 415, "Content-Type", "is missing", "application/json"},
		{"POST", jobs, post(`{"body_base64":"!"}`), 422, "body_base64", "not base64", "base64"},
		{"POST", jobs, post("{\"body\":\"\xff\"}"), 400, "body", "not UTF-8", "body_base64"},
		{"POST", jobs, post(`{"body":"\ud800"}`), 400, "body", "surrogate", "body_base64"},
		{"POST", jobs, post("\xef\xbb\xbf{}"), 400, "", "byte order mark", "without it"},
		{"POST", jobs, post(`{"body":`), 400, "body", "ends too early", "whole"},
		{"POST", jobs, post(`{}{}`), 400, "", "not JSON", "one JSON object"},
		{"POST", jobs, post(`{"body":"\q"}`), 400, "body", "not JSON", "one JSON object"},
		{"POST", jobs, post(`[]`), 422, "", "it is of the type list, not an object", "object"},
		{"POST", jobs, post(`null`), 422, "", "null, not an object", "object"},
		{"POST", jobs, post(`{"body":null}`), 422, "body", "it is null", "omit the member"},
		{"PATCH", "/api/v1/jobs/1", post(`{"prio":1}`), 422, "prio", "unknown", "one of body, body_base64, delay_seconds, pri, ttr_seconds"},
		{"GET", "/api/v1/tubes/%FF%5Cx", ask{}, 404, "", `there is no tube "\xFF\\x"`, "look it up again"},
		{"GET", "/api/v1/tubes/a/b/c", ask{}, 404, "", "no such path", "/tubes/-?tube=%2F"},
		{"GET", "/api/v1/jobs/abc", ask{}, 400, "id", `"abc" is not the id of a job`, ""}, // two kinds of ids may have been confused
		{"GET", "/api/v1/connections/abc", ask{}, 400, "id", `"abc" is not the id of a connection`, ""},
		{"GET", "/api/v1/operations/abc", ask{}, 400, "id", `"abc" is not the id of an operation`, ""},
		{"GET", "/api/v1/nothing", ask{}, 404, "", "no such path", "openapi.json"},
		{"PUT", "/api/v1/drain", ask{}, 403, "", "a request without a token", "--access-file"},
		{"GET", "/api/v1/server", ask{token: "stranger-0123456789"}, 401, "", "unknown", "SHA-256"},
	} {
		p := w.do(tt.method, tt.path, tt.ask).wants(t, tt.status, "").problem(t)
		expect(t, p.Field == tt.field && strings.Contains(p.Detail, tt.detail) && strings.Contains(p.Remedy, tt.remedy), "%s %s %s: %+v", tt.method, tt.path, tt.ask.body, p)
		for _, s := range []string{"json:", "jsontext", "Go ", "uint8", "admin.", "EOF", "unmarshal"} {
			expect(t, !strings.Contains(p.Detail+p.Remedy, s), "%q: it says %q: %s", tt.ask.body, s, p.Detail)
		}
	}
}

// TestBadRequestsAreRefused with the name of the wrong field, and change nothing.
func TestBadRequestsAreRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", maxJob: 100, options: withHistory(1)})
	w.put("mail", 1)
	const (
		tubes, mail, job = "/api/v1/tubes", "/api/v1/tubes/mail", "/api/v1/jobs/1"
		events, history  = "/api/v1/events", "/api/v1/history"
	)
	slugs := map[int]string{400: "bad-request", 404: "not-found", 413: "too-large", 415: "not-json", 422: "invalid"}
	// bad sends variants of a request: the rest of its target, or its body in JSON.
	bad := func(method, path string, status int, field string, variants ...string) {
		t.Helper()
		for _, v := range variants {
			a, target := ask{token: adminToken}, path+v
			if v != "" && v[0] != '?' && v[0] != '/' {
				a.json, a.body, target = true, v, path
			}
			w.do(method, target, a).wants(t, status, slugs[status]).field(t, field)
		}
	}
	next := get[wire.Tubes](w, tubes+"?limit=1").Next
	bad("GET", tubes, 400, "limit", "?limit=0", "?limit=1001", "?limit=-1", "?limit=x", "?limit=", "?limit=1.5", "?limit=1&limit=2")
	bad("GET", tubes, 400, "sort", "?sort=x", "?sort=--ready", "?sort=-", "?sort=-name")
	bad("GET", tubes, 400, "match", "?match=[")
	bad("GET", tubes, 400, "after", "?after=", "?after=x", "?after="+strings.Repeat("A", 43), "?sort=ready&after="+next, "?match=x&after="+next)
	bad("GET", tubes, 404, "", "/nobody", "/nobody/jobs", "/nobody/jobs?order=next")

	bad("GET", connectionsPath, 400, "limit", "?limit=0", "?limit=1001", "?limit=x")
	bad("GET", connectionsPath, 400, "after", "?after=", "?after=0", "?after=-1", "?after=18446744073709551616")
	bad("GET", connectionsPath, 400, "protocol", "?protocol=http")
	bad("GET", connectionsPath, 400, "holding", "?holding=1", "?holding=")
	bad("GET", connectionsPath, 400, "id", "/0", "/x", "/-1")
	bad("GET", connectionsPath, 404, "", "/18446744073709551615")

	bad("GET", events, 400, "topics", "", "?topics=", "?topics=servers", "?topics=server,", "?topics=server,server", "?topics=tube", "?topics=tube:", "?topics=tube:%25zz",
		"?topics=operation:x", "?topics=server:x", "?topics="+strings.Repeat("tube:a,", 20))
	bad("GET", events, 404, "topics", "?topics=operation:7")
	bad("GET", events, 400, "limit", "?topics=server&limit=5", "?topics=tubes&limit=0", "?topics=tubes&limit=1001")
	bad("GET", events, 400, "match", "?topics=tubes&match=[")
	bad("GET", events, 400, "sort", "?topics=tubes&sort=-name")
	w.open(0)

	bad("GET", history, 400, "series", "?series=", "?series=ready,", "?series=wait", "?series=READY", "?series="+strings.Join(trend.ServerLayout.Series(), ",")+",ready", "?tube=mail&series=urgent")
	bad("GET", history, 400, "from", "?from=x", "?from=-1", "?from=2026-01-02", "?from=10&to=5")
	bad("GET", history, 400, "to", "?to=99999999999999999999", "?to=137438953473", "?to=9999-01-02T15:04:05Z")
	bad("GET", history, 400, "step", "?step=0", "?step=4", "?step=25", "?step=61", "?step=90", "?step=-5", "?step=x", "?step=31622460", "?from=0&step=60",
		"?step=5&from="+fmt.Sprint(time.Now().Unix()-100_000))
	bad("GET", history, 404, "tube", "?tube=nothing")
	none := newWorld(t, setup{anonymous: "read"})
	none.do("GET", history, ask{}).wants(t, 404, "not-found").has(t, "--http-history-tubes")

	bad("GET", mail+"/jobs", 400, "order", "?order=best")
	bad("GET", mail+"/jobs", 400, "state", "?state=dead", "?state=", "?order=next&state=reserved", "?order=oldest&state=ready,buried")
	bad("GET", mail+"/jobs", 400, "limit", "?limit=0", "?limit=1001")
	bad("GET", mail+"/jobs", 400, "contains", "?contains=", "?contains="+strings.Repeat("x", 1025), "?order=next&contains=x")
	bad("GET", mail+"/jobs", 400, "id_min", "?id_min=x")
	bad("GET", mail+"/jobs", 400, "id_max", "?id_max=0")
	bad("GET", mail+"/jobs", 400, "older_than", "?older_than=-1")
	bad("GET", mail+"/jobs", 400, "body", "?body=some")
	bad("GET", mail+"/jobs", 400, "after", "?after=x", "?order=next&after=x")
	for _, method := range []string{"GET", "DELETE"} {
		bad(method, "/api/v1/jobs", 400, "id", "/0", "/-1", "/x", "/1.5", "/18446744073709551616", "/%00", "/+1")
		bad(method, "/api/v1/jobs", 404, "", "/18446744073709551615")
	}

	long := `{"body":"` + strings.Repeat("x", 101) + `"}`
	bad("POST", mail+"/jobs", 422, "priority", `{"priority":1}`)
	bad("POST", mail+"/jobs", 422, "pri", `{"pri":"1"}`, `{"pri":-1}`, `{"pri":4294967296}`)
	bad("POST", mail+"/jobs", 422, "delay_seconds", `{"delay_seconds":1.5}`)
	bad("POST", mail+"/jobs", 422, "body", `{"body":1}`)
	bad("POST", mail+"/jobs", 422, "body_base64", `{"body":"x","body_base64":"eA=="}`)
	bad("POST", mail+"/jobs", 400, "body", `{"body":"a","body":"b"}`, `{"body":"a","b\u006fdy":"b"}`)
	bad("POST", mail+"/jobs", 400, "Body", `{"Body":"a"}`)
	bad("POST", mail+"/jobs", 413, "body", long)
	for _, kind := range []string{"", "application/x-www-form-urlencoded", "application/json, text/plain"} {
		w.do("POST", mail+"/jobs", ask{body: `{}`, header: map[string]string{"Content-Type": kind}}).wants(t, 415, "not-json").field(t, "Content-Type")
	}
	w.do("POST", mail+"/jobs?pri=1", ask{json: true, body: `{}`}).wants(t, 400, "bad-request").field(t, "pri")
	for query, field := range map[string]string{"?pri=x": "pri", "?ttr=4294967296": "ttr"} {
		w.do("POST", mail+"/jobs"+query, ask{body: "x", header: octets}).wants(t, 400, "bad-request").field(t, field)
	}
	w.do("POST", mail+"/jobs", ask{body: long, header: octets}).wants(t, 413, "too-large").field(t, "body")

	bad("PATCH", job, 422, "", `{}`)
	bad("PATCH", job, 422, "state", `{"state":"ready"}`)
	bad("PATCH", job, 422, "pri", `{"pri":-1}`)
	bad("PATCH", job, 422, "body_base64", `{"body":"x","body_base64":"eA=="}`)
	bad("PATCH", job, 413, "body", long)
	bad("PATCH", job, 400, "force", "?force=yes")
	bad("PATCH", "/api/v1/jobs/77", 404, "", `{"ttr_seconds":1}`)
	for _, what := range []string{"/move", "/copy"} {
		bad("POST", job+what, 422, "to", `{}`, `{"to":""}`, `{"to":"`+strings.Repeat("h", 256)+`"}`)
		bad("POST", job+what, 422, "force", `{"to":"away","force":true}`)
	}
	bad("POST", job+"/move", 422, "to", `{"to":"mail"}`)
	bad("POST", "/api/v1/jobs/99/move", 404, "", `{"to":"away"}`)

	bad("PUT", mail+"/pause", 422, "seconds", `{}`, `{"seconds":0}`, `{"seconds":-1}`, `{"seconds":1.5}`, `{"seconds":"60"}`, `{"seconds":4294967296}`)
	bad("PUT", mail+"/pause", 422, "", `[]`, `"x"`)
	bad("POST", mail+"/kick", 422, "count", `{}`, `{"count":0}`)
	bad("PUT", "/api/v1/log-level", 422, "level", `{}`, `{"level":"loud"}`, `{"level":1}`, `{"level":"INFO"}`)
	bad("DELETE", mail+"/jobs", 400, "state", "", "?state=", "?state=dead", "?state=ready,reserved")
	bad("DELETE", mail+"/jobs", 400, "dry_run", "?state=ready&dry_run=yes")
	bad("DELETE", mail+"/jobs", 400, "as_of", "?state=ready&dry_run=true&as_of=1")
	bad("DELETE", mail+"/jobs", 422, "as_of", "?state=ready&as_of=never")
	bad("DELETE", tubes+"/nobody/jobs", 404, "", "?state=ready", "?state=ready&dry_run=true")

	bad("POST", operations, 422, "action", `{}`, `{"action":"eat","select":{"tube":"mail"}}`)
	bad("POST", operations, 422, "select.tube", `{"action":"delete","select":{}}`, `{"action":"delete","select":{"tube":"mail","all_tubes":true}}`,
		`{"action":"bury","select":{"tube":"a","tube_path":"a"}}`, `{"action":"bury","select":{"tube_path":"a","all_tubes":true}}`)
	bad("POST", operations, 422, "select.tube_path", `{"action":"bury","select":{"tube_path":"%"}}`)
	bad("POST", operations, 422, "select.states", `{"action":"delete","select":{"tube":"mail","states":["dead"]}}`)
	bad("POST", operations, 422, "set", `{"action":"delete","select":{"tube":"mail"},"set":{"pri":1}}`, `{"action":"set","select":{"tube":"mail"}}`,
		`{"action":"copy","select":{"tube":"mail"},"to":"away","set":{"pri":1}}`)
	bad("POST", operations, 422, "as_of", `{"action":"delete","select":{"tube":"mail"},"as_of":"0"}`)
	bad("POST", operations, 422, "to", `{"action":"move","select":{"tube":"mail"}}`, `{"action":"delete","select":{"tube":"mail"},"to":"away"}`,
		`{"action":"move","select":{"tube":"mail"},"to":""}`, `{"action":"move","select":{"tube":"mail"},"to":"mail"}`)
	bad("POST", operations, 422, "force", `{"action":"move","select":{"tube":"mail"},"to":"away","force":true}`)
	bad("POST", operations, 404, "", `{"action":"delete","select":{"tube":"nobody"}}`, `{"action":"move","select":{"tube":"nobody"},"to":"away"}`,
		`{"action":"kick","select":{"ids":["9"],"tube":"nobody"}}`)
	bad("GET", operations, 404, "", "/999")

	tube, s := get[wire.Tube](w, mail), get[wire.Server](w, "/api/v1/server")
	expect(t, s.JobsTotal == 1 && tube.Jobs.Ready == 1 && tube.Pauses == 0, "something was changed: %+v", tube)
}

// TestWrongTokenIsCountedAndLogged, in a header and in a login, and the log does not have it.
func TestWrongTokenIsCountedAndLogged(t *testing.T) {
	w := newWorld(t, setup{})
	const wrong = "wrong-token-0123456789"
	w.do("GET", "/api/v1/tubes", ask{token: wrong}).wants(t, 401, "no-token")
	w.do("POST", "/api/v1/session", ask{json: true, body: `{"token":"` + wrong + `"}`}).wants(t, 401, "no-token")
	if log := w.logged.String(); !strings.Contains(log, "refused a token that is not in the access file") || strings.Contains(log, wrong) {
		t.Errorf("the log: %s", log)
	}
	if n := w.srv.Host().Sums().Rejected[session.RejectedToken]; n != 2 {
		t.Errorf("%d refusals are counted", n)
	}
}
