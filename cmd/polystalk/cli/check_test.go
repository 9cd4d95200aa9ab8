package cli

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"
)

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
}
