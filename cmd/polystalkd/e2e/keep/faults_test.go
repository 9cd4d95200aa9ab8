package keep

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

// Ten faults of beanstalkd's log were found before ours was written. Those that
// are not in this file:
//
//	compaction unlinks before it copies     shard/wal: TestFlakyDisk
//	write error, fsync error                TestDiskErrorsEndTheServer
//	no timer for -f                         TestTimerSyncsTheLastBurst
//	the log grows without end               TestDirectoryStaysBounded

// TestBodiesUpToTheLimitSurvive: beanstalkd refuses its own jobs of 65534 and
// 65535 bytes at the restart, and all that follows them.
func TestBodiesUpToTheLimitSurvive(t *testing.T) {
	dir := t.TempDir()
	s := startKept(t, dir)
	c := daemon.Client(t, s)
	for i, size := range []int{0, 1, 65533, 65534, 65535, 1} {
		daemon.Expect(t, c, fmt.Sprintf("put 0 0 100 %d\r\n%s\r\n", size, strings.Repeat("b", size)), fmt.Sprintf("INSERTED %d\r\n", i+1))
	}
	before := see(t, c, upTo(6))
	daemon.Kill(s)
	s = startKept(t, dir)
	sameJobs(t, see(t, daemon.Client(t, s), upTo(10)), before)
	// With a smaller limit for new jobs too.
	daemon.Kill(s)
	s = startKept(t, dir, "-z", "100")
	sameJobs(t, see(t, daemon.Client(t, s), upTo(10)), before)
}

// TestIdsNeverRestart: with all jobs deleted beanstalkd begins at 1 again after
// two restarts.
func TestIdsNeverRestart(t *testing.T) {
	dir := t.TempDir()
	next := uint64(1)
	for round := range 5 {
		s := startKept(t, dir, "-s", "262144")
		c := daemon.Client(t, s)
		if round%2 == 0 {
			// Enough for the segments that knew of the ids to be given up.
			for range 20 {
				for range 2 {
					id := putN(t, c, 1, "put 0 0 100 60000\r\n"+strings.Repeat("i", 60000)+"\r\n")
					if id != next {
						t.Fatalf("round %d: id %d, want %d", round, id, next)
					}
					daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", id), "DELETED\r\n")
					next++
				}
			}
		}
		if round == 2 {
			c.Close()
			s.Stop()
		} else {
			daemon.Kill(s)
		}
	}
}

// TestReleaseKeepsThePriority: a release without delay never reaches
// beanstalkd's log.
func TestReleaseKeepsThePriority(t *testing.T) {
	dir := t.TempDir()
	s := startKept(t, dir)
	c := daemon.Client(t, s)
	daemon.Expect(t, c, "put 1 0 100 1\r\na\r\n", "INSERTED 1\r\n")
	daemon.Expect(t, c, "put 2 0 100 1\r\nb\r\n", "INSERTED 2\r\n")
	daemon.Expect(t, c, "reserve\r\n", "RESERVED 1 1\r\na\r\n")
	daemon.Expect(t, c, "release 1 3 0\r\n", "RELEASED\r\n")
	before := see(t, c, upTo(2))
	daemon.Kill(s)
	s = startKept(t, dir)
	c = daemon.Client(t, s)
	sameJobs(t, see(t, c, upTo(2)), before)
	daemon.Expect(t, c, "reserve\r\n", "RESERVED 2 1\r\nb\r\n")
}

// kept is a directory with jobs in three batches at least, after a kill.
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

// refuses starts the daemon and wants it to say what is wrong with a file, and
// to change nothing.
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

// TestDamageIsNotServed: beanstalkd skips the rest of a file at a torn or
// flipped record, and serves a flipped body.
func TestDamageIsNotServed(t *testing.T) {
	dir, jobs := kept(t)
	files := segments(t, dir)
	if len(files) < 3 {
		t.Fatalf("only %d segments", len(files))
	}
	for _, file := range files[:2] {
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, damage := range map[string]func(b []byte){
			"a flipped bit in a body":        func(b []byte) { b[bytes.Index(b[len(b)/3:], []byte("bodybody"))+len(b)/3] ^= 1 },
			"a body of zeros":                func(b []byte) { clear(b[len(b)/2 : len(b)/2+4096]) },
			"a flipped bit near the start":   func(b []byte) { b[70] ^= 0x80 },
			"a block that was never written": func(b []byte) { clear(b[4096:8192]) },
		} {
			bad := bytes.Clone(good)
			damage(bad)
			if err := os.WriteFile(file, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Run(name, func(t *testing.T) { refuses(t, dir, filepath.Base(file), "offset", "salvage") })
		}
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a missing file", func(t *testing.T) {
		aside := filepath.Join(t.TempDir(), "aside")
		if err := os.Rename(files[1], aside); err != nil {
			t.Fatal(err)
		}
		defer os.Rename(aside, files[1])
		refuses(t, dir, filepath.Base(files[1]), "missing")
	})
	if t.Failed() {
		return
	}
	s := startKept(t, dir, "-s", "262144")
	sameJobs(t, see(t, daemon.Client(t, s), upTo(300)), jobs)
}

// TestTornEndIsCutOff: the last write of a killed machine may be there by half.
// It was not acknowledged; the rest is, and a note says so.
func TestTornEndIsCutOff(t *testing.T) {
	dir, jobs := kept(t)
	files := segments(t, dir)
	// The last segment with anything in it.
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
	if !s.LogHas("that was cut off") {
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

// TestUnknownVersionIsLeftAlone: beanstalkd skips such a file, and later
// deletes it.
func TestUnknownVersionIsLeftAlone(t *testing.T) {
	dir, _ := kept(t)
	file := segments(t, dir)[0]
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[8] = 99 // after the magic
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, filepath.Base(file), "version 99")

	theirs := t.TempDir()
	name := filepath.Join(theirs, "binlog.3")
	if err := os.WriteFile(name, append([]byte{8, 0, 0, 0}, make([]byte, 4092)...), 0o400); err != nil {
		t.Fatal(err)
	}
	refusesImport(t, theirs, "binlog.3")
}

// refusesImport is refuses for beanstalkd's files; our lock may be new.
func refusesImport(t *testing.T, dir, file string) {
	t.Helper()
	before := contents(t, dir, "binlog.")
	o := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l", "127.0.0.1", "-p", "0", "-b", dir)
	if o.Code != 10 || !strings.Contains(o.Stderr, file) || !strings.Contains(o.Stderr, "version") {
		t.Errorf("exit code %d and %q, want 10 and %s named", o.Code, o.Stderr, file)
	}
	if !maps.Equal(contents(t, dir, "binlog."), before) || len(segments(t, dir)) > 0 {
		t.Error("the directory was changed")
	}
}
