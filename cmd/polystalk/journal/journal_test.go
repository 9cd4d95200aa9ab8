package journal

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
	"polystalk/codec/gearman"
	"polystalk/shard/record"
	"polystalk/shard/wal"
)

// TestWholeJournal runs all commands on one journal.
func TestWholeJournal(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := newStock(t)
	fresh := filepath.Join(t.TempDir(), "new")
	out := filepath.Join(t.TempDir(), "out")
	unchanged(t, s.dir, func() {
		o := polystalk(t, 0, "journal", "inspect", s.dir)
		for _, want := range []string{fmt.Sprintf("jobs: %d (", len(s.jobs)), fmt.Sprintf("highest id: %d\n", s.last), "imported: nothing", "\nbig ", "journal "} {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("inspect says nothing of %q:\n%s", want, o.stdout)
			}
		}
		o = polystalk(t, 0, "journal", "inspect", "--jobs", s.dir)
		lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
		if len(lines) != len(s.jobs)+1 {
			t.Errorf("inspect --jobs: %d lines for %d jobs", len(lines), len(s.jobs))
		}
		for _, line := range lines[1:] {
			f := strings.Split(line, "\t")
			var id int
			fmt.Sscan(f[0], &id)
			if want := fmt.Sprintf("tube=%s state=%s pri=%s delay=%s ttr=%s ", f[1], f[2], f[3], f[4], f[5]); !strings.HasPrefix(s.jobs[id], want) {
				t.Errorf("inspect --jobs: %q; the server shows %.150q", line, s.jobs[id])
			}
		}
		o = polystalk(t, 0, "journal", "inspect", "--records", s.dir)
		for _, want := range []string{"put id=1 tube=t0", fmt.Sprintf("delete id=%d\n", s.last), "pause tube=t0", "chunk id=", "update id="} {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("inspect --records has no %q", want)
			}
		}
		o = polystalk(t, 0, "journal", "verify", s.dir)
		if !strings.HasPrefix(o.stdout, "whole: ") {
			t.Errorf("verify: %q", o.stdout)
		}
		o = polystalk(t, 0, "journal", "salvage", s.dir, fresh)
		if !strings.Contains(o.stdout, "lost: nothing") || !strings.Contains(o.stdout, fmt.Sprintf("copied: %d jobs", len(s.jobs))) || !strings.Contains(o.stdout, "1 paused tube") {
			t.Errorf("salvage: %q", o.stdout)
		}
		o = polystalk(t, 0, "journal", "export", "--format", "v7", s.dir, out)
		for _, want := range []string{"-z 300002", `tube "t0" is paused`, fmt.Sprintf("deleted jobs used ids up to %d", s.last)} {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("export says nothing of %q: %s", want, o.stdout)
			}
		}
	})
	polystalk(t, 0, "journal", "verify", fresh)
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
	same(t, ref.jobs(s.last+10, -1), s.jobs)
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
			o := polystalk(t, client.Damage, "journal", "verify", dir)
			if strings.Count(o.stdout, "damage: ") != places || !strings.Contains(o.stdout, filepath.Base(files[1])) || !strings.Contains(o.stderr, "salvage "+dir) {
				t.Errorf("%s: verify: %s%s", name, o.stdout, o.stderr)
			}
			o = polystalk(t, client.Damage, "journal", "inspect", dir)
			if strings.Count(o.stdout, "damage: ") != places {
				t.Errorf("%s: inspect: %s", name, o.stdout)
			}
			polystalk(t, client.Damage, "journal", "export", dir, filepath.Join(fresh, "out"))
			o = polystalk(t, 0, "journal", "salvage", dir, fresh)
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
		polystalk(t, 0, "journal", "verify", fresh)
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
		o := polystalk(t, 0, "journal", "verify", s.dir)
		if !strings.HasPrefix(o.stdout, "torn end: "+filepath.Base(last)+" at offset ") || !strings.Contains(o.stdout, "\nwhole: ") {
			t.Errorf("verify: %q", o.stdout)
		}
		o = polystalk(t, 0, "journal", "salvage", s.dir, filepath.Join(t.TempDir(), "new"))
		if !strings.Contains(o.stdout, fmt.Sprintf("copied: %d jobs", len(s.jobs)+1)) {
			t.Errorf("salvage: %q", o.stdout)
		}
		o = polystalk(t, 0, "journal", "export", s.dir, filepath.Join(t.TempDir(), "out"))
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
		polystalk(t, client.Dir, "journal", "verify", dir)
		o := polystalk(t, 0, "journal", "salvage", dir, fresh)
		if !strings.Contains(o.stdout, "damage: binlog.1 at offset ") || !strings.Contains(o.stdout, "copied: 8 jobs") {
			t.Errorf("salvage: %q", o.stdout)
		}
	})
	p := keep(t, fresh)
	if got := p.jobs(20, 0); len(got) != 8 || got[1] != "" || !strings.HasSuffix(got[9], "yyy\r\n") {
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
		o := polystalk(t, client.Dir, append([]string{"journal"}, args...)...)
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
		{5, "journal export --format v5 a b", "give v7"},
		{10, "journal verify " + none, "no such file"},
		{10, "journal verify " + full, "holds no journal"},
		{10, "journal verify " + filepath.Join(full, "file"), "not a directory"},
		{10, "journal salvage " + full + " " + none, "holds no journal"},
		{10, "journal salvage " + dir + " " + full, "is not empty"},
		{10, "journal salvage " + dir + " " + dir, "which must not change"},
		{10, "journal export " + dir + " " + filepath.Join(dir, "out"), "which must not change"},
		{10, "journal export " + dir + " " + full, "is not empty"},
		{10, "journal export " + dir + " " + filepath.Join(none, "out"), "cannot be made"},
	} {
		if o := polystalk(t, tt.code, strings.Fields(tt.args)...); !strings.Contains(o.stderr, tt.want) {
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
	port, err := conversation.FreePort()
	must(t, err)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p := start(t, daemon.Binary, "-b", dir, "-s", "262144", "--log-level", "error", "--gearman-listen", address)
	conn, err := net.Dial("tcp", address)
	must(t, err)
	defer conn.Close()
	names := map[string]string{"send mail": `"send mail"`, "tab\tend\n": `"tab\tend\n"`, "\x1b[2J": `"\x1b[2J"`, `say "hi"`: `"say \"hi\""`, "plain": "plain"}
	for name := range names {
		packet := gearman.AppendRequest(nil, gearman.SubmitJobBG, []byte(name), nil, []byte("data"))
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, 64)
		if n, err := conn.Read(reply); err != nil || n < 12 || reply[7] != byte(gearman.JobCreated) {
			t.Fatalf("%q: answered with %q, %v", name, reply[:n], err)
		}
	}
	p.Stop()

	overview := polystalk(t, 0, "journal", "inspect", dir).stdout
	jobs := strings.Split(strings.TrimSuffix(polystalk(t, 0, "journal", "inspect", "--jobs", dir).stdout, "\n"), "\n")
	if len(jobs) != len(names)+1 {
		t.Errorf("inspect --jobs: %d lines for %d jobs:\n%q", len(jobs), len(names), jobs)
	}
	for _, line := range jobs {
		if n, want := strings.Count(line, "\t"), strings.Count(jobs[0], "\t"); n != want {
			t.Errorf("inspect --jobs: %q has %d tabs, want %d", line, n, want)
		}
	}
	records := polystalk(t, 0, "journal", "inspect", "--records", dir).stdout
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
