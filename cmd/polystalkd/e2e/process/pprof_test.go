package process

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// get fetches a page of the profiler.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := http.Client{Timeout: daemon.Hang, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// readCounters reads the page of counters, whose lines are all "name value".
func readCounters(t *testing.T, url string) map[string]uint64 {
	t.Helper()
	status, body := get(t, url)
	if status != http.StatusOK {
		t.Fatalf("%s: status %d, %q", url, status, body)
	}
	m := make(map[string]uint64)
	for line := range strings.Lines(body) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		if _, twice := m[name]; err != nil || twice || name == "" {
			t.Fatalf("line %q of the counters", line)
		}
		m[name] = n
	}
	return m
}

func TestPprofServesProfilesAndCounters(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, where := range []string{"127.0.0.1:0", "localhost:0"} {
		s := daemon.Serve(t, "--pprof", where, "--shards", "8")
		line := s.WaitLog("profiling")
		if line == nil {
			t.Fatal("no line in the log says where")
		}
		pages, counters := line["pprof"].(string), line["counters"].(string)
		if !strings.HasPrefix(pages, "http://127.0.0.1:") {
			t.Errorf("it listens on %s", pages)
		}

		before := readCounters(t, counters)
		if before["shards"] != 8 || before["commands"] != 0 || before["writes"] != 0 {
			t.Errorf("at the start: %v", before)
		}
		conn := daemon.Dial(t, s.Listen[0])
		for _, c := range [][2]string{{"put 0 0 9 1\r\nx\r\n", "INSERTED 1"}, {"delete 1\r\n", "DELETED"}, {"delete 1\r\n", "NOT_FOUND"}} {
			if got := daemon.Ask(t, conn, c[0]); got != c[1] {
				t.Fatalf("%q: %q", c[0], got)
			}
		}
		// The last reply is on its way before its turn is counted.
		daemon.Ask(t, conn, "list-tube-used\r\n")
		after := readCounters(t, counters)
		if after["commands"] != 4 || after["cmd-put"] != 1 || after["cmd-delete"] != 2 || after["loops"] != uint64(s.Loops) {
			t.Errorf("after four commands: %v", after)
		}
		if after["writes"] < 3 || after["writes"] > 4 || after["inputs"] < 3 || after["inputs"] > 4 || after["shard-visits"] < 3 {
			t.Errorf("writes, inputs or visits of four commands: %v", after)
		}

		if status, body := get(t, pages+"goroutine?debug=1"); status != http.StatusOK || !strings.Contains(body, "goroutine profile:") {
			t.Errorf("goroutines: %d, %.200q", status, body)
		}
		if status, body := get(t, pages+"profile?seconds=1"); status != http.StatusOK || len(body) == 0 {
			t.Errorf("CPU profile: %d, %d bytes", status, len(body))
		}
		if status, _ := get(t, strings.TrimSuffix(pages, "debug/pprof/")); status != http.StatusNotFound {
			t.Errorf("another page: %d", status)
		}
	}
}

func TestPprofIsOffByDefault(t *testing.T) {
	s := daemon.Serve(t)
	s.Signal(syscall.SIGTERM)
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(s.LogText(), "profiling") {
		t.Error("it profiles unasked")
	}
}

// TestPprofDoesNotKeepTheServer: a profile that would take minutes ends with
// the server.
func TestPprofDoesNotKeepTheServer(t *testing.T) {
	s := daemon.Serve(t, "--pprof", "127.0.0.1:0")
	line := s.WaitLog("profiling")
	if line == nil {
		t.Fatal("no line in the log says where")
	}
	url := line["pprof"].(string)
	conn := daemon.Dial(t, strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/debug/pprof/"))
	if _, err := io.WriteString(conn, "GET /debug/pprof/trace?seconds=600 HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	// The trace's header arrives once it runs.
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.Signal(syscall.SIGTERM)
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
