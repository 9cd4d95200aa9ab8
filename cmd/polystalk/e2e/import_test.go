package e2e

import (
	"context"
	"encoding/base64"
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
	"time"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
)

var jobsFlag = flag.Int("jobs", 3000, "jobs of an import that is interrupted")

// jobsFile writes a file of jobs in export's format, in all states and with any bodies.
func jobsFile(t *testing.T, n int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for i := range n {
		body := randomBody(rng, i%2 == 0)
		state := []string{"ready", "delayed", "buried", "reserved"}[rng.IntN(4)]
		j := admin.Job{ID: uint64(i + 1), Tube: fmt.Sprint("t", rng.IntN(5)), State: state, Pri: rng.Uint32(), TTRSeconds: 1 + rng.Uint32N(1000), Content: admin.NewContent(body, len(body))}
		j.Path = j.Tube
		if state == "delayed" {
			j.LeftSeconds = float64(1000+rng.IntN(1000)) * 3600
		}
		line, err := json.Marshal(j)
		must(t, err)
		b.Write(line)
		b.WriteByte('\n')
	}
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	must(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return file
}

// TestInterruptedImportsPutNothingTwice, and continue at the right line.
func TestInterruptedImportsPutNothingTwice(t *testing.T) {
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
			p.server = by + "://" + serving(t, relaying(map[string]string{"http": strings.TrimPrefix(http.server, "http://"), "beanstalk": s.Listen[0]}[by], 20_000, cancel))
			o := p.within(ctx, "import", file, "--skip", "0")
			cancel()
			found := regexp.MustCompile(`^polystalk: interrupted: (\d+) jobs put; continue with --skip (\d+)\n$`).FindStringSubmatch(o.stderr)
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
			p.says(fmt.Sprint("as far as line ", *jobsFlag, "."), client.Unconfirmed, "import", file)
			sameJobs(t, by, http.must(0, "export", "--all-tubes").stdout, content(t, file))
			stats.prints(fmt.Sprintln(*jobsFlag), "stats", "--jq", ".jobs_total")
		})
	}
	// A killed import may have put the next line.
	must(t, os.Remove(file+".imported"))
	info, err := os.Stat(file)
	must(t, err)
	text, err := json.Marshal(map[string]any{"lines": 7, "uncertain": 1, "server": "http://x", "size": info.Size(), "modified": info.ModTime()})
	must(t, err)
	must(t, os.WriteFile(file+".imported", text, 0o600))
	p, s := polystalkd(t)
	p.says("line 8 may have been put or not. To retry line 8 use --skip 7; to leave it out use --skip 8. To put all of it into http", client.Unconfirmed, "import", file)
	// An import that timed out may have put all that was in flight.
	for _, server := range []string{fake(t, "beanstalk", "hangs", "USING default\r\n"), fake(t, "http", "hangs", "")} {
		p := &program{t: t, server: server}
		p.says("each of the lines 4 to 1003 may have been put or not", client.System, "import", file, "--skip", "3", "--timeout", "300ms")
		p.says("each of the lines 4 to 1003 may have been put or not. To retry them use --skip 3; to leave them out use --skip 1003.", client.Unconfirmed, "import", file)
	}
	must(t, os.WriteFile(file+".imported", nil, 0o600))
	p.must(client.System, "import", file)
	p.must(0, "import", file, "--skip", fmt.Sprint(*jobsFlag-1))
	p.server = "beanstalk://" + s.Listen[0]
	p.prints("1\n", "stats", "--jq", ".jobs_total")
}

// TestABrokenConnectionLosesNoConfirmedJob: the lines before the uncertain ones are there, also after
// a crash of the server, and with the --skip that is shown, each job is put at least once.
func TestABrokenConnectionLosesNoConfirmedJob(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, by := range []string{"http", "beanstalk"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			file := jobsFile(t, *jobsFlag)
			dir := t.TempDir()
			p, s := polystalkd(t, "-b", dir)
			to := map[string]string{"http": strings.TrimPrefix(p.server, "http://"), "beanstalk": s.Listen[0]}[by]
			cut := &program{t: t, server: by + "://" + serving(t, func(conn net.Conn) {
				there, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer there.Close()
				go func() {
					_, _ = io.CopyN(there, conn, 300_000)
					there.Close() // in the middle of a batch
				}()
				_, _ = io.Copy(conn, there)
			})}
			o := cut.polystalk("import", file, "--skip", "0")
			found := regexp.MustCompile(`(\d+) jobs put(?:, \d+ lines? with errors)?; each of the lines (\d+) to (\d+) may have been put or not: .* To retry them use --skip (\d+)`).FindStringSubmatch(o.stderr)
			// The lines with errors are put, and not buried.
			if o.code != client.NotDone || found == nil || found[1] != found[4] || strings.Contains(o.stderr, "closed network") {
				t.Fatalf("%d, %q", o.code, o.stderr)
			}
			s.Crash()
			again, _ := polystalkd(t, "-b", dir)
			exported := again.must(0, "export", "--all-tubes").stdout
			var put, first, last int
			_, err := fmt.Sscan(strings.Join(found[1:4], " "), &put, &first, &last)
			must(t, err)
			if n := strings.Count(exported, "\n"); n < put || n > last || first != put+1 {
				t.Errorf("%d jobs are there: %q", n, o.stderr)
			}
			again.must(0, "import", file, "--skip", found[4])
			all := again.must(0, "export", "--all-tubes").stdout
			if n := strings.Count(all, "\n"); n < *jobsFlag || n > *jobsFlag+last-put {
				t.Errorf("%d jobs are there at the end: %q", n, o.stderr)
			}
		})
	}
}

// TestImportReportsRefusedLinesAndGoesOn with the next line. A wrong --to is reported once.
func TestImportReportsRefusedLinesAndGoesOn(t *testing.T) {
	long := strings.Repeat("x", 256)
	file := filepath.Join(t.TempDir(), "jobs")
	must(t, os.WriteFile(file, []byte(strings.Join([]string{
		`{"tube_path":"a","body":"1"}`, `{"tube_path":"` + long + `","body":"2"}`, `no job`,
		`{"tube_path":"a","body_base64":"` + base64.StdEncoding.EncodeToString(make([]byte, 8<<20)) + `"}`,
		`{"tube_path":"App::resize","body":"5"}`, `{"tube_path":"a","body":"6","state":"buried"}`,
	}, "\n")+"\n"), 0o600))
	p, s := polystalkd(t)
	for server, wants := range map[string]struct {
		bad []int
		put string
	}{p.server: {[]int{2, 3, 4}, "import: 3 jobs\n"}, "beanstalk://" + s.Listen[0]: {[]int{2, 3, 4, 5}, "import: 2 jobs\n"}} {
		q := &program{t: t, server: server}
		q.says("polystalk: --to is a name of 256 bytes: ", client.Usage, "import", file, "--to", long)
		if _, err := os.Stat(file + ".imported"); err == nil {
			t.Error("it remembers an import of which there was none")
		}
		o := q.polystalk("import", file)
		must(t, os.Remove(file+".imported"))
		if o.code != client.NotDone || o.stdout != wants.put || strings.Count(o.stderr, "\n") != len(wants.bad)+1 || !strings.Contains(o.stderr, fmt.Sprint(len(wants.bad), " lines with errors")) {
			t.Errorf("%s: %d, %q, %q", server, o.code, o.stdout, o.stderr)
		}
		for _, n := range wants.bad {
			if !strings.Contains(o.stderr, fmt.Sprintf("polystalk: line %d was not put: ", n)) {
				t.Errorf("%s: nothing is said of line %d: %q", server, n, o.stderr)
			}
		}
	}
}

// TestAnEndlessLineIsReportedAtOnce: when it is above the bound, not when it ends. The lines before it
// are put then, and the lines after it are put as well.
func TestAnEndlessLineIsReportedAtOnce(t *testing.T) {
	p, s := polystalkd(t)
	for _, server := range []string{p.server, "beanstalk://" + s.Listen[0]} {
		for about, args := range map[string][]string{`{"tube":"a","body":"good"}`: {"import", "-"}, "good": {"put", "a", "--lines", "-o", "name"}} {
			in, feed := io.Pipe()
			var out, notes shared
			a := &cli.App{In: in, Out: &out, Err: &notes, Getenv: func(string) string { return "" }}
			code := make(chan int)
			go func() { code <- cli.Run(t.Context(), a, append(args, "--skip", "2", "--server", server)) }()
			write := func(text string) {
				_, err := io.WriteString(feed, text)
				must(t, err)
			}
			write(strings.Repeat("s", 1<<20) + "\n\n" + about + "\n") // skipped lines are not reported
			write(strings.Repeat("x", 3<<20))
			notes.await(t, "polystalk: line 4 was not put: the line has more than 65535 bytes")
			expectJobs(t, p, "a", "1 0 0 0")
			write(strings.Repeat("x", 3<<20) + "\n" + about + "\n")
			feed.Close()
			if got := <-code; got != client.NotDone || strings.Count(notes.String(), "line 4") != 1 || !strings.Contains(notes.String(), "2 jobs put, 1 line with errors") {
				t.Errorf("%s, %q: %d, %q", server, args, got, notes.String())
			}
			expectJobs(t, p, "a", "2 0 0 0")
			p.must(0, "flush", "a", "--yes")
		}
	}
}

// TestImportTakesLinesOfAnyVersion with all members of any version's export, and handwritten lines.
// testdata/servers.txt has lines that are refused.
func TestImportTakesLinesOfAnyVersion(t *testing.T) {
	good := strings.Join([]string{
		`{"id":"7","tube":"a","tube_path":"a","state":"reserved","moving":true,"pri":1,"delay_seconds":2,"ttr_seconds":3,"age_seconds":4.5,"state_seconds":5.5,"left_seconds":6.5,` +
			`"reserves_total":1,"timeouts_total":1,"releases_total":1,"buries_total":1,"kicks_total":1,"holder":{"connection":"1","peer":"x"},"body_bytes":1,"body":"1"}`,
		`{"tube":"a","body_base64":"AP8="}`, `{"tube":"a","body_bytes":0}`, `{"tube":"a","body":"` + "\u00e9\ufffd" + `","body_bytes":5}`,
	}, "\n")
	p, _ := polystalkd(t)
	p.in = good + "\n" + `{"tube":"a","body":"1","colour":"red"}` + "\n" + good
	if o := p.polystalk("import", "-"); o.code != client.NotDone || o.stdout != "import: 8 jobs\n" || !strings.Contains(o.stderr, "line 5 was not put: ") {
		t.Errorf("%d, %q, %q", o.code, o.stdout, o.stderr)
	}
}

// TestImportWithoutAConnectionHasPutNothing, and its message says so.
func TestImportWithoutAConnectionHasPutNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs")
	must(t, os.WriteFile(file, []byte(`{"tube":"a","body":"1"}`+"\n"), 0o600))
	p := &program{t: t, server: "http://" + daemon.FreeAddress(t)}
	o := p.must(client.System, "import", file)
	if !strings.Contains(o.stderr, "line 1 was not: ") || !strings.HasSuffix(o.stderr, ". To retry line 1 use --skip 0; to leave it out use --skip 1.\n") {
		t.Errorf("%q", o.stderr)
	}
	p, s := polystalkd(t)
	p.must(0, "import", file)
	p.says("or into another server, use --skip 0.", client.Unconfirmed, "import", file)
	// A server that closes the connection may have put the job.
	p = &program{t: t, server: "http://" + serving(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 4096)) })}
	p.says("line 1 may have been put or not", client.System, "import", file, "--skip", "0")
	if o := p.must(client.Unconfirmed, "import", file); strings.Contains(o.stderr, "line 0") || strings.Count(o.stderr, "--skip 0") != 1 {
		t.Errorf("%q", o.stderr)
	}
	p = &program{t: t, server: "beanstalk://" + s.Listen[0]}
	p.says("To put all of it into "+p.server+" use --skip 0.", client.Unconfirmed, "import", file)
	// Another file with the same name was not imported. A device is not remembered.
	must(t, os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)))
	p.must(0, "import", file)
	p.must(0, "import", os.DevNull)
	if _, err := os.Stat(os.DevNull + ".imported"); err == nil {
		t.Error("the position in a device is remembered")
	}
}
