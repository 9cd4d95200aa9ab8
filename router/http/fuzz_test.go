package http

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// FuzzCursor: what is no cursor of the list is refused, what is one is read as it was
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

// FuzzRequest: whatever path, query and body come, the answer is one that is described, and
// never a mistake of the server's.
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
	w := newWorld(f, setup{anonymous: access.Operate, maxJob: 1000, options: withHistory(10)})
	f.Fuzz(func(t *testing.T, method, target, kind, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") || u.Host != "" {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
		r.Method, r.URL, r.Host = method, u, "localhost"
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		r = r.WithContext(ctx) // streams have no end of their own
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

// FuzzPutStoresOnlyWhatWasSent: the stored body is the one member body or body_base64 of the
// JSON that was sent, read by another parser, and JSON that has no such meaning stores nothing.
func FuzzPutStoresOnlyWhatWasSent(f *testing.F) {
	for _, s := range []string{
		`{"body":"x"}`, "{\"body\":\"\xff\xfe\"}", `{"body":"\ud800"}`, `{"body":"\ud83d\ude00\u0000\ufffd"}`, `{"body":"a","body":"b"}`,
		`{"BODY":"x"}`, `{"body_base64":"AP8="}`, `{"body":null,"body_base64":"QQ==","pri":7}`, `{"body":"x"}{}`, "\ufeff{}", `{"b\u006fdy":"x"}`,
	} {
		f.Add([]byte(s))
	}
	w := newWorld(f, setup{anonymous: access.Operate, maxJob: 1000})
	send := func(method, target string, body []byte) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, target, bytes.NewReader(body))
		r.Host = "localhost"
		r.Header.Set("Authorization", "Bearer "+operateToken)
		if body != nil {
			r.Header.Set("Content-Type", "application/json")
		}
		got := httptest.NewRecorder()
		w.web.ServeHTTP(got, r)
		return got
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		put := send("POST", "/api/v1/tubes/mail/jobs", append([]byte{}, sent...))
		if put.Code != 201 {
			return
		}
		job := "/api/v1/jobs/" + path.Base(put.Header().Get("Location"))
		stored := send("GET", job+"/body", nil).Body.Bytes()
		send("DELETE", job, nil)
		want, err := bodyOf(sent)
		require(t, err == nil && bytes.Equal(stored, want), "%q stores %q, want %q, %v", sent, stored, want, err)
	})
}

// bodyOf is the body of a job in JSON, and an error for JSON with more than one meaning.
func bodyOf(sent []byte) (body []byte, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(sent, &members); err != nil || !utf8.Valid(sent) {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(sent))
	names := 0
	for d.More() || names == 0 {
		token, err := d.Token()
		if err != nil || token == nil {
			return nil, err // null alone
		}
		if token == json.Delim('{') {
			names = 1
			continue
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		names++
	}
	if names-1 != len(members) {
		return nil, errors.New("a member is there twice")
	}
	for name := range members {
		if !slices.Contains([]string{"body", "body_base64", "pri", "delay_seconds", "ttr_seconds"}, name) {
			return nil, fmt.Errorf("%q is unknown", name)
		}
	}
	for name, raw := range members {
		if string(raw) == "null" {
			return nil, fmt.Errorf("%q is null", name)
		}
	}
	var text *string
	if raw := members["body"]; raw != nil {
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
	}
	if text == nil {
		err = json.Unmarshal([]byte(cmp.Or(string(members["body_base64"]), "null")), &body)
		return body, err
	}
	replaced := strings.Count(*text, "\ufffd")
	meant := strings.Count(string(members["body"]), "\ufffd") + strings.Count(strings.ToLower(string(members["body"])), `\ufffd`)
	if replaced > meant {
		return nil, errors.New("octets were replaced")
	}
	return []byte(*text), nil
}
