package http

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// TestRemedies: a problem about a member, type, role, name or token says what would be right.
func TestRemedies(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, maxJob: 200_000})
	w.stocked()
	post := func(body string) ask { return ask{json: true, body: body} }
	for _, tt := range []struct {
		method, path string
		ask          ask
		status       int
		field        string
		detail       string // what it contains
		remedy       string // the same
	}{
		{"POST", operations, post(`{"action":"delete","select":{"tube":"mail","state":"buried"}}`), 422, "select.state", "unknown", "one of all_tubes, contains, id_max, id_min, ids, older_than_seconds, states, tube, tube_path"},
		{"POST", operations, post(`{"action":"set","select":{"tube":"mail"},"set":{"priority":1}}`), 422, "set.priority", "unknown", "delay_seconds, pri, ttr_seconds"},
		{"POST", operations, post(`{"act":"delete"}`), 422, "act", "unknown", "one of action, as_of, "},
		{"POST", operations, post(`{"act":"delete"} x`), 422, "act", "unknown", "one of action, as_of, "},
		{"POST", operations, post(`{"action":"delete","select":{"tube":"mail","states":"buried"}}`), 422, "select.states", "type string, and not a list", "give a list, in brackets, of which each element is a string"},
		{"POST", operations, post(`{"action":"delete","select":{"ids":[1,2]}}`), 422, "select.ids", "type number, and not a string", "give a string, in double quotes"},
		{"POST", operations, post(`{"action":"delete","select":{"tube":"mail"},"dry_run":1}`), 422, "dry_run", "type number, and not true or false", "give true or false"},
		{"POST", operations, post(`{"action":"delete","select":"mail"}`), 422, "select", "type string, and not an object", "give an object"},
		{"POST", operations, post(`{"action":"kick","action":"delete","select":{"tube":"mail"}}`), 400, "action", "more than once", "give it once"},
		{"POST", operations, post(`{"action":"kick","select":{"tube":"mail","Tube":"x"}}`), 400, "select.Tube", "another case", "write it as tube"},
		{"POST", operations, post(`{"action":"set","set":{"body":` + strings.Repeat("[", 20_000) + `}}`), 400, "set.body", "depth", "one JSON object"},
		{"POST", operations, post(`{"action":"delete","select":{"tube":"mail\ud800"}}`), 400, "select.tube", "surrogate", "body_base64"},
		{"POST", operations, ask{json: true}, 400, "", "the body is empty", "one JSON object"},
		{"POST", operations, ask{}, 415, "Content-Type", "is missing", "application/json"},
		{"PATCH", "/api/v1/jobs/1", post(`{"prio":1}`), 422, "prio", "unknown", "one of body, body_base64, delay_seconds, pri, ttr_seconds"},
		{"GET", "/api/v1/tubes/%FF%5Cx", ask{}, 404, "", `there is no tube "\xFF\\x"`, "look it up again"},
		{"GET", "/api/v1/tubes/a/b/c", ask{}, 404, "", "no such path", "/tubes/-?tube=%2F"},
		{"GET", "/api/v1/tubes/%2F", ask{}, 404, "", "no such path", "/tubes/-?tube=%2F"},
		{"GET", "/api/v1/jobs/abc", ask{}, 400, "id", `"abc" is not the id of a job`, ""}, // two kinds of ids may have been confused
		{"GET", "/api/v1/connections/abc", ask{}, 400, "id", `"abc" is not the id of a connection`, ""},
		{"GET", "/api/v1/operations/abc", ask{}, 400, "id", `"abc" is not the id of an operation`, ""},
		{"GET", "/api/v1/nothing", ask{}, 404, "", "no such path", "openapi.json"},
		{"PUT", "/api/v1/drain", ask{}, 403, "", "a request without a token", "--http-tokens-file"},
		{"GET", "/api/v1/server", ask{token: "stranger-0123456789"}, 401, "", "not one of", "SHA-256"},
	} {
		p := w.do(tt.method, tt.path, tt.ask).wants(t, tt.status, "").problem(t)
		expect(t, p.Field == tt.field && strings.Contains(p.Detail, tt.detail) && strings.Contains(p.Remedy, tt.remedy), "%s %s %s: %+v", tt.method, tt.path, tt.ask.body, p)
	}
}

// TestJSONMistakesAreNamedInPlainWords without names of Go types and without prefixes of libraries.
func TestJSONMistakesAreNamedInPlainWords(t *testing.T) {
	for _, tt := range []struct {
		body          string
		status        int
		field, detail string
		remedy        string
	}{
		{`{"body_base64":"!"}`, 422, "body_base64", "not base64", "base64"},
		{`{"body_base64":"QQ"}`, 422, "body_base64", "not base64", "base64"},
		{`{"body_base64":1}`, 422, "body_base64", "it is of the type number", "base64"},
		{"{\"body\":\"\xff\"}", 400, "body", "no UTF-8", "body_base64"},
		{`{"body":"\ud800"}`, 400, "body", "surrogate", "body_base64"},
		{`{"body":"a\udc00"}`, 400, "body", "surrogate", "body_base64"},
		{"\xef\xbb\xbf{}", 400, "", "byte order mark", "without it"},
		{`{"body":`, 400, "body", "ends too early", "whole"},
		{`{"body":"x"`, 400, "", "ends too early", "whole"},
		{`{`, 400, "", "ends too early", "whole"},
		{`{}x`, 400, "", "no JSON", "one JSON object"},
		{`{}{}`, 400, "", "no JSON", "one JSON object"},
		{`{'a':1}`, 400, "", "no JSON", "one JSON object"},
		{`{"body":"\q"}`, 400, "body", "no JSON", "one JSON object"},
		{`[]`, 422, "", "it is of the type list, and not an object", "object"},
		{`null`, 422, "", "null, and not an object", "object"},
		{`{"body":null}`, 422, "body", "it is null", "leave the member out"},
		{`{"pri":null}`, 422, "pri", "it is null", "leave the member out"},
		{`{"delay_seconds":null}`, 422, "delay_seconds", "it is null", "leave the member out"},
		{`{"body_base64":null}`, 422, "body_base64", "it is null", "leave the member out"},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Content-Type", "application/json")
		err := (&call{R: r, Body: []byte(tt.body)}).decode(new(wire.NewJob))
		p, ok := errors.AsType[*wire.Problem](err)
		if !ok {
			t.Errorf("%q: %v", tt.body, err)
			continue
		}
		if p.Status != tt.status || p.Field != tt.field || !strings.Contains(p.Detail, tt.detail) || !strings.Contains(p.Remedy, tt.remedy) {
			t.Errorf("%q: %d, field %q, %q, %q", tt.body, p.Status, p.Field, p.Detail, p.Remedy)
		}
		for _, s := range []string{"json:", "jsontext", "Go ", "uint8", "admin.", "EOF", "unmarshal"} {
			expect(t, !strings.Contains(p.Detail+p.Remedy, s), "%q: it says %q: %s", tt.body, s, p.Detail)
		}
	}
}
