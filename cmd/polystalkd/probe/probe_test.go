package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// configOf is that of a command line.
func configOf(t *testing.T, args ...string) *config.Config {
	t.Helper()
	c, err := config.Parse(args, func(string) (string, bool) { return "", false })
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refused is the only line that a probe must end with.
func refused(t *testing.T, c *config.Config, path string, code int, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	line, err := Ask(ctx, c, path)
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || f.Code != code || strings.Contains(f.Error(), "\n") {
		t.Errorf("%s: %q, %v", path, line, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(f.Error(), w) {
			t.Errorf("%s: %q has no %q", path, f, w)
		}
	}
}

func TestProbeThatCannotBeAsked(t *testing.T) {
	refused(t, configOf(t), "/readyz", fault.Usage, "--http", "127.0.0.1:11380")
	there := configOf(t, "--http", "127.0.0.1:1")
	for _, path := range []string{"readyz", "", "http://elsewhere/", "/%zz", "/a b\n"} {
		refused(t, there, path, fault.Usage, "--probe", "/readyz")
	}
	refused(t, configOf(t, "--http", "127.0.0.1:0"), "/readyz", fault.Usage, "--http", "serving HTTP")
}

func TestProbeOfNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	refused(t, configOf(t, "--http", l.Addr().String()), "/readyz", fault.System, "http://"+l.Addr().String()+"/readyz: nobody listens", "start the server")
	path := filepath.Join(t.TempDir(), "none")
	refused(t, configOf(t, "--http", "unix:"+path), "/readyz", fault.System, "unix:"+path+":/readyz: nobody listens")
}

// serve answers what is asked at an address of its own.
func serve(t *testing.T, h http.HandlerFunc) *config.Config {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return configOf(t, "--http", s.Listener.Addr().String())
}

// TestProbeOfSick: one line, whatever the server says, and nothing of it that a terminal
// would obey.
func TestProbeOfSick(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "starting\x1b[2J\nthe journal is being read\n")
	})
	refused(t, c, "/readyz", fault.System, "503 Service Unavailable: starting?[2J:", "/readyz?verbose")
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	refused(t, elsewhere, "/readyz", fault.System, "302")
	endless := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	})
	refused(t, endless, "/readyz", fault.System, "500")
}

// TestProbeOfSilence ends with its context, as one of another protocol's server does.
func TestProbeOfSilence(t *testing.T) {
	asked := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		cancel(context.DeadlineExceeded)
	}()
	if line, err := Ask(ctx, c, "/readyz"); err == nil {
		t.Errorf("%q", line)
	}
	late, end := context.WithDeadline(t.Context(), time.Now())
	defer end()
	if _, err := Ask(late, c, "/readyz"); err == nil || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("%v", err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "UNKNOWN_COMMAND\r\n")
			conn.Close()
		}
	}()
	refused(t, configOf(t, "--http", l.Addr().String()), "/readyz", fault.System, "polystalkd's --http")
}

func TestProbeOfWell(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "ok "+r.URL.RequestURI()+"\nmore\n")
	})
	if line, err := Ask(t.Context(), c, "/readyz?verbose"); err != nil || line != "ok /readyz?verbose" {
		t.Errorf("%q, %v", line, err)
	}
}

// TestReachable: who listens everywhere is asked here.
func TestReachable(t *testing.T) {
	for host, want := range map[string]string{
		"": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1", "127.0.0.2": "127.0.0.2", "fe80::1": "fe80::1", "jobs.example.com": "jobs.example.com",
	} {
		if got := reachable(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
