package restore

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// newTarget returns unused shards of a server.
func newTarget(t *testing.T, shards int) *Target { return newTargetAt(t, shards, ops.SystemClock()) }

// newTargetAt is newTarget with a given clock.
func newTargetAt(t *testing.T, shards int, k *ops.Clock) *Target {
	target := &Target{Clock: k, Log: slog.New(slog.DiscardHandler), Workers: 2}
	target.Places = ops.NewMap(ops.MapOptions{
		Shards: shards,
		Naming: ops.Naming{
			Fold:  strings.ToLower,
			Shown: func(name string) (int, bool) { return len(name), false },
		},
		BodyFreed: func(core.Large) {},
	})
	for i := range shards {
		machine := core.New(target.Places.Directory())
		if i == target.Places.OfTube([]byte("default")) {
			machine.Pin("default")
		}
		sh := shard.New(i, machine, target.Clock.Stamp)
		t.Cleanup(sh.Close)
		target.Places.Add(sh)
	}
	return target
}

// own owns shard i. The caller releases it.
func own(t *testing.T, target *Target, i int) (*shard.Shard, *shard.Batch) {
	t.Helper()
	sh, b := target.Places.Shard(i), &shard.Batch{Home: nobody{}}
	target.Clock.Stamp(b)
	if !sh.Own(b) {
		t.Fatalf("shard %d is owned", i)
	}
	return sh, b
}

// put puts a job into a tube, and returns its id.
func put(t *testing.T, target *Target, tube, body string) core.JobID {
	t.Helper()
	i := target.Places.OfTube([]byte(tube))
	sh, b := own(t, target, i)
	defer sh.Release(b)
	apply := func(op core.Op) (r core.Reply) {
		t.Helper()
		if sh.Apply(b, &op, &r); r.Status != core.StatusOK {
			t.Fatalf("operation %d: status %d", op.Kind, r.Status)
		}
		return r
	}
	used := apply(core.Op{Kind: core.OpUse, Name: []byte(tube)})
	id := target.Places.Numbers(i).NextID()
	apply(core.Op{Kind: core.OpPut, Tube: used.Tube, ID: id, TTR: 60, Body: []byte(body)})
	apply(core.Op{Kind: core.OpUnuse, Tube: used.Tube})
	return id
}

// alone are the options of a server that is alone.
var alone = commit.Options{Options: wal.Options{Now: time.Now}, Notify: func() {}}

// open runs all stages in sequence.
func open(t *testing.T, target *Target, cfg *Config) (*commit.Journal, <-chan *commit.Failure) {
	t.Helper()
	r, err := target.Recover(cfg, alone)
	if err != nil {
		t.Fatal(err)
	}
	r.Follow()
	if err := r.Lead(); err != nil {
		t.Fatal(err)
	}
	return r.Journal(), r.Failed()
}

// TestMarkWithoutFiles: if an import was interrupted and beanstalkd's files are gone, the directory
// is refused, because its journal may lack jobs.
func TestMarkWithoutFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, importMark), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newTarget(t, 1).Recover(&Config{Dir: dir, SegmentSize: 1 << 20}, alone)
	if err == nil || !strings.Contains(err.Error(), "put them back") {
		t.Errorf("the error is %v", err)
	}
}

// withJobs returns a directory with the journal of a server that had n jobs.
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

// TestStartFinishesAnExchange: a server that ended during the exchange of its journal starts with
// the new one. A journal that was only received in part is removed.
func TestStartFinishesAnExchange(t *testing.T) {
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
