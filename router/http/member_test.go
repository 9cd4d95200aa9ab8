package http

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
)

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
