package cli

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"
)

// TestCheckHidesTheRequestID, because monitoring compares its lines. Elsewhere the id leads to the
// log.
func TestCheckHidesTheRequestID(t *testing.T) {
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

// A lost is a writer that fails.
type lost struct{ err error }

func (w lost) Write([]byte) (int, error) { return 0, w.err }

func TestCheckIsUnknownWhenItsLineCannotBeWritten(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jobs":{"ready":1},"connections":{}}`)
	}))
	defer server.Close()
	for _, err := range []error{syscall.ENOSPC, syscall.EPIPE, syscall.EBADF} {
		for _, args := range [][]string{{"check"}, {"check", "--ready", "0"}, {"check", "--nosuch"}} {
			a := &App{Out: lost{err}, Err: io.Discard, Getenv: func(string) string { return "" }}
			if code := Run(t.Context(), a, append(args, "--server", server.URL)); code != 3 {
				t.Errorf("%q: exit code %d with %v", args, code, err)
			}
		}
	}
}

// TestCheckNeedsFigures: missing figures do not mean 0 jobs.
func TestCheckNeedsFigures(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	}))
	defer server.Close()
	for _, args := range [][]string{{"check"}, {"check", "--tube", "mail"}} {
		a := &App{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}
		if code := Run(t.Context(), a, append(args, "--server", server.URL)); code != 2 {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}

// TestTimesAreSecondsWithoutAUnit, in every flag.
func TestTimesAreSecondsWithoutAUnit(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"2": 2 * time.Second, "0.5": time.Second / 2, "90s": 90 * time.Second, "5m": 5 * time.Minute, "7d": 7 * 24 * time.Hour, "300ms": 300 * time.Millisecond,
		"4294967295": math.MaxUint32 * time.Second,
	} {
		if got, err := readTime("--timeout", text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "soon", "NaN", "inf", "1e300", "2 s"} {
		if got, err := readTime("--timeout", text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
	for _, text := range []string{"0.5", "1500ms", "-1", "4294967296"} {
		if got, err := readSeconds("--ttr", text); err == nil {
			t.Errorf("%q is taken for %v s", text, got)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	}))
	defer server.Close()
	a := &App{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}
	if code := Run(t.Context(), a, []string{"stats", "--timeout", "2", "--server", server.URL}); code != 0 {
		t.Errorf("--timeout 2: exit code %d", code)
	}
}
