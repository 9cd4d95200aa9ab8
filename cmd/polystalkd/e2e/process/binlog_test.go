package process

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/conversation"
)

// legacy fills a directory with beanstalkd and kills it. It returns the jobs as beanstalkd showed
// them, and the highest id.
func legacy(t *testing.T, dir string, large bool) (jobs map[uint64]*sighting, high uint64) {
	t.Helper()
	program, _ := daemon.Reference(t)
	args := []string{"-b", dir, "-s", "20000"}
	if large {
		args = append(args, "-z", "300000")
	}
	s, err := conversation.StartServer(program, args...)
	must(t, err)
	t.Cleanup(s.Stop)
	c := daemon.Client(t, s)
	other := daemon.Client(t, s)
	put := func(tube string, pri, delay, ttr int, body string) (id uint64) {
		daemon.MustAsk(t, c, "use %s\r\n", tube)
		reply := daemon.MustAsk(t, c, "put %d %d %d %d\r\n%s\r\n", pri, delay, ttr, len(body), body)
		if _, err := fmt.Sscanf(reply, "INSERTED %d\r\n", &id); err != nil {
			t.Fatalf("put: %q", reply)
		}
		return id
	}
	reserve := func(id uint64) { daemon.MustAsk(t, c, "reserve-job %d\r\n", id) }
	put("default", 0, 0, 1, "")
	put("default", 4294967295, 0, 4294967295, "a line\r\nand another\x00\xff")
	put("a-tube", 7, 4000000, 60, "delayed for long")
	put("a-tube", 7, 3000, 60, "delayed")
	b := put("b-tube", 1, 0, 60, "buried")
	reserve(b)
	daemon.Expect(t, c, fmt.Sprintf("bury %d 99\r\n", b), "BURIED\r\n")
	b2 := put("b-tube", 1, 5000, 60, "buried, kicked, buried")
	for range 2 {
		reserve(b2)
		daemon.Expect(t, c, fmt.Sprintf("bury %d 5\r\n", b2), "BURIED\r\n")
		daemon.Expect(t, c, fmt.Sprintf("kick-job %d\r\n", b2), "KICKED\r\n")
	}
	reserve(b2)
	daemon.Expect(t, c, fmt.Sprintf("bury %d 5\r\n", b2), "BURIED\r\n")
	r := put("a-tube", 3, 0, 60, "released with delay")
	reserve(r)
	daemon.Expect(t, c, fmt.Sprintf("release %d 4 7000\r\n", r), "RELEASED\r\n")
	// Old jobs, which beanstalkd's compaction moves.
	for i := range 30 {
		put(strings.Repeat("m", 200), i, 0, 1000, strings.Repeat("moved", 40))
	}
	for i := range 400 {
		id := put("churn", i, 0, 10, strings.Repeat("c", i))
		daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", id), "DELETED\r\n")
	}
	if large {
		put("big", 1, 0, 10, strings.Repeat("large\x00", 40_000))
		put("big", 1, 0, 10, strings.Repeat("e", 65533))
	}
	gone := put("default", 0, 0, 10, "deleted, and the last")
	daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", gone), "DELETED\r\n")
	jobs = see(t, c, upTo(gone))
	if fields(daemon.MustAsk(t, c, "stats\r\n"))["binlog-records-migrated"] == "0" {
		t.Fatal("nothing was moved: the directory is not what it is meant to be")
	}
	// A job that is reserved at the end comes back ready.
	for id, j := range jobs {
		if j.stats["tube"] == strings.Repeat("m", 200) && id%2 == 0 {
			daemon.MustAsk(t, other, "reserve-job %d\r\n", id)
		}
	}
	s.Kill()
	return jobs, gone
}

// expectImported compares the jobs with beanstalkd's. It ignores what beanstalkd does not write:
// the number of reserves since a job's last record.
func expectImported(t *testing.T, c *conversation.Client, jobs map[uint64]*sighting, high uint64) {
	t.Helper()
	found := see(t, c, upTo(high+100))
	want := maps.Clone(jobs)
	for id, j := range want {
		g := found[id]
		if g != nil && g.stats["reserves"] != j.stats["reserves"] && j.stats["tube"] == strings.Repeat("m", 200) {
			g.stats["reserves"] = j.stats["reserves"]
		}
	}
	sameJobs(t, found, want)
}

// lowest returns the number of beanstalkd's first file.
func lowest(t *testing.T, files map[string]string) int {
	t.Helper()
	low := 1 << 30
	for name := range files {
		var n int
		if _, err := fmt.Sscanf(name, "binlog.%d", &n); err != nil {
			t.Fatal(err)
		}
		low = min(low, n)
	}
	return low
}

const (
	tookOver  = "beanstalkd's files were imported, and were not changed"
	takenOver = "beanstalkd's files were imported before, and are ignored"
	startOver = "an import of beanstalkd's files was interrupted; starting again"
)

// TestTakesOverBeanstalkdsDirectory: all jobs of a killed beanstalkd are imported exactly once,
// whatever happens afterwards. Its files stay unchanged.
func TestTakesOverBeanstalkdsDirectory(t *testing.T) {
	for _, shards := range []string{"1", "16"} {
		t.Run("shards="+shards, func(t *testing.T) {
			dir := t.TempDir()
			jobs, high := legacy(t, dir, true)
			files := contents(t, dir, "binlog.")
			if shards == "16" { // the state after a crash during an import: the mark, and a part of the journal
				write(t, filepath.Join(dir, "importing"), "")
				write(t, filepath.Join(dir, "journal.0000000001"), "begun")
			}
			s := startLogged(t, dir, "--shards", shards)
			c := s.Client()
			expectImported(t, c, jobs, high)
			if !s.LogHas(tookOver) || s.LogHas(startOver) != (shards == "16") {
				t.Errorf("the log does not say so: %s", s.LogText())
			}
			if n := fmt.Sprintf(`"binlog.%d"`, len(files)+lowest(t, files)-1); !s.LogHas(n) {
				t.Errorf("the log does not name %s", n)
			}
			daemon.Expect(t, c, "put 0 0 100 3\r\nnew\r\n", fmt.Sprintf("INSERTED %d\r\n", high+1))
			daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", high+1), "DELETED\r\n")
			gone := slices.Min(slices.Collect(maps.Keys(jobs)))
			daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", gone), "DELETED\r\n")
			delete(jobs, gone)
			s.Crash()

			s = startLogged(t, dir)
			if !s.LogHas(takenOver) || s.LogHas(tookOver) {
				t.Errorf("the second start did not leave the files alone: %s", s.LogText())
			}
			expectImported(t, s.Client(), jobs, high)
			daemon.Expect(t, s.Client(), "put 0 0 100 3\r\nnew\r\n", fmt.Sprintf("INSERTED %d\r\n", high+2))
			s.Crash()
			if now := contents(t, dir, "binlog."); !maps.Equal(now, files) {
				t.Error("beanstalkd's files are not as they were")
			}

			// The journal cannot be merged with what beanstalkd has written since.
			later := filepath.Join(dir, "binlog.1000000")
			must(t, os.WriteFile(later, append([]byte{7, 0, 0, 0}, make([]byte, 4092)...), 0o400))
			refuses(t, dir, "binlog.1000000", "were not imported")
			must(t, os.Remove(later))

			// The journal has everything, even without beanstalkd's files.
			for name := range files {
				must(t, os.Remove(filepath.Join(dir, name)))
			}
			s = startLogged(t, dir)
			c = s.Client()
			daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", high+2), "DELETED\r\n")
			expectImported(t, c, jobs, high)
		})
	}
}

// refuses starts the daemon. It must report what is wrong with a file, and change nothing.
func refuses(t *testing.T, dir, file string, says ...string) {
	t.Helper()
	before := contents(t, dir, "")
	wants(t, run(t, nil, "-l", "127.0.0.1", "-p", "0", "-b", dir), fault.Journal, append(says, file)...)
	if !maps.Equal(contents(t, dir, ""), before) {
		t.Error("the directory was changed")
	}
}

// TestCountersAfterRestart: counters in stats have beanstalkd's values.
func TestCountersAfterRestart(t *testing.T) {
	program, _ := daemon.Reference(t)
	var after [2][2]map[string]string
	for i, args := range [][]string{{program}, {daemon.Program(t), "--log-level", "error"}} {
		dir := t.TempDir()
		args = append(args, "-b", dir)
		s := startOther(t, args)
		c := daemon.Client(t, s)
		daemon.Expect(t, c, "use a\r\n", "USING a\r\n")
		for id := range 5 {
			daemon.Expect(t, c, "put 0 0 100 1\r\nx\r\n", fmt.Sprintf("INSERTED %d\r\n", id+1))
		}
		daemon.Expect(t, c, "delete 1\r\n", "DELETED\r\n")
		daemon.Expect(t, c, "reserve-job 2\r\n", "RESERVED 2 1\r\nx\r\n")
		daemon.Expect(t, c, "bury 2 0\r\n", "BURIED\r\n")
		daemon.Expect(t, c, "reserve-job 3\r\n", "RESERVED 3 1\r\nx\r\n")
		daemon.Expect(t, c, "release 3 0 1000\r\n", "RELEASED\r\n")
		s.Kill()
		s = startOther(t, args)
		c = daemon.Client(t, s)
		after[i] = [2]map[string]string{fields(daemon.MustAsk(t, c, "stats\r\n")), fields(daemon.MustAsk(t, c, "stats-tube a\r\n"))}
		s.Kill()
	}
	for n, keys := range [][]string{
		{"current-jobs-urgent", "current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried", "total-jobs", "job-timeouts", "cmd-put", "cmd-delete", "current-tubes"},
		{"current-jobs-urgent", "current-jobs-ready", "current-jobs-delayed", "current-jobs-buried", "total-jobs", "cmd-delete", "pause"},
	} {
		for _, key := range keys {
			if w, g := after[0][n][key], after[1][n][key]; w != g {
				t.Errorf("after a restart %s is %s, with beanstalkd %s", key, g, w)
			}
		}
	}
}

// startOther runs a program, which may be another server.
func startOther(t *testing.T, args []string) *conversation.Server {
	t.Helper()
	s, err := conversation.StartServer(args[0], args[1:]...)
	must(t, err)
	t.Cleanup(s.Stop)
	return s
}
