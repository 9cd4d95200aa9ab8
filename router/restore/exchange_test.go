package restore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// withJobs is a directory with the journal of a server that had n jobs.
func withJobs(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	target := newTarget(t, 1)
	j, _ := open(t, target, &Config{Dir: dir, SegmentSize: 1 << 20, Sync: wal.SyncNever})
	for range n {
		put(t, target, "a", "x")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestStartGoesOnWithAnExchange: a server that ended while its journal was exchanged for
// another starts with that one, whole; what was only received in part is removed.
func TestStartGoesOnWithAnExchange(t *testing.T) {
	for _, c := range []struct {
		name, marker string
		jobs         int
	}{
		{"it had begun", "exchange.begun", 5},
		{"it had not", "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, dir := withJobs(t, 5), withJobs(t, 2)
			files, err := filepath.Glob(filepath.Join(from, "journal.*"))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			for _, f := range files {
				name := strings.Replace(filepath.Base(f), "journal.", "incoming.", 1)
				if err := os.Rename(f, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			if c.marker != "" {
				if err := os.WriteFile(filepath.Join(dir, c.marker), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			target := newTarget(t, 1)
			j, _ := open(t, target, &Config{Dir: dir, SegmentSize: 1 << 20})
			defer j.Close()
			if id := put(t, target, "a", "y"); id != core.JobID(c.jobs+1) {
				t.Errorf("the next job is %d, want %d", id, c.jobs+1)
			}
			for _, pattern := range []string{"incoming.*", "exchange.*"} {
				if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
					t.Errorf("there is still %q", left)
				}
			}
		})
	}
}
