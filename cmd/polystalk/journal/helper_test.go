package journal

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

func TestMain(m *testing.M) { daemon.Main(m) }

// An outcome is the result of a run.
type outcome struct {
	code           int
	stdout, stderr string
}

// polystalk runs "polystalk journal" with args after "journal". want is the exit code.
func polystalk(t *testing.T, want int, args ...string) outcome {
	t.Helper()
	i := slices.IndexFunc(Commands(), func(c Command) bool { return strings.HasPrefix(c.Use, args[1]+" ") })
	if i < 0 {
		t.Fatalf("there is no command %q", args)
	}
	fs := pflag.NewFlagSet(args[1], pflag.ContinueOnError)
	run := Commands()[i].New(fs)
	must(t, fs.Parse(args[2:]))
	var out strings.Builder
	err := run(fs.Args(), &out)
	o := outcome{code: client.ExitCode(err), stdout: out.String()}
	if err != nil {
		o.stderr = err.Error()
	}
	if strings.Contains(o.stderr, "\n") {
		t.Fatalf("%q: more than a line: %q", args, o.stderr)
	}
	if o.code != want {
		t.Fatalf("polystalk %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), o.code, want, o.stdout, o.stderr)
	}
	return o
}

// unchanged expects f to leave dir unchanged, byte for byte.
func unchanged(t *testing.T, dir string, f func()) {
	t.Helper()
	before := contents(t, dir)
	f()
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Errorf("%s was changed", dir)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		info, err := e.Info()
		must(t, err)
		all[e.Name()] = info.ModTime().String() + string(b)
	}
	return all
}

// A peer is a running server and a connection to it.
type peer struct {
	*conversation.Server
	*conversation.Client
	t *testing.T
}

func start(t *testing.T, program string, args ...string) *peer {
	t.Helper()
	s, err := conversation.StartServer(program, args...)
	must(t, err)
	t.Cleanup(s.Stop)
	c, err := conversation.Dial("tcp", s.Address)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return &peer{s, c, t}
}

// keep runs polystalkd on a journal with small segments.
func keep(t *testing.T, dir string) *peer {
	t.Helper()
	return start(t, daemon.Binary, "-b", dir, "-s", "262144", "--shards", "4", "--log-level", "error", "-z", "1000000")
}

func (p *peer) ask(format string, args ...any) string {
	p.t.Helper()
	reply, err := p.Ask(fmt.Sprintf(format, args...))
	must(p.t, err)
	return string(reply)
}

func (p *peer) must(want, format string, args ...any) {
	p.t.Helper()
	if got := p.ask(format, args...); got != want {
		p.t.Fatalf(format+": got %q, want %q", append(args, got, want)...)
	}
}

func (p *peer) put(tube string, pri, delay int, body string) (id int) {
	p.t.Helper()
	p.ask("use %s\r\n", tube)
	reply := p.ask("put %d %d 300 %d\r\n%s\r\n", pri, delay, len(body), body)
	if _, err := fmt.Sscanf(reply, "INSERTED %d", &id); err != nil {
		p.t.Fatalf("put: %q", reply)
	}
	return id
}

// jobs returns the durable figures of all jobs up to an id as text. It adds buries to the buries of
// buried jobs.
func (p *peer) jobs(last, buries int) map[int]string {
	p.t.Helper()
	all := make(map[int]string)
	for id := 1; id <= last; id++ {
		reply := p.ask("stats-job %d\r\n", id)
		if reply == "NOT_FOUND\r\n" {
			continue
		}
		var text strings.Builder
		buried := strings.Contains(reply, "state: buried")
		for line := range strings.SplitSeq(reply, "\n") {
			key, value, _ := strings.Cut(line, ": ")
			switch key {
			case "buries":
				n, err := strconv.Atoi(value)
				must(p.t, err)
				if buried {
					n += buries
				}
				value = strconv.Itoa(n)
				fallthrough
			case "tube", "state", "pri", "delay", "ttr", "reserves", "timeouts", "releases", "kicks":
				fmt.Fprintf(&text, "%s=%s ", key, strings.Trim(value, `"`))
			}
		}
		_, body, _ := strings.Cut(p.ask("peek %d\r\n", id), "\r\n")
		all[id] = text.String() + body
	}
	return all
}

// buriedOrder kicks the buried jobs of a tube, and returns them in their order.
func (p *peer) buriedOrder(tube string) (found []string) {
	p.t.Helper()
	p.ask("use %s\r\n", tube)
	for {
		reply := p.ask("peek-buried\r\n")
		if reply == "NOT_FOUND\r\n" {
			return found
		}
		found = append(found, reply)
		p.must("KICKED 1\r\n", "kick 1\r\n")
	}
}

// same compares the jobs of two servers.
func same(t *testing.T, got, want map[int]string) {
	t.Helper()
	for id, w := range want {
		if g, ok := got[id]; !ok || g != w {
			t.Errorf("job %d: %.200q, want %.200q", id, g, w)
		}
	}
	for id := range got {
		if _, ok := want[id]; !ok {
			t.Errorf("job %d is there", id)
		}
	}
}

// A stock is the journal of a stopped server, with the jobs that a server on a copy reports.
type stock struct {
	dir  string
	last int // the highest id
	jobs map[int]string
}

func newStock(t *testing.T) *stock {
	t.Helper()
	s := &stock{dir: t.TempDir()}
	p := keep(t, s.dir)
	p.must("WATCHING 2\r\n", "watch work\r\n")
	for i := range 1500 {
		delay := 0
		if i%7 == 0 {
			delay = 5000
		}
		id := p.put("t"+strconv.Itoa(i%3), i%11, delay, strings.Repeat("x", 450+i%50))
		if i%4 == 0 {
			p.must("DELETED\r\n", "delete %d\r\n", id)
		}
	}
	for i, end := range []string{"release %d 7 0\r\n", "release %d 8 4000\r\n", "bury %d 9\r\n", "bury %d 3\r\n", "bury %d 5\r\n", "touch %d\r\n", "delete %d\r\n"} {
		p.put("work", 100-i, 0, fmt.Sprint("work ", i))
		var id int
		if _, err := fmt.Sscanf(p.ask("reserve-with-timeout 1\r\n"), "RESERVED %d", &id); err != nil {
			t.Fatal(err)
		}
		p.ask(end, id)
		if i == 3 {
			p.must("KICKED\r\n", "kick-job %d\r\n", id)
		}
	}
	p.put("big", 1, 0, strings.Repeat("0123456789", 30000))
	p.must("PAUSED\r\n", "pause-tube t0 5000\r\n")
	s.last = p.put("t0", 1, 0, "last") + 1
	p.must("DELETED\r\n", "delete %d\r\n", p.put("t0", 1, 0, "gone"))
	p.Stop()
	s.jobs = s.shown(t, s.dir)
	return s
}

// shown returns the jobs that a server on a copy of dir reports.
func (s *stock) shown(t *testing.T, dir string) map[int]string {
	t.Helper()
	p := keep(t, copyOf(t, dir))
	defer p.Stop()
	return p.jobs(s.last+10, 0)
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
