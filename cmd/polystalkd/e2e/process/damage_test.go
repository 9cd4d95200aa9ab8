package process

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// These are faults of beanstalkd's log that ours must not have. TestDiskErrorsEndTheServer and
// TestTimerSyncsTheLastBurst cover three others, and the simulators of package shard/wal the rest.

// TestBodiesUpToTheLimitSurvive: after a restart beanstalkd refuses its own jobs of 65534 and 65535
// bytes, and all jobs that follow them. A smaller limit for new jobs makes no difference. The log
// shows how many jobs exist and where they are kept.
func TestBodiesUpToTheLimitSurvive(t *testing.T) {
	dir := t.TempDir()
	s := startKept(t, dir)
	c := daemon.Client(t, s)
	for i, size := range []int{0, 1, 65533, 65534, 65535, 1} {
		daemon.Expect(t, c, fmt.Sprintf("put 0 0 100 %d\r\n%s\r\n", size, strings.Repeat("b", size)), fmt.Sprintf("INSERTED %d\r\n", i+1))
	}
	before := see(t, c, upTo(6))
	daemon.Kill(s)
	for _, z := range []string{"65535", "100"} {
		s := startLogged(t, dir, "-z", z)
		sameJobs(t, see(t, s.Client(), upTo(10)), before)
		if line := s.WaitLog("journal read"); line == nil || line["jobs"] != 6.0 || line["dir"] != dir || line["level"] != "INFO" {
			t.Errorf("%v, want 6 jobs in %s", line, dir)
		}
		s.Crash()
	}
}

// kept returns a directory with jobs in at least three batches, after a kill.
func kept(t *testing.T) (dir string, jobs map[uint64]*sighting) {
	t.Helper()
	dir = t.TempDir()
	s := startKept(t, dir, "-s", "262144")
	c := daemon.Client(t, s)
	for range 40 {
		putN(t, c, 5, "put 5 0 100 3000\r\n"+strings.Repeat("body", 750)+"\r\n")
	}
	jobs = see(t, c, upTo(200))
	daemon.Kill(s)
	return dir, jobs
}

// refuses starts the daemon. It must report what is wrong with a file, and change nothing.
func refuses(t *testing.T, dir, file string, says ...string) {
	t.Helper()
	before := contents(t, dir, "")
	o := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l", "127.0.0.1", "-p", "0", "-b", dir, "-s", "262144")
	if o.Code != 10 {
		t.Errorf("exit code %d, want 10", o.Code)
	}
	for _, w := range append(says, file) {
		if !strings.Contains(o.Stderr, w) {
			t.Errorf("it does not say %q: %s", w, o.Stderr)
		}
	}
	if !maps.Equal(contents(t, dir, ""), before) {
		t.Error("the directory was changed")
	}
}

// TestDamageIsNotServed: beanstalkd skips the rest of a file at a torn or flipped record, serves a
// flipped body, and skips and later deletes a file of an unknown version.
func TestDamageIsNotServed(t *testing.T) {
	dir, jobs := kept(t)
	files := segments(t, dir)
	if len(files) < 3 {
		t.Fatalf("only %d segments", len(files))
	}
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		damage func(b []byte)
		says   string
	}{
		"a flipped bit in a body":        {func(b []byte) { b[bytes.Index(b[len(b)/3:], []byte("bodybody"))+len(b)/3] ^= 1 }, "offset"},
		"a flipped bit near the start":   {func(b []byte) { b[70] ^= 0x80 }, "salvage"},
		"a block that was never written": {func(b []byte) { clear(b[4096:8192]) }, "offset"},
		"an unknown version":             {func(b []byte) { b[8] = 99 }, "version 99"},
	} {
		bad := bytes.Clone(good)
		c.damage(bad)
		if err := os.WriteFile(files[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { refuses(t, dir, filepath.Base(files[0]), c.says) })
	}
	if err := os.WriteFile(files[0], good, 0o600); err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.Rename(files[1], aside); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, filepath.Base(files[1]), "missing")
	if err := os.Rename(aside, files[1]); err != nil {
		t.Fatal(err)
	}
	s := startKept(t, dir, "-s", "262144")
	sameJobs(t, see(t, daemon.Client(t, s), upTo(300)), jobs)
}

// TestTornEndIsCutOff: half of the last write may survive a crash of the machine. It was not
// acknowledged, so it is cut off and reported in the log; everything else survives.
func TestTornEndIsCutOff(t *testing.T) {
	dir, jobs := kept(t)
	files := segments(t, dir)
	// The last segment that is not empty.
	slices.Reverse(files)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		end := len(bytes.TrimRight(b, "\x00"))
		if end < 1000 {
			continue
		}
		clear(b[end-500 : end]) // of the last batch
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		break
	}
	s := startLogged(t, dir, "-s", "262144")
	if !s.LogHas("ended with an incomplete write") {
		t.Errorf("the log does not tell: %s", s.LogText())
	}
	c := s.Client()
	found := see(t, c, upTo(300))
	lost := 0
	for id, j := range jobs {
		if found[id] == nil {
			lost++
			continue
		}
		if found[id].body != j.body {
			t.Errorf("job %d was altered", id)
		}
	}
	if lost == 0 || lost > 5 || len(found) != len(jobs)-lost {
		t.Errorf("%d jobs of the last batch are missing, %d are there of %d", lost, len(found), len(jobs))
	}
	daemon.Expect(t, c, "put 0 0 100 1\r\nx\r\n", fmt.Sprintf("INSERTED %d\r\n", 200-lost+1))
}
