package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/client"
)

// kept is what of a job an import keeps, as jq shows it.
const kept = `[.tube, .state, .pri, .ttr_seconds, .body // .body_base64, (.left_seconds / 60 | ceil)]`

// TestExportAndImport: what can be kept is, from any server to any other.
func TestExportAndImport(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	servers := map[string]func(*testing.T) *program{
		"polystalkd": func(t *testing.T) *program { p, _ := polystalkd(t); return p }, "beanstalkd": beanstalkd,
	}
	for from, one := range servers {
		for to, other := range servers {
			t.Run(from+" to "+to, func(t *testing.T) {
				p, q := one(t), other(t)
				rng := rand.New(rand.NewPCG(1, 2))
				const n = 200
				for i := range n {
					body := make([]byte, rng.IntN(300))
					for k := range body {
						if body[k] = byte(rng.Uint32()); i%2 == 0 {
							body[k] = 'a' + body[k]%26
						}
					}
					p.in = string(body)
					args := []string{"put", fmt.Sprint("t", rng.IntN(3)), "--pri", fmt.Sprint(rng.Uint32()), "--ttr", fmt.Sprint(1 + rng.IntN(1000))}
					if i%3 == 0 {
						args = append(args, "--delay", fmt.Sprint(100+rng.IntN(100000)*60))
					}
					p.must(0, args...)
					if i%5 == 0 {
						p.must(0, "bury", fmt.Sprint(i+1))
					}
				}
				file := filepath.Join(t.TempDir(), "jobs")
				p.must(0, "export", "--all-tubes", "--id", "1-1000", "--file", file)
				if o := p.must(client.Usage, "export", "--all-tubes", "--id", "1-1000", "--file", file); !strings.Contains(o.stderr, "is there already") {
					t.Errorf("%q", o.stderr)
				}
				// It is interrupted, and goes on.
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				lines := strings.SplitAfterN(string(text), "\n", 80)
				q.in = strings.Join(lines[:79], "") + `{"tube":`
				if o := q.polystalk("import", "-"); o.code != client.NotDone || !strings.Contains(o.stderr, "line 80 was not put: ") || !strings.Contains(o.stderr, "79 jobs put, 1 line with errors") {
					t.Fatalf("%d, %q", o.code, o.stderr)
				}
				if got := q.must(0, "import", file, "--skip", "79").stdout; got != "import: 121 jobs\n" {
					t.Errorf("%q", got)
				}
				show := func(p *program) []string {
					p.t.Helper()
					text := p.must(0, "export", "--all-tubes", "--id", "1-1000").stdout
					var all []string
					for line := range strings.Lines(text) {
						all = append(all, jq(t, kept, line))
					}
					return all
				}
				was, is := show(p), show(q)
				if len(was) != n || len(is) != n {
					t.Fatalf("%d jobs became %d", len(was), len(is))
				}
				counts := make(map[string]int)
				for i := range was {
					counts[was[i]]++
					counts[is[i]]--
				}
				for job, n := range counts {
					if n != 0 {
						t.Errorf("%+d times: %.200s", -n, job)
					}
				}
				// A flush saves what it deletes.
				saved := filepath.Join(t.TempDir(), "saved")
				q.must(0, "flush", "t1", "--save", saved, "--yes")
				b, err := os.ReadFile(saved)
				if err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(string(b)) {
					counts[jq(t, kept, line)]++
				}
				in := 0
				for _, job := range was {
					if strings.HasPrefix(job, `["t1",`) {
						in++
						counts[job]--
					}
				}
				for job, n := range counts {
					if n != 0 {
						t.Errorf("saved %+d times: %.200s", n, job)
					}
				}
				if in == 0 || strings.Count(string(b), "\n") != in {
					t.Errorf("%d of %d jobs are saved", strings.Count(string(b), "\n"), in)
				}
				q.must(client.Nothing, "flush", "t1", "--yes")
			})
		}
	}
}

// TestLargeBodies: a body is kept as a whole, also one that lists have the beginning of, and
// nothing is deleted that could not be saved.
func TestLargeBodies(t *testing.T) {
	text, octets := strings.Repeat("0123456789abcdef", 10000), strings.Repeat("\x00\xff\x1b\n", 30000)
	p, _ := polystalkd(t, "-z", "200000")
	for _, body := range []string{text, octets, text[:65536], text[:65537]} {
		p.in = body
		p.must(0, "put", "mail")
	}
	bodies := func(file string) (all []string) {
		t.Helper()
		q, _ := polystalkd(t, "-z", "200000")
		q.must(0, "import", file, "--skip", "0")
		for id := range 4 {
			all = append(all, q.must(0, "body", fmt.Sprint(id+1)).stdout)
		}
		return all
	}
	check := func(got []string) {
		t.Helper()
		slices.Sort(got)
		want := []string{text, octets, text[:65536], text[:65537]}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Error("bodies have changed")
		}
	}
	file, saved := filepath.Join(t.TempDir(), "jobs"), filepath.Join(t.TempDir(), "saved")
	if got := p.must(0, "export", "mail", "--file", file).stdout; got != "export: 4 jobs\n" {
		t.Errorf("%q", got)
	}
	check(bodies(file))
	p.must(0, "flush", "mail", "--save", saved, "--yes")
	check(bodies(saved))

	p, _ = polystalkd(t, "--http-bodies", "preview")
	p.in = text[:300]
	p.must(0, "put", "mail")
	p.must(client.Refused, "export", "mail")
	p.must(client.Refused, "flush", "mail", "--save", filepath.Join(t.TempDir(), "saved"), "--yes")
	if got := p.must(0, "tube", "mail", "--jq", ".jobs.ready").stdout; got != "1\n" {
		t.Errorf("%s jobs are left", got)
	}
}
