package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
)

var exchangedFlag = flag.Int("exchanged", 500, "jobs of both protocols that are exported and imported")

// kept counts the jobs of an export by the properties that an import keeps. Reserved jobs become
// ready, and delays run while the jobs move.
func kept(t *testing.T, text string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for line := range strings.Lines(text) {
		var j admin.Job
		must(t, json.Unmarshal([]byte(line), &j))
		if j.State == "reserved" {
			j.State = "ready"
		}
		body, _ := json.Marshal(j.Content)
		all[fmt.Sprint(j.Path, " ", j.State, " ", j.Pri, " ", j.TTRSeconds, " ", string(body), " ", int(j.LeftSeconds+1800)/3600)]++
	}
	return all
}

// sameJobs expects two exports to have the same jobs, by the properties that an import keeps.
func sameJobs(t *testing.T, about, got, want string) {
	t.Helper()
	if !maps.Equal(kept(t, got), kept(t, want)) {
		t.Errorf("%s: %d jobs have become %d", about, strings.Count(want, "\n"), strings.Count(got, "\n"))
	}
}

func content(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	return string(b)
}

// randomBody returns text, or any bytes.
func randomBody(rng *rand.Rand, text bool) []byte {
	body := make([]byte, rng.IntN(300))
	for k := range body {
		if body[k] = byte(rng.Uint32()); text {
			body[k] = 'a' + body[k]%26
		}
	}
	return body
}

// TestExportAndImport moves jobs from any server to any other.
func TestExportAndImport(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	onBoth(t, func(t *testing.T, p *program, _ bool) {
		p.must(0, "import", jobsFile(t, 200))
		file := filepath.Join(t.TempDir(), "jobs")
		export := []string{"export", "--all-tubes", "--id", "1-1000"}
		p.must(0, append(export, "--file", file)...)
		p.says("already exists", client.Usage, append(export, "--file", file)...)
		text := content(t, file)
		onBoth(t, func(t *testing.T, q *program, _ bool) {
			// The first import stops at a bad line, and the second continues.
			q.in = strings.Join(strings.SplitAfterN(text, "\n", 80)[:79], "") + `{"tube":`
			if o := q.polystalk("import", "-"); o.code != client.NotDone || !strings.Contains(o.stderr, "line 80 was not put: ") || !strings.Contains(o.stderr, "79 jobs put, 1 line with errors") {
				t.Fatalf("%d, %q", o.code, o.stderr)
			}
			q.prints("import: 121 jobs\n", "import", file, "--skip", "79")
			is := q.must(0, export...).stdout
			sameJobs(t, "imported", is, text)
			saved := filepath.Join(t.TempDir(), "saved")
			q.must(0, "flush", "t1", "--save", saved, "--yes")
			sameJobs(t, "saved and left", content(t, saved)+q.must(0, export...).stdout, is)
			q.must(client.Nothing, "flush", "t1", "--yes")
		})
	})
}

// randomName returns the name of a function, with bytes that no tube name has.
func randomName(rng *rand.Rand) string {
	b := make([]byte, 1+rng.IntN(30))
	for i := range b {
		b[i] = max(1, byte(rng.Uint32())) // a NUL ends the name in a packet
	}
	return []string{string(b), "App::resize", "a b", ".", "..", "<é\u202e>", string(b) + strings.Repeat("x", 255-len(b))}[rng.IntN(7)]
}

// TestEveryExportedJobCanBeImported: with any names and bodies of both protocols.
func TestEveryExportedJobCanBeImported(t *testing.T) {
	address := daemon.FreeAddress(t)
	p, _ := polystalkd(t, "--gearman-listen", address)
	p.must(0, "import", jobsFile(t, *exchangedFlag/2))
	rng := rand.New(rand.NewPCG(5, 6))
	names := make([]string, *exchangedFlag/2)
	for i := range names {
		names[i] = randomName(rng)
	}
	submit(t, address, names...)
	file := filepath.Join(t.TempDir(), "jobs")
	p.must(0, "export", "--all-tubes", "--file", file)
	q, other := polystalkd(t)
	q.prints(fmt.Sprintf("import: %d jobs\n", *exchangedFlag), "import", file)
	// By beanstalkd's protocol the names have escapes.
	for by, from := range map[string]*program{"HTTP": q, "beanstalkd's protocol": {t: t, server: "beanstalk://" + other.Listen[0]}} {
		sameJobs(t, by, from.must(0, "export", "--all-tubes", "--id", fmt.Sprint("1-", *exchangedFlag)).stdout, content(t, file))
	}
}

// TestLargeBodiesAreExportedWhole, although lists have only their beginning. A job that cannot be
// saved is not deleted.
func TestLargeBodiesAreExportedWhole(t *testing.T) {
	text, octets := strings.Repeat("0123456789abcdef", 10000), strings.Repeat("\x00\xff\x1b\n", 30000)
	want := []string{text, octets, text[:65536], text[:65537]}
	p, _ := polystalkd(t, "-z", "200000")
	for _, body := range want {
		p.in = body
		p.must(0, "put", "mail")
	}
	file, saved := filepath.Join(t.TempDir(), "jobs"), filepath.Join(t.TempDir(), "saved")
	p.prints("export: 4 jobs\n", "export", "mail", "--file", file)
	p.must(0, "flush", "mail", "--save", saved, "--yes")
	slices.Sort(want)
	for _, from := range []string{file, saved} {
		q, _ := polystalkd(t, "-z", "200000")
		q.must(0, "import", from, "--skip", "0")
		var got []string
		for id := range want {
			got = append(got, q.must(0, "body", fmt.Sprint(id+1)).stdout)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("bodies of %s have changed", from)
		}
	}
	p, _ = polystalkd(t, "--http-bodies", "preview")
	p.in = text[:300]
	p.must(0, "put", "mail")
	p.must(client.Refused, "export", "mail")
	p.must(client.Refused, "flush", "mail", "--save", filepath.Join(t.TempDir(), "saved"), "--yes")
	p.prints("1\n", "tube", "mail", "--jq", ".jobs.ready")
}

// TestJobsAreSavedBeforeTheyAreDeleted, one by one, by beanstalkd's protocol.
func TestJobsAreSavedBeforeTheyAreDeleted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "saved")
	p := beanstalkd(t)
	p.in = "a\nb\nc\n"
	p.must(0, "put", "mail", "--lines")
	// A relay that checks the file at each delete.
	lost, next := 0, 0
	real := strings.TrimPrefix(p.server, "beanstalk://")
	p.server = "beanstalk://" + serving(t, func(conn net.Conn) {
		there, err := net.Dial("tcp", real)
		if err != nil {
			return
		}
		defer there.Close()
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			if bytes.HasPrefix(b[:n], []byte("delete ")) {
				if next++; strings.Count(content(t, file), "\n") != next {
					lost++
				}
			}
			_, _ = there.Write(b[:n])
			if n, err = there.Read(b); err != nil {
				return
			}
			_, _ = conn.Write(b[:n])
		}
	})
	if o := p.must(client.OK, "flush", "mail", "--state", "ready", "--save", file, "--yes"); o.stdout != "flush: 3 jobs of tube mail\n" || next != 3 || lost > 0 {
		t.Errorf("%q, %d deletes, %d of them before the job was saved", o.stdout, next, lost)
	}
}
