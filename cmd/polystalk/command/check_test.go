package command

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestPluginTellsNoRequest: monitoring compares the lines of a check, which are the same as long as
// the trouble is. Elsewhere the request's id leads to the lines of the server's log.
func TestPluginTellsNoRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"type":"/problems/internal","title":"t","status":500,"detail":"what","remedy":"do this","request_id":"r17"}`)
	}))
	defer server.Close()
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := Run(t.Context(), &App{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, append(args, "--server", server.URL))
		return code, out.String()
	}
	if code, line := run("check"); code != 2 || line != "POLYSTALK CRITICAL - what: do this\n" {
		t.Errorf("check: %d, %q", code, line)
	}
	if code, line := run("tube", "mail"); code != 111 || line != "polystalk: what: do this (request r17)\n" {
		t.Errorf("another command: %d, %q", code, line)
	}
}
