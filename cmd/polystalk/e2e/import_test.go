package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/client"
	wire "polystalk/codec/admin"
)

var jobsFlag = flag.Int("jobs", 3000, "jobs of an import that is interrupted")

// jobsFile is a file of jobs as export writes them, of all states and kinds of bodies.
func jobsFile(t *testing.T, n int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for i := range n {
		body := make([]byte, rng.IntN(200))
		for k := range body {
			body[k] = byte(rng.Uint32()) | byte(i%2)<<7
		}
		state := []string{"ready", "delayed", "buried", "reserved"}[rng.IntN(4)]
		j := wire.Job{ID: uint64(i + 1), Tube: fmt.Sprint("t", rng.IntN(5)), State: state, Pri: rng.Uint32(), TTRSeconds: 1 + rng.Uint32N(1000), Content: wire.NewContent(body, len(body))}
		j.Path = j.Tube
		if state == "delayed" {
			j.LeftSeconds = float64(1000+rng.IntN(1000)) * 3600
		}
		line, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// multiset counts what an import keeps of the jobs of a file. What a worker had is ready, and
// delays go on while they are moved.
func multiset(t *testing.T, text string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for line := range strings.Lines(text) {
		var j wire.Job
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatal(err)
		}
		if j.State == "reserved" {
			j.State = "ready"
		}
		body, _ := json.Marshal(j.Content)
		all[fmt.Sprint(j.Tube, j.State, j.Pri, j.TTRSeconds, string(body), int(j.LeftSeconds+1800)/3600)]++
	}
	return all
}

// passing is an address that leads to another, and calls reached once so many octets went there.
func passing(t *testing.T, to string, octets int64, reached func()) string {
	t.Helper()
	return serving(t, func(conn net.Conn) {
		there, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		go func() {
			defer there.Close()
			if n, _ := io.CopyN(there, conn, octets); n == octets { // else it has closed before
				reached()
			}
			_, _ = io.Copy(there, conn)
		}()
		_, _ = io.Copy(conn, there)
	})
}

// TestInterruptedImport: an import that is interrupted, and run again, puts nothing twice
// without being told to, and goes on where it was.
func TestInterruptedImport(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	file := jobsFile(t, *jobsFlag)
	for _, by := range []string{"http", "beanstalk"} {
		t.Run(by, func(t *testing.T) {
			http, s := polystalkd(t)
			p := *http
			stats := &program{t: t, server: "beanstalk://" + s.Listen[0]}
			ctx, cancel := context.WithCancel(t.Context())
			p.server = by + "://" + passing(t, map[string]string{"http": strings.TrimPrefix(http.server, "http://"), "beanstalk": s.Listen[0]}[by], 20_000, cancel)
			o := p.within(ctx, "import", file, "--skip", "0")
			cancel()
			found := regexp.MustCompile(`^polystalk: interrupted: (\d+) jobs put; go on with --skip (\d+)\n$`).FindStringSubmatch(o.stderr)
			if o.code != client.NotDone || found == nil || found[1] != found[2] {
				t.Fatalf("%d, %q", o.code, o.stderr)
			}
			before := stats.must(0, "stats", "--jq", ".jobs_total").stdout
			if before != found[1]+"\n" {
				t.Errorf("there are %s jobs, and it says %s", before, found[1])
			}
			o = p.must(client.Unconfirmed, "import", file)
			if want := "as far as line " + found[1] + ". To continue after line " + found[1] + " use --skip " + found[1] + "; to put all of it again, or into another server, use --skip 0."; !strings.Contains(o.stderr, want) {
				t.Errorf("%q", o.stderr)
			}
			p.must(0, "import", file, "--skip", found[1])
			if o = p.must(client.Unconfirmed, "import", file); !strings.Contains(o.stderr, fmt.Sprint("as far as line ", *jobsFlag, ".")) {
				t.Errorf("%q", o.stderr)
			}
			was, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, got := multiset(t, string(was)), multiset(t, http.must(0, "export", "--all-tubes").stdout)
			for job, n := range want {
				if got[job] != n {
					t.Errorf("%d times, not %d: %.200s", got[job], n, job)
				}
			}
			if total := stats.must(0, "stats", "--jq", ".jobs_total").stdout; total != fmt.Sprintln(*jobsFlag) || len(want) != len(got) {
				t.Errorf("%s jobs, of %d kinds that were %d", total, len(got), len(want))
			}
		})
	}
	// One that was killed does not know of the line that was under way.
	if err := os.Remove(file + ".imported"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"lines": 7, "ended": false, "server": "http://x", "size": info.Size(), "modified": info.ModTime()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".imported", text, 0o600); err != nil {
		t.Fatal(err)
	}
	p, s := polystalkd(t)
	if o := p.must(client.Unconfirmed, "import", file); !strings.Contains(o.stderr, "line 8 may have been put or not. To retry line 8 use --skip 7; to leave it out use --skip 8. To put all of it into http") {
		t.Errorf("%q", o.stderr)
	}
	// Nor does who has waited for the server in vain.
	for _, server := range []string{"beanstalk://" + says(t, "USING default\r\n"), "http://" + says(t, "")} {
		p := &program{t: t, server: server}
		if o := p.must(client.System, "import", file, "--skip", "3", "--timeout", "300ms"); !strings.Contains(o.stderr, "line 4 may have been put or not") {
			t.Errorf("%q", o.stderr)
		}
		if o := p.must(client.Unconfirmed, "import", file); !strings.Contains(o.stderr, "line 4 may have been put or not. To retry line 4 use --skip 3; to leave it out use --skip 4.") {
			t.Errorf("%q", o.stderr)
		}
	}
	if err := os.WriteFile(file+".imported", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.must(client.System, "import", file)
	p.must(0, "import", file, "--skip", fmt.Sprint(*jobsFlag-1))
	p.server = "beanstalk://" + s.Listen[0]
	if got := p.must(0, "stats", "--jq", ".jobs_total").stdout; got != "1\n" {
		t.Errorf("%s jobs", got)
	}
}
