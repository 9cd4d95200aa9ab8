package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	"polystalk/shard/wal"
)

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

// journal runs "polystalk journal", and expects an exit code.
func journal(t *testing.T, want int, args ...string) outcome {
	t.Helper()
	return (&program{t: t}).must(want, append([]string{"journal"}, args...)...)
}

// A peer is a running server and a connection to it.
type peer struct {
	*conversation.Server
	*conversation.Client
	t *testing.T
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

func start(t *testing.T, program string, args ...string) *peer {
	t.Helper()
	s, err := conversation.StartServer(program, args...)
	must(t, err)
	t.Cleanup(s.Stop)
	return &peer{s, daemon.Client(t, s), t}
}

// keep runs polystalkd on a journal with small segments.
func keep(t *testing.T, dir string, flags ...string) *peer {
	t.Helper()
	return start(t, daemon.Binary, append([]string{"-b", dir, "-s", "262144", "--shards", "4", "--log-level", "error", "-z", "1000000"}, flags...)...)
}

func (p *peer) ask(format string, args ...any) string {
	p.t.Helper()
	return daemon.MustAsk(p.t, p.Client, format, args...)
}

func (p *peer) must(want, format string, args ...any) {
	p.t.Helper()
	daemon.Expect(p.t, p.Client, fmt.Sprintf(format, args...), want)
}

// durable matches the durable figures of a job.
var durable = regexp.MustCompile(`(?m)^(tube|state|pri|delay|ttr|reserves|timeouts|releases|buries|kicks): .*\n`)

// jobs returns the durable figures and the body of all jobs up to an id.
func (p *peer) jobs(last int) map[int]string {
	p.t.Helper()
	all := make(map[int]string)
	for id := 1; id <= last; id++ {
		if reply := p.ask("stats-job %d\r\n", id); reply != "NOT_FOUND\r\n" {
			_, body, _ := strings.Cut(p.ask("peek %d\r\n", id), "\r\n")
			all[id] = strings.ReplaceAll(strings.Join(durable.FindAllString(reply, -1), ""), `"`, "") + body
		}
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
	ids := maps.Clone(got)
	maps.Copy(ids, want)
	for id := range ids {
		if got[id] != want[id] {
			t.Errorf("job %d: %.200q, want %.200q", id, got[id], want[id])
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
	return p.jobs(s.last + 10)
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// TestWholeJournal runs all commands on one journal.
func TestWholeJournal(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := newStock(t)
	fresh := filepath.Join(t.TempDir(), "new")
	out := filepath.Join(t.TempDir(), "out")
	unchanged(t, s.dir, func() {
		o := journal(t, 0, "inspect", s.dir)
		for _, want := range []string{fmt.Sprintf("jobs: %d (", len(s.jobs)), fmt.Sprintf("highest id: %d\n", s.last), "imported: nothing", "\nbig ", "journal "} {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("inspect says nothing of %q:\n%s", want, o.stdout)
			}
		}
		o = journal(t, 0, "inspect", "--jobs", s.dir)
		lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
		if len(lines) != len(s.jobs)+1 {
			t.Errorf("inspect --jobs: %d lines for %d jobs", len(lines), len(s.jobs))
		}
		for _, line := range lines[1:] {
			f := strings.Split(line, "\t")
			var id int
			fmt.Sscan(f[0], &id)
			if want := fmt.Sprintf("tube: %s\nstate: %s\npri: %s\ndelay: %s\nttr: %s\n", f[1], f[2], f[3], f[4], f[5]); !strings.HasPrefix(s.jobs[id], want) {
				t.Errorf("inspect --jobs: %q; the server shows %.150q", line, s.jobs[id])
			}
		}
		o = journal(t, 0, "inspect", "--records", s.dir)
		for _, want := range []string{"put id=1 tube=t0", fmt.Sprintf("delete id=%d\n", s.last), "pause tube=t0", "chunk id=", "update id="} {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("inspect --records has no %q", want)
			}
		}
		o = journal(t, 0, "verify", s.dir)
		if !strings.HasPrefix(o.stdout, "whole: ") {
			t.Errorf("verify: %q", o.stdout)
		}
		o = journal(t, 0, "salvage", s.dir, fresh)
		if !strings.Contains(o.stdout, "lost: nothing") || !strings.Contains(o.stdout, fmt.Sprintf("copied: %d jobs", len(s.jobs))) || !strings.Contains(o.stdout, "1 paused tube") {
			t.Errorf("salvage: %q", o.stdout)
		}
		o = journal(t, 0, "export", "--format", "v7", s.dir, out)
		for _, want := range []string{"-z 300002", `tube "t0" is paused`, fmt.Sprintf("deleted jobs used ids up to %d", s.last)} {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("export says nothing of %q: %s", want, o.stdout)
			}
		}
	})
	journal(t, 0, "verify", fresh)
	same(t, s.shown(t, fresh), s.jobs)
	p := keep(t, fresh)
	if id := p.put("t0", 1, 0, "next"); id != s.last+1 {
		t.Errorf("the next id is %d, want %d", id, s.last+1)
	}
	if stats := p.ask("stats-tube t0\r\n"); !strings.Contains(stats, "\npause: 5000\n") {
		t.Errorf("the pause is gone: %q", stats)
	}
	order := p.buriedOrder("work")
	p.Stop()
	if len(order) != 2 {
		t.Errorf("buried: %q", order)
	}

	program, _, err := conversation.Beanstalk.Reference()
	if err != nil {
		t.Skip(err)
	}
	ref := start(t, program, "-b", out, "-z", "300002")
	for id, job := range s.jobs { // beanstalkd adds one to the buries of each buried job
		if strings.Contains(job, "state: buried") {
			s.jobs[id] = regexp.MustCompile(`buries: \d+`).ReplaceAllStringFunc(job, func(line string) string {
				n, _ := strconv.Atoi(line[len("buries: "):])
				return fmt.Sprint("buries: ", n+1)
			})
		}
	}
	same(t, ref.jobs(s.last+10), s.jobs)
	if got := ref.buriedOrder("work"); !slices.Equal(got, order) {
		t.Errorf("buried in the order %q, want %q", got, order)
	}
}

// flip changes the byte in the middle of the used part of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	used := len(strings.TrimRight(string(b), "\x00"))
	b[used/2] ^= 1
	must(t, os.WriteFile(path, b, 0o600))
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	v, err := wal.Look(wal.ReadOnlyDir(dir))
	must(t, err)
	var names []string
	for _, s := range v.Segments {
		if s.Batches > 0 {
			names = append(names, filepath.Join(dir, s.File))
		}
	}
	return names
}

// TestDamagesAreFoundAndTheRestIsSalvaged.
func TestDamagesAreFoundAndTheRestIsSalvaged(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := newStock(t)
	for name, hurt := range map[string]func(files []string) (places int){
		"two flipped bytes": func(files []string) int {
			flip(t, files[0])
			flip(t, files[1])
			return 2
		},
		"a missing file": func(files []string) int {
			must(t, os.Remove(files[1]))
			return 1
		},
	} {
		dir := copyOf(t, s.dir)
		files := segments(t, dir)
		if len(files) < 3 {
			t.Fatalf("%d segments", len(files))
		}
		places := hurt(files)
		fresh := t.TempDir()
		lost := make(map[int]bool) // jobs with records in a lost part
		unchanged(t, dir, func() {
			o := journal(t, client.Damage, "verify", dir)
			if strings.Count(o.stdout, "damage: ") != places || !strings.Contains(o.stdout, filepath.Base(files[1])) || !strings.Contains(o.stderr, "salvage "+dir) {
				t.Errorf("%s: verify: %s%s", name, o.stdout, o.stderr)
			}
			o = journal(t, client.Damage, "inspect", dir)
			if strings.Count(o.stdout, "damage: ") != places {
				t.Errorf("%s: inspect: %s", name, o.stdout)
			}
			journal(t, client.Damage, "export", dir, filepath.Join(fresh, "out"))
			o = journal(t, 0, "salvage", dir, fresh)
			if !strings.Contains(o.stdout, fmt.Sprintf(" in %d place", places)) || !strings.Contains(o.stdout, "come back") {
				t.Errorf("%s: salvage: %s", name, o.stdout)
			}
		})
		v, err := wal.Look(wal.ReadOnlyDir(dir))
		must(t, err)
		whole, err := wal.Look(wal.ReadOnlyDir(s.dir))
		must(t, err)
		err = whole.Each(true, func(b *wal.Batch) error {
			for _, l := range v.Losses {
				if b.Number < l.First || b.Number >= l.Next {
					continue
				}
				for r, err := range b.Records() {
					if err == nil && r.Kind != record.KindState {
						lost[int(r.ID)] = true
					}
				}
			}
			return nil
		})
		if err != nil || len(lost) == 0 {
			t.Fatalf("%s: %d jobs in what is lost, %v", name, len(lost), err)
		}
		journal(t, 0, "verify", fresh)
		got, want := s.shown(t, fresh), map[int]string{}
		for id, text := range s.jobs {
			if !lost[id] {
				want[id] = text
			}
		}
		for id := range got {
			if lost[id] {
				delete(got, id)
			}
		}
		same(t, got, want)
	}
}

// TestATornEndIsNoDamage.
func TestATornEndIsNoDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := newStock(t)
	files := segments(t, s.dir)
	last := files[len(files)-1]
	b, err := os.ReadFile(last)
	must(t, err)
	b[len(strings.TrimRight(string(b), "\x00"))-1] ^= 1 // in the last delete
	must(t, os.WriteFile(last, b, 0o600))
	unchanged(t, s.dir, func() {
		o := journal(t, 0, "verify", s.dir)
		if !strings.HasPrefix(o.stdout, "torn end: "+filepath.Base(last)+" at offset ") || !strings.Contains(o.stdout, "\nwhole: ") {
			t.Errorf("verify: %q", o.stdout)
		}
		o = journal(t, 0, "salvage", s.dir, filepath.Join(t.TempDir(), "new"))
		if !strings.Contains(o.stdout, fmt.Sprintf("copied: %d jobs", len(s.jobs)+1)) {
			t.Errorf("salvage: %q", o.stdout)
		}
		o = journal(t, 0, "export", s.dir, filepath.Join(t.TempDir(), "out"))
		if !strings.Contains(o.stdout, fmt.Sprintf("written: %d jobs", len(s.jobs)+1)) {
			t.Errorf("export: %q", o.stdout)
		}
	})
}

// TestSalvageReadsFilesOfBeanstalkd.
func TestSalvageReadsFilesOfBeanstalkd(t *testing.T) {
	program, _, err := conversation.Beanstalk.Reference()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	ref := start(t, program, "-b", dir)
	for i := range 9 {
		ref.put("t", i, 0, strings.Repeat("y", 100))
	}
	ref.Stop()
	flip := filepath.Join(dir, "binlog.1")
	b, err := os.ReadFile(flip)
	must(t, err)
	b[strings.Index(string(b), "yyy")+100] = 'z' // the CR behind the first body
	must(t, os.Chmod(flip, 0o600))
	if err := os.WriteFile(flip, b, 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "new")
	unchanged(t, dir, func() {
		journal(t, client.Dir, "verify", dir)
		o := journal(t, 0, "salvage", dir, fresh)
		if !strings.Contains(o.stdout, "damage: binlog.1 at offset ") || !strings.Contains(o.stdout, "copied: 8 jobs") {
			t.Errorf("salvage: %q", o.stdout)
		}
	})
	p := keep(t, fresh)
	if got := p.jobs(20); len(got) != 8 || got[1] != "" || !strings.HasSuffix(got[9], "yyy\r\n") {
		t.Errorf("%d jobs: %v", len(got), got)
	}
}

// TestRefusalsLeaveNothingBehind.
func TestRefusalsLeaveNothingBehind(t *testing.T) {
	dir := t.TempDir()
	p := keep(t, dir)
	p.put("t", 1, 0, "x")
	full := t.TempDir()
	must(t, os.WriteFile(filepath.Join(full, "file"), nil, 0o600))
	none := filepath.Join(full, "none")
	for _, args := range [][]string{{"inspect", dir}, {"verify", dir}, {"salvage", dir, none}, {"export", dir, none}} {
		o := journal(t, client.Dir, args...)
		if want := fmt.Sprintf("is in use by a server: %s is locked by process %d", filepath.Join(dir, "lock"), p.Cmd.Process.Pid); !strings.Contains(o.stderr, want) {
			t.Errorf("%q while a server runs: %q", args, o.stderr)
		}
	}
	p.Stop()
	for _, tt := range []struct {
		code int
		args string
		want string
	}{
		{5, "export --format v5 a b", "give v7"},
		{10, "verify " + none, "no such file"},
		{10, "verify " + full, "holds no journal"},
		{10, "verify " + filepath.Join(full, "file"), "not a directory"},
		{10, "salvage " + full + " " + none, "holds no journal"},
		{10, "salvage " + dir + " " + full, "is not empty"},
		{10, "salvage " + dir + " " + dir, "which must not change"},
		{10, "export " + dir + " " + filepath.Join(dir, "out"), "which must not change"},
		{10, "export " + dir + " " + full, "is not empty"},
		{10, "export " + dir + " " + filepath.Join(none, "out"), "cannot be made"},
	} {
		if o := journal(t, tt.code, strings.Fields(tt.args)...); !strings.Contains(o.stderr, tt.want) {
			t.Errorf("%q: %q, want something about %q", tt.args, o.stderr, tt.want)
		}
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a directory was left behind")
	}
}

// TestOddNamesKeepTheColumns: the name of a Gearman function may have tabs and newlines.
func TestOddNamesKeepTheColumns(t *testing.T) {
	dir := t.TempDir()
	address := daemon.FreeAddress(t)
	p := keep(t, dir, "--gearman-listen", address)
	names := map[string]string{"send mail": `"send mail"`, "tab\tend\n": `"tab\tend\n"`, "\x1b[2J": `"\x1b[2J"`, `say "hi"`: `"say \"hi\""`, "plain": "plain"}
	submit(t, address, slices.Collect(maps.Keys(names))...)
	p.Stop()

	overview := journal(t, 0, "inspect", dir).stdout
	jobs := strings.Split(strings.TrimSuffix(journal(t, 0, "inspect", "--jobs", dir).stdout, "\n"), "\n")
	if len(jobs) != len(names)+1 {
		t.Errorf("inspect --jobs: %d lines for %d jobs:\n%q", len(jobs), len(names), jobs)
	}
	for _, line := range jobs {
		if n, want := strings.Count(line, "\t"), strings.Count(jobs[0], "\t"); n != want {
			t.Errorf("inspect --jobs: %q has %d tabs, want %d", line, n, want)
		}
	}
	records := journal(t, 0, "inspect", "--records", dir).stdout
	for name, want := range names {
		if !strings.Contains(overview, "\n"+want+"  ") {
			t.Errorf("inspect does not show %q as %s:\n%q", name, want, overview)
		}
		if !slices.ContainsFunc(jobs, func(line string) bool { return strings.Contains(line, "\t"+want+"\tready\t") }) {
			t.Errorf("inspect --jobs does not show %q as %s", name, want)
		}
		if !strings.Contains(records, " tube="+want+" state=ready ") {
			t.Errorf("inspect --records does not show %q as %s", name, want)
		}
	}
}

// follows is the proposer of a server that never leads.
type follows struct{}

func (follows) Propose([]byte, uint64) error { return errors.New("it does not lead") }
func (follows) End(uint64) error             { return errors.New("it does not lead") }
func (follows) Wanted() bool                 { return false }

// TestJournalOfAClustersServer: the commands show the records of the log, and skip replaced
// entries. A file that was deleted below a Floor is not missing.
func TestJournalOfAClustersServer(t *testing.T) {
	dir := t.TempDir()
	j := commit.New(commit.Options{
		Options: wal.Options{
			Disk: wal.Dir(dir), SegmentSize: wal.SegmentMin, Manual: true, Now: time.Now,
		},
		Shards:   1,
		Proposer: follows{},
		Node:     5,
	})
	_, err := j.Recover(wal.Replayer{Workers: 1, Worker: func(uint16) int { return 0 }})
	must(t, err)
	must(t, j.Open())
	put := func(id uint64, tube string, size int) []byte {
		return (&record.Job{ID: id, Tube: []byte(tube), State: record.Ready, Body: make([]byte, size)}).AppendPut(nil, core.SlotOf([]byte(tube)), 0)
	}
	first := (&record.Epoch{Node: 5, Time: 1e18, Format: record.Format}).Append(nil)
	first = (&record.Floor{Index: 1, Globals: record.Globals{HighID: 40}}).Append(first)
	e := j.Entries()
	must(t, e.Append([]wal.Entry{
		{Index: 1, Term: 1, Data: first},
		{Index: 2, Term: 1, Data: put(41, "old", 10)},
		{Index: 3, Term: 1, Kind: record.ChangeV2, Data: []byte("who")},
		{Index: 4, Term: 1, Data: put(42, "lost", 10)},
		{Index: 5, Term: 1, Data: put(43, "lost", 10)},
	}, 0))
	must(t, e.Append([]wal.Entry{{Index: 4, Term: 2, Data: put(44, "found", 10)}}, 3))
	must(t, e.Sync())
	must(t, j.Close())

	unchanged(t, dir, func() {
		out := journal(t, 0, "inspect", dir).stdout
		for _, want := range []string{
			"jobs: 2 (2 ready", "log: entries 1 to 4; 2 batches were replaced", "highest id: 44", "\nfound ", "\nold ",
		} {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.TrimSpace(want)) {
				t.Errorf("inspect does not say %q:\n%s", want, out)
			}
		}
		out = journal(t, 0, "inspect", "--records", dir).stdout
		for _, want := range []string{
			"entry index=1 term=1 committed=0 of=records bytes=0\n", "floor index=1 highest=40 imported=0\n",
			"epoch node=0000000000000005 time=2001-09-09T01:46:40.000Z format=1\n", "of=members bytes=3\n",
			"entry index=5 term=1 committed=0 of=records bytes=0 (replaced)\n", "entry index=4 term=2 committed=3 of=records bytes=0\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("the records do not say %q:\n%s", want, out)
			}
		}
		journal(t, 0, "verify", dir)
	})
	saved := t.TempDir()
	if out := journal(t, 0, "salvage", dir, saved).stdout; !strings.Contains(out, "copied: 2 jobs") || !strings.Contains(out, "continue from 45") {
		t.Errorf("salvage says %q", out)
	}
}

// TestTargetIsDurable: salvage and export sync the files and the directory's entry before they end.
// salvage writes the first segment after the others are durable.
func TestTargetIsDurable(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: apt-get install strace")
	}
	parent, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	program := daemon.CLI(t)
	old := filepath.Join(parent, "old")
	must(t, os.Mkdir(old, 0o700))
	p := keep(t, old)
	for range 400 {
		p.ask("put 0 0 100 60000\r\n%s\r\n", strings.Repeat("x", 60000))
	}
	p.Stop()
	for _, command := range [][]string{{"journal", "salvage"}, {"journal", "export", "--format", "v7"}} {
		to := filepath.Join(parent, command[1])
		trace := filepath.Join(parent, "trace")
		args := []string{"-f", "-y", "-o", trace, "-e", "trace=mkdir,mkdirat,rename,renameat,renameat2,fsync,fdatasync", program}
		args = append(args, command...)
		if out, err := exec.Command(strace, append(args, old, to)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		b, err := os.ReadFile(trace)
		must(t, err)
		var did []string
		for line := range strings.Lines(string(b)) {
			switch {
			case strings.Contains(line, "mkdir") && strings.Contains(line, to+"\""):
				did = append(did, "make")
			case strings.Contains(line, "sync(") && strings.Contains(line, "<"+to+">"):
				did = append(did, "sync")
			case strings.Contains(line, "sync(") && strings.Contains(line, "<"+parent+">"):
				did = append(did, "sync above")
			case strings.Contains(line, "rename") && strings.Contains(line, to+"/journal.0000000001\""):
				did = append(did, "first")
			case strings.Contains(line, "rename") && strings.Contains(line, to+"/"):
				did = append(did, "another")
			}
		}
		did = slices.Compact(did)
		want := "make another sync first sync sync above"
		if command[1] == "export" {
			want = "make another sync sync above"
		}
		if got := strings.Join(did, " "); got != want {
			t.Errorf("%s: %s\nwant %s\n%s", command[1], got, want, b)
		}
	}
}
