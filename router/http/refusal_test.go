package http

import (
	"fmt"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/trend"
)

// TestRemedies: a problem about a member, type, role, name or token says what to do, in plain words:
// without names of Go types and prefixes of libraries.
func TestRemedies(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
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
		{"POST", operations, post(`{"act":"delete"} x`), 422, "act", "unknown", "one of action, as_of, "},
		{"POST", operations, post(`{"action":"delete","select":{"tube":"mail","states":"buried"}}`), 422, "select.states", "type string, not a list", "give a list in brackets, each element a string"},
		{"POST", operations, post(`{"action":"delete","select":{"ids":[1,2]}}`), 422, "select.ids", "type number, not a string", "give a string, in double quotes"},
		{"POST", operations, post(`{"action":"delete","select":{"tube":"mail"},"dry_run":1}`), 422, "dry_run", "type number, not true or false", "give true or false"},
		{"POST", operations, post(`{"action":"delete","select":"mail"}`), 422, "select", "type string, not an object", "give an object"},
		{"POST", operations, post(`{"action":"kick","action":"delete","select":{"tube":"mail"}}`), 400, "action", "more than once", "give it once"},
		{"POST", operations, post(`{"action":"kick","select":{"tube":"mail","Tube":"x"}}`), 400, "select.Tube", "another case", "write it as tube"},
		{"POST", operations, post(`{"action":"set","set":{"body":` + strings.Repeat("[", 20_000) + `}}`), 400, "set.body", "depth", "one JSON object"},
		{"POST", operations, post(`{"action":"delete","select":{"tube":"mail\ud800"}}`), 400, "select.tube", "surrogate", "body_base64"},
		{"POST", operations, ask{json: true}, 400, "", "the body is empty", "one JSON object"},
		{"POST", operations, ask{}, 415, "Content-Type", "is missing", "application/json"},
		{"POST", jobs, post(`{"body_base64":"!"}`), 422, "body_base64", "not base64", "base64"},
		{"POST", jobs, post(`{"body_base64":"QQ"}`), 422, "body_base64", "not base64", "base64"},
		{"POST", jobs, post(`{"body_base64":1}`), 422, "body_base64", "it is of the type number", "base64"},
		{"POST", jobs, post("{\"body\":\"\xff\"}"), 400, "body", "not UTF-8", "body_base64"},
		{"POST", jobs, post(`{"body":"\ud800"}`), 400, "body", "surrogate", "body_base64"},
		{"POST", jobs, post(`{"body":"a\udc00"}`), 400, "body", "surrogate", "body_base64"},
		{"POST", jobs, post("\xef\xbb\xbf{}"), 400, "", "byte order mark", "without it"},
		{"POST", jobs, post(`{"body":`), 400, "body", "ends too early", "whole"},
		{"POST", jobs, post(`{"body":"x"`), 400, "", "ends too early", "whole"},
		{"POST", jobs, post(`{`), 400, "", "ends too early", "whole"},
		{"POST", jobs, post(`{}x`), 400, "", "not JSON", "one JSON object"},
		{"POST", jobs, post(`{}{}`), 400, "", "not JSON", "one JSON object"},
		{"POST", jobs, post(`{'a':1}`), 400, "", "not JSON", "one JSON object"},
		{"POST", jobs, post(`{"body":"\q"}`), 400, "body", "not JSON", "one JSON object"},
		{"POST", jobs, post(`[]`), 422, "", "it is of the type list, not an object", "object"},
		{"POST", jobs, post(`null`), 422, "", "null, not an object", "object"},
		{"POST", jobs, post(`{"body":null}`), 422, "body", "it is null", "omit the member"},
		{"POST", jobs, post(`{"pri":null}`), 422, "pri", "it is null", "omit the member"},
		{"POST", jobs, post(`{"delay_seconds":null}`), 422, "delay_seconds", "it is null", "omit the member"},
		{"POST", jobs, post(`{"body_base64":null}`), 422, "body_base64", "it is null", "omit the member"},
		{"PATCH", "/api/v1/jobs/1", post(`{"prio":1}`), 422, "prio", "unknown", "one of body, body_base64, delay_seconds, pri, ttr_seconds"},
		{"GET", "/api/v1/tubes/%FF%5Cx", ask{}, 404, "", `there is no tube "\xFF\\x"`, "look it up again"},
		{"GET", "/api/v1/tubes/a/b/c", ask{}, 404, "", "no such path", "/tubes/-?tube=%2F"},
		{"GET", "/api/v1/tubes/%2F", ask{}, 404, "", "no such path", "/tubes/-?tube=%2F"},
		{"GET", "/api/v1/jobs/abc", ask{}, 400, "id", `"abc" is not the id of a job`, ""}, // two kinds of ids may have been confused
		{"GET", "/api/v1/connections/abc", ask{}, 400, "id", `"abc" is not the id of a connection`, ""},
		{"GET", "/api/v1/operations/abc", ask{}, 400, "id", `"abc" is not the id of an operation`, ""},
		{"GET", "/api/v1/nothing", ask{}, 404, "", "no such path", "openapi.json"},
		{"PUT", "/api/v1/drain", ask{}, 403, "", "a request without a token", "--http-tokens-file"},
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
	w := newWorld(t, setup{anonymous: access.Operate, maxJob: 100, options: withHistory(1)})
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
	none := newWorld(t, setup{anonymous: access.Read})
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
