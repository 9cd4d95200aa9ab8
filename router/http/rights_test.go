package http

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

const (
	webToken  = "web-token-0123456789"
	lookToken = "look-token-0123456789"
	putToken  = "put-token-0123456789"
)

// rightsText has identities that see some tubes only.
var rightsText = accessText() +
	identity("web", webToken, "put = [\"web-*\"]\nwork = [\"web-*\"]\nmanage = [\"web-*\", \"!web-fixed\"]\nserver = \"read\"") +
	identity("eye", lookToken, "look = [\"web-*\"]") +
	identity("producer", putToken, "put = [\"web-*\", \"drop\"]")

// restricted returns a server with a job in the tubes web-1 (1), secret (2) and web-fixed (3).
func restricted(t *testing.T, text string) *world {
	t.Helper()
	w := newWorld(t, setup{access: text, dir: t.TempDir(), options: withHistory(10)})
	for _, tube := range []string{"web-1", "secret", "web-fixed"} {
		w.do("POST", "/api/v1/tubes/"+tube+"/jobs", ask{token: adminToken, header: octets, body: tube}).wants(t, 201, "")
	}
	return w
}

// plain returns what a client can see of an answer: all but the id of the request, the time, and
// the name that the client has sent.
func (a *answer) plain(name string) string {
	body := strings.ReplaceAll(a.body, a.header.Get("X-Request-Id"), "ID")
	h := a.header.Clone()
	for _, own := range []string{"Date", "X-Request-Id", "Content-Length"} {
		h.Del(own)
	}
	return fmt.Sprintf("%d %v %s", a.status, h, strings.ReplaceAll(body, name, "NAME"))
}

// bodiesOf returns bodies for a route: one that it can use, and one that it cannot.
func bodiesOf(rt *route) []ask {
	good := map[string]string{"/pause": `{"seconds":1}`, "/kick": `{"count":1}`, "/move": `{"to":"web-2"}`, "/copy": `{"to":"web-2"}`, "{tube}/jobs": `{"body":"x"}`}
	body := `{"pri":7}`
	for end, b := range good {
		if strings.HasSuffix(rt.pattern, end) {
			body = b
		}
	}
	if rt.flags&takesBody == 0 {
		return []ask{{}}
	}
	return []ask{{json: true, body: body}, {json: true, body: `{"x":`}, {body: "x"}}
}

// TestWhatAClientMayNotSeeIsAnsweredAsMissing: on every route, with every kind of request, and for
// identities with and without other verbs there.
func TestWhatAClientMayNotSeeIsAnsweredAsMissing(t *testing.T) {
	w := restricted(t, rightsText)
	for range 2 {
		w.do("POST", operations, ask{token: adminToken, json: true, body: `{"action":"kick","select":{"tube":"secret"}}`}).wants(t, 200, "")
	}
	for _, token := range []string{webToken, lookToken, putToken} {
		same := func(method, forbidden, missing, name, other string, a ask) *answer {
			t.Helper()
			a.token = token
			one, two := w.do(method, forbidden, a), w.do(method, missing, a)
			expect(t, one.plain(name) == two.plain(other), "%s %s %q:\n%s\n%s", method, forbidden, a.body, one.plain(name), two.plain(other))
			expect(t, one.status >= 400, "%s %s: %d", method, forbidden, one.status)
			return one
		}
		for i := range testRoutes {
			rt := &testRoutes[i]
			_, path, _ := strings.Cut(rt.pattern, " ")
			for _, a := range bodiesOf(rt) {
				query := ""
				if rt.pattern == "DELETE /api/v1/tubes/{tube}/jobs" {
					query = "?state=ready"
				}
				switch {
				case strings.Contains(path, "{tube}"):
					at := func(tube string) string { return strings.Replace(path, "{tube}", tube, 1) + query }
					same(rt.method(), at("secret"), at("nobody"), "secret", "nobody", a)
					indirect := func(tube string) string {
						return at("-") + map[bool]string{true: "?", false: "&"}[query == ""] + "tube=" + tube
					}
					same(rt.method(), indirect("secret"), indirect("nobody"), "secret", "nobody", a)
				case strings.Contains(path, "/jobs/{id}"), strings.Contains(path, "/operations/{id}"):
					at := func(id string) string { return strings.Replace(path, "{id}", id, 1) }
					noun := map[bool]string{true: "job ", false: "operation "}[strings.Contains(path, "/jobs/")]
					same(rt.method(), at("2"), at("8"), noun+"2", noun+"8", a)
				}
			}
		}
		post := func(body string) ask { return ask{json: true, body: body} }
		for format, path := range map[string]string{
			`{"to":%q}`: "/api/v1/jobs/1/move",
			`{"action":"delete","select":{"tube":%q}}`: operations, `{"action":"delete","select":{"tube":%q},"dry_run":true}`: operations, `{"action":"kick","select":{"tube":%q,"ids":["2"]}}`: operations,
			`{"action":"move","select":{"tube":%q},"to":"web-1"}`: operations, `{"action":"delete","select":{"tube_path":%q}}`: operations, `{"action":"copy","select":{"tube":"web-1"},"to":%q}`: operations,
		} {
			one := w.do("POST", path, func() ask { a := post(fmt.Sprintf(format, "secret")); a.token = token; return a }())
			two := w.do("POST", path, func() ask { a := post(fmt.Sprintf(format, "nobody")); a.token = token; return a }())
			expect(t, one.status >= 400 && one.plain("secret") == two.plain("nobody"), "%s: %s", format, one.body)
		}
		same("GET", "/api/v1/history?tube=secret", "/api/v1/history?tube=nobody", "secret", "nobody", ask{})
	}
	if got := w.do("GET", "/api/v1/tubes/secret", ask{token: adminToken}); !strings.Contains(got.body, `"ready":1`) {
		t.Errorf("the forbidden tube was changed: %s", got.body)
	}
}

// TestIDsOfForbiddenJobsAreGone: an operation on ids in a tube answers alike for a job in another tube
// and for no job, whatever it selects.
func TestIDsOfForbiddenJobsAreGone(t *testing.T) {
	w := restricted(t, rightsText)
	for _, rest := range []string{
		`}`, `,"states":["buried"]}`, `,"states":["ready"]}`, `,"contains":"secret"}`, `,"contains":"nothing"}`, `,"id_min":"9"}`,
		`},"expect_at_most":0`, `},"dry_run":true`,
	} {
		for _, tube := range []string{"web-1", "web-2"} {
			try := func(id string) string {
				body := fmt.Sprintf(`{"action":"kick","select":{"tube":%q,"ids":["1",%q]%s}`, tube, id, rest)
				a := w.do("POST", operations, ask{token: webToken, json: true, body: body})
				if a.status != 200 {
					return a.plain("")
				}
				v := as[wire.Operation](t, a)
				return fmt.Sprint(v.State, v.ToLook, v.Looked, v.Matched, v.Done, v.Skipped, v.Selected != nil)
			}
			forbidden, missing := try("2"), try("77")
			expect(t, forbidden == missing, "%s %s:\n%s\n%s", tube, rest, forbidden, missing)
		}
	}
}

// TestVerbsAreNeeded: with look a refusal names the verb and the tube, and a verb is enough without
// the others.
func TestVerbsAreNeeded(t *testing.T) {
	w := restricted(t, rightsText)
	refused := func(method, path, token, detail string, a ask) {
		t.Helper()
		a.token = token
		p := w.do(method, path, a).wants(t, 403, "not-permitted").problem(t)
		expect(t, strings.Contains(p.Detail, detail), "%s %s: %s", method, path, p.Detail)
	}
	post := func(body string) ask { return ask{json: true, body: body} }
	refused("POST", "/api/v1/tubes/web-1/jobs", lookToken, `the verb put on the tube "web-1", but the identity "eye"`, post(`{}`))
	refused("DELETE", "/api/v1/jobs/1", lookToken, `the verb manage on the tube "web-1"`, ask{})
	refused("PATCH", "/api/v1/jobs/3", webToken, `the verb manage on the tube "web-fixed"`, post(`{"pri":1}`))
	refused("PUT", "/api/v1/tubes/web-fixed/pause", webToken, `manage on the tube "web-fixed"`, post(`{"seconds":1}`))
	refused("POST", operations, webToken, `manage on every tube`, post(`{"action":"delete","select":{"all_tubes":true}}`))
	refused("POST", operations, webToken, `manage on every tube`, post(`{"action":"delete","select":{"ids":["1"]}}`))
	refused("GET", "/api/v1/connections", lookToken, `the level read of the server`, ask{})
	refused("GET", "/api/v1/history", lookToken, `the level read of the server`, ask{})
	refused("GET", "/api/v1/events?topics=server", lookToken, `the level read of the server`, ask{})
	refused("PUT", "/api/v1/drain", webToken, `the level admin of the server`, ask{})
	refused("GET", "/api/v1/tubes", putToken, `the verb look on some tube`, ask{})

	ok := func(method, path, token string, status int, a ask) *answer {
		t.Helper()
		a.token = token
		return w.do(method, path, a).wants(t, status, "")
	}
	ok("POST", "/api/v1/tubes/web-9/jobs", putToken, 201, post(`{"body":"x"}`))
	ok("GET", "/api/v1/jobs/1", lookToken, 200, ask{})
	ok("GET", "/api/v1/jobs/1?body=full", webToken, 200, ask{}).has(t, "web-1")
	refused("GET", "/api/v1/jobs/1?body=full", lookToken, "may not see job bodies", ask{})
	ok("POST", "/api/v1/jobs/1/copy", webToken, 201, post(`{"to":"web-2"}`))
	ok("POST", operations, webToken, 200, post(`{"action":"bury","select":{"tube":"web-1"}}`))
	ok("POST", "/api/v1/tubes/web-1/kick", webToken, 200, post(`{"count":1}`))

	v := as[wire.PutLines](t, ok("POST", "/api/v1/jobs", putToken, 200, ask{header: ndjson, body: "{\"tube\":\"web-5\",\"body\":\"a\"}\n{\"tube\":\"secret\",\"body\":\"b\"}\n{\"x\":1}\n{\"tube\":\"drop\",\"body\":\"c\"}\n"}))
	expect(t, v.Lines[0].ID > 0 && v.Lines[3].ID > 0 && v.Lines[2].Problem.Status == 422, "%+v", v.Lines)
	expect(t, v.Lines[1].Problem.Status == 404 && strings.Contains(v.Lines[1].Problem.Detail, `"secret"`), "%+v", v.Lines[1].Problem)

	list := w.audit("")
	at := slices.IndexFunc(list, func(e wire.Entry) bool { return e.Status == 403 && e.Name == "eye" && e.Path == "/api/v1/jobs/1" })
	expect(t, at >= 0 && list[at].Role == "custom", "the audit does not have the refusal: %+v", list)
	denials := as[wire.Denials](t, ok("GET", "/api/v1/denials", adminToken, 200, ask{})).Denials
	at = slices.IndexFunc(denials, func(d wire.Denial) bool { return d.Identity == "eye" && d.Verb == "manage" && d.Tube == "web-1" })
	expect(t, at >= 0 && denials[at].Count == 1 && denials[at].Peer == "127.0.0.1", "%+v", denials)
}

// TestListsLeaveOut what the client may not look at.
func TestListsLeaveOut(t *testing.T) {
	w := restricted(t, rightsText)
	w.do("POST", operations, ask{token: adminToken, json: true, body: `{"action":"bury","select":{"tube":"secret"}}`}).wants(t, 200, "")
	w.do("POST", operations, ask{token: adminToken, json: true, body: `{"action":"bury","select":{"tube":"web-1"}}`}).wants(t, 200, "")
	w.do("POST", operations, ask{token: adminToken, json: true, body: `{"action":"copy","select":{"tube":"web-1"},"to":"secret"}`}).wants(t, 200, "")
	w.do("POST", operations, ask{token: adminToken, json: true, body: `{"action":"kick","select":{"all_tubes":true}}`}).wants(t, 200, "")
	for _, path := range []string{
		"/api/v1/tubes", "/api/v1/tubes?sort=-ready&limit=1000", "/api/v1/jobs?body=full", "/api/v1/jobs?contains=e&body=preview", operations, "/metrics", "/metrics/tubes", "/api/v1/history",
	} {
		w.do("GET", path, ask{token: adminToken}).wants(t, 200, "")
		a := w.do("GET", path, ask{token: webToken}).wants(t, 200, "")
		expect(t, !strings.Contains(a.body, "secret"), "%s: %s", path, a.body)
		expect(t, path == "/api/v1/history" || strings.Contains(a.body, "web-1"), "%s: %s", path, a.body)
	}
	v := get[wire.Tubes](w, "/api/v1/tubes", webToken)
	expect(t, v.Matching == 2 && len(v.Tubes) == 2, "%+v", v)
	jobs := get[wire.Jobs](w, "/api/v1/jobs?limit=1", webToken)
	expect(t, len(jobs.Jobs) == 1 && jobs.Looked <= 3, "%+v", jobs)
	ops := get[wire.Operations](w, operations, webToken).Operations
	expect(t, len(ops) == 1 && ops[0].Action == "bury", "%+v", ops)
	w.do("DELETE", operations+"/1", ask{token: webToken}).wants(t, 404, "not-found")
	w.do("DELETE", operations+"/2", ask{token: lookToken}).wants(t, 403, "not-permitted")
}

// TestStreamsShrinkWithTheRights of their client, and end when a topic or the identity is gone.
func TestStreamsShrinkWithTheRights(t *testing.T) {
	long(t)
	t.Parallel()
	w := restricted(t, rightsText)
	eye := w.stream("topics=tubes,tube:web-1", "Authorization: Bearer "+lookToken)
	want(eye, "tubes", func(v *wire.TubesEvent) bool { return len(v.Tubes) == 2 && v.Matching == 2 })
	hidden := w.stream("topics=tube:secret", "Authorization: Bearer "+lookToken)
	want(hidden, "tube", func(v *wire.TubeEvent) bool { return v.Tube == nil })
	all := w.stream("topics=tubes", "Authorization: Bearer "+readToken) // other clients see the same as before
	want(all, "tubes", func(v *wire.TubesEvent) bool { return v.Matching == 4 })
	server := w.stream("topics=server", "Authorization: Bearer "+webToken)
	server.next()
	next := strings.Replace(rightsText, `look = ["web-*"]`, `look = ["web-f*"]`, 1)
	w.reload(strings.Replace(next, "\nserver = \"read\"\n[identity.eye]", "\n[identity.eye]", 1))
	gone := want(eye, "tubes", func(v *wire.TubesEvent) bool { return len(v.Gone) > 0 })
	expect(t, len(gone.Gone) == 1 && gone.Gone[0] == "web-1" && gone.Matching == 1, "%+v", gone)
	want(eye, "tube", func(v *wire.TubeEvent) bool { return v.Tube == nil })
	server.ends()
	w.reload(accessText())
	eye.ends()
}

// TestTokensAreAcceptedOnlyWhereOthersCannotReadThem, as by the other protocols. What is refused does
// not show whether the token is valid.
func TestTokensAreAcceptedOnlyWhereOthersCannotReadThem(t *testing.T) {
	for _, tt := range []struct {
		from, proto string
		permitted   bool // by the access file
		want        int
	}{
		{"192.0.2.7", "", false, 401},
		{"192.0.2.7", "http", false, 401},
		{"192.0.2.7", "https", false, 200},
		{"192.0.2.7", "", true, 200},
		{"2001:db8::1", "", false, 401},
		{"127.0.0.1", "", false, 200},
		{"::1", "http", false, 200},
	} {
		w := newWorld(t, setup{access: fmt.Sprintf("plaintext-tokens = %t\n", tt.permitted) + accessText(),
			options: func(o *Options) { o.Rules.Proxies = append(o.Rules.Proxies, netip.MustParsePrefix("127.0.0.1/32")) }})
		header := map[string]string{"X-Forwarded-For": tt.from}
		if tt.proto != "" {
			header["X-Forwarded-Proto"] = tt.proto
		}
		for _, token := range []string{readToken, "unknown-token-0123456789"} {
			for _, a := range []*answer{
				w.do("GET", "/api/v1/tubes", ask{token: token, header: header}),
				w.do("POST", "/api/v1/session", ask{json: true, body: fmt.Sprintf(`{"token":%q}`, token), header: header}),
			} {
				want := tt.want
				if token != readToken {
					want = 401
				}
				expect(t, a.status == want && strings.Contains(a.body, "without TLS") == (tt.want == 401), "%+v, %s: %d %s", tt, token, a.status, a.body)
			}
		}
	}
}

// TestIdentitiesOfRequests: a token, a session, the network of the client, also behind a trusted
// proxy, and else the default.
func TestIdentitiesOfRequests(t *testing.T) {
	w := newWorld(t, setup{access: accessText() + "[identity.near]\nnetworks = [\"127.0.0.0/8\"]\nlook = [\"*\"]\n[identity.office]\nnetworks = [\"192.0.2.0/24\"]\nput = [\"*\"]\n[identity.default]\nput = [\"public-*\"]\n",
		options: func(o *Options) { o.Rules.Proxies = append(o.Rules.Proxies, netip.MustParsePrefix("127.0.0.1/32")) }})
	is := func(name, method string, a ask) {
		t.Helper()
		v := as[wire.Session](t, w.do("GET", "/api/v1/session", a).wants(t, 200, ""))
		expect(t, v.Name == name && v.Method == method, "%+v: %+v", a, v)
	}
	from := func(addr string) map[string]string { return map[string]string{"X-Forwarded-For": addr} }
	is("near", "network", ask{})
	is("office", "network", ask{header: from("192.0.2.7")})
	is("default", "default", ask{header: from("198.51.100.1")})
	secure := from("192.0.2.7")
	secure["X-Forwarded-Proto"] = "https"
	is("worker", "token", ask{token: operateToken, header: secure})
	is("worker", "token", ask{header: map[string]string{"Cookie": w.login(operateToken), "X-Forwarded-For": "192.0.2.7"}})
	is("near", "network", ask{header: map[string]string{"Cookie": "x=y"}})
	// A browser in a network may have sent the request for another site.
	w.do("GET", "/api/v1/tubes", ask{host: "evil.example"}).wants(t, 421, "wrong-host")

	w.reload(accessText())
	is("", "default", ask{})
	w.do("GET", "/api/v1/tubes", ask{}).wants(t, 401, "no-token")
	w.do("GET", "/api/v1/tubes/any", ask{}).wants(t, 401, "no-token")
}

// TestIdentitiesAreShown to administrators, and its own to each client.
func TestIdentitiesAreShown(t *testing.T) {
	w := restricted(t, rightsText)
	all := get[wire.Identities](w, "/api/v1/identities", adminToken)
	expect(t, len(all.Identities) == 7 && len(all.Digest) == 64 && all.Identities[0].Name == "boss" && all.Identities[0].Role == "admin" && all.Identities[0].Credentials["token"] == 1, "%+v", all)
	own := get[wire.Identity](w, "/api/v1/identities/web?tube=web-fixed", webToken)
	expect(t, own.Server == "read" && own.Tube != nil && slices.Equal(own.Tube.Verbs, []string{"put", "work", "look"}) && strings.Contains(own.Tube.Because["manage"], "!web-fixed"), "%+v %+v", own, own.Tube)
	w.do("GET", "/api/v1/identities/eye", ask{token: webToken}).wants(t, 403, "not-permitted")
	w.do("GET", "/api/v1/identities/nobody", ask{token: webToken}).wants(t, 403, "not-permitted")
	w.do("GET", "/api/v1/identities/nobody", ask{token: adminToken}).wants(t, 404, "not-found")
	v := get[wire.Session](w, "/api/v1/session", webToken)
	expect(t, v.Role == "custom" && v.Server == "read" && slices.Equal(v.Verbs, []string{"put", "work", "look", "manage"}) && len(v.EveryTube) == 0 && v.Bodies == "full", "%+v", v)
	v = get[wire.Session](w, "/api/v1/session", readToken)
	expect(t, v.Role == "read" && slices.Equal(v.EveryTube, []string{"look"}) && v.Bodies == "none", "%+v", v)
	bare := newWorld(t, setup{noTokens: true, anonymous: "operate"})
	v = get[wire.Session](bare, "/api/v1/session")
	expect(t, v.Name == "" && v.Role == "operate" && v.Method == "server" && len(v.EveryTube) == 4, "%+v", v)
	bare = newWorld(t, setup{noTokens: true, prepare: func(a *API) {
		a.handle([]route{{pattern: "GET /list", handler: a.getIdentities}, {pattern: "GET /refusals", handler: a.getDenials}})
	}})
	for _, path := range []string{"/list", "/refusals"} {
		bare.do("GET", path, ask{}).wants(t, http.StatusNotFound, "not-found").has(t, "--access-file")
	}
}

// FuzzRights: whatever an identity and a tube are called, a request for the tube is permitted
// exactly if the identity has the verb.
func FuzzRights(f *testing.F) {
	f.Add("web-*", "web-1")
	f.Add("*", ".")
	f.Add(`\*`, "*")
	f.Add("a/b", "a/b")
	f.Add("-", "-")
	f.Fuzz(func(t *testing.T, pattern, tube string) {
		if strings.ContainsFunc(pattern, func(r rune) bool { return r < ' ' || r == '"' || r > '~' }) || tube == "" || len(tube) > 200 {
			return
		}
		text := fmt.Sprintf("[identity.x]\ntokens = [\"sha256:%x\"]\nlook = ['%s']\n", access.DigestOf(webToken), pattern)
		ids, err := access.Open(writeFile(t, text))
		if err != nil {
			return
		}
		a := &API{opts: Options{Access: ids}}
		c := &call{By: ids.Token(webToken), rt: &route{pattern: "GET /api/v1/tubes/{tube}", need: look}}
		may := c.By.Verbs([]byte(tube))&access.Look != 0
		for _, target := range []string{"/api/v1/tubes/-?" + url.Values{"tube": {tube}}.Encode()} {
			r, err := http.NewRequest("GET", target, nil)
			noErr(t, err)
			mux := http.NewServeMux()
			mux.HandleFunc(c.rt.pattern, func(_ http.ResponseWriter, r *http.Request) {
				c.R = r
				expect(t, tubeOf(c) == tube, "%s is the tube %q", target, tubeOf(c))
				expect(t, (a.permits(c) == nil) == may, "%q on %q: %v", pattern, tube, a.permits(c))
				nameTube(c)
				expect(t, tubeOf(c) == tube, "%s becomes the tube %q", target, tubeOf(c))
			})
			mux.ServeHTTP(nil, r)
		}
	})
}
