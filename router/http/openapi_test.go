package http

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// described is the description as a library reads it.
var described = sync.OnceValues(func() (*openapi3.T, error) {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(description)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

func TestDescriptionIsWellFormed(t *testing.T) {
	_, err := described()
	noErr(t, err)
	w := newWorld(t, setup{anonymous: "read"})
	a := w.do("GET", "/api/v1/openapi.json", ask{}).wants(t, 200, "")
	expect(t, a.body == string(description), "another one is served")
	w.do("GET", "/api/v1/openapi.json", ask{header: map[string]string{"If-None-Match": a.header.Get("ETag")}}).wants(t, 304, "")
}

// TestDescriptionHasEveryRouteAndNoOther, with what it needs.
func TestDescriptionHasEveryRouteAndNoOther(t *testing.T) {
	doc, err := described()
	noErr(t, err)
	left := make(map[string]string)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			left[method+" /api/v1"+path], _ = op.Extensions["x-needs"].(string)
		}
	}
	for _, rt := range testRoutes {
		if !strings.Contains(rt.pattern, " /api/v1/") {
			continue
		}
		needs := left[rt.pattern]
		expect(t, needs == rt.need.String(), "%s needs %v, and is described with %q", rt.pattern, rt.need, needs)
		delete(left, rt.pattern)
	}
	for pattern := range left {
		t.Errorf("%s is described, and is not served", pattern)
	}
}

// routeOf returns the described operation of a request; nil: none.
func routeOf(doc *openapi3.T, r *http.Request) (item *openapi3.PathItem, path string, params map[string]string) {
	asked, ok := strings.CutPrefix(r.URL.EscapedPath(), "/api/v1")
	if !ok {
		return nil, "", nil
	}
	parts := strings.Split(asked, "/")
next:
	for path, item := range doc.Paths.Map() {
		wanted := strings.Split(path, "/")
		if len(wanted) != len(parts) {
			continue
		}
		params := make(map[string]string)
		for i, w := range wanted {
			if strings.HasPrefix(w, "{") {
				params[strings.Trim(w, "{}")], _ = url.PathUnescape(parts[i])
			} else if w != parts[i] {
				continue next
			}
		}
		return item, path, params
	}
	return nil, "", nil
}

// validate checks an answer against the description, and also the request if it was served.
func (w *world) validate(r *http.Request, sent ask, got *answer) {
	w.t.Helper()
	doc, err := described()
	noErr(w.t, err)
	item, path, params := routeOf(doc, r)
	if item == nil {
		return
	}
	op := item.GetOperation(r.Method)
	if op == nil {
		return // the method is not served
	}
	r = r.Clone(context.Background())
	r.Body = io.NopCloser(strings.NewReader(sent.body))
	in := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, QueryParams: r.URL.Query(),
		Route:   &routers.Route{Spec: doc, Path: path, PathItem: item, Method: r.Method, Operation: op},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if got.status < 300 {
		err := openapi3filter.ValidateRequest(context.Background(), in)
		expect(w.t, err == nil, "%s %s is served, and does not go with the description: %v", r.Method, r.URL, err)
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: got.status, Header: got.header,
		Body: io.NopCloser(bytes.NewReader([]byte(got.body))), Options: in.Options,
	}
	err = openapi3filter.ValidateResponse(context.Background(), out)
	expect(w.t, err == nil, "the answer to %s %s does not go with the description: %v\n%s", r.Method, r.URL, err, got.body)
}
