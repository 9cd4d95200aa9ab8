package restore

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// newTarget is a server's shards that nobody has used.
func newTarget(t *testing.T, shards int) *Target { return newTargetAt(t, shards, ops.SystemClock()) }

// newTargetAt is newTarget with a clock.
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

// own takes shard i until it is released.
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

// open goes through all stages in a row.
func open(t *testing.T, target *Target, cfg *Config) (*commit.Journal, <-chan *commit.Failure) {
	t.Helper()
	r, err := target.Recover(cfg, func() {})
	if err != nil {
		t.Fatal(err)
	}
	r.Follow()
	if err := r.Lead(); err != nil {
		t.Fatal(err)
	}
	return r.Journal(), r.Failed()
}

// TestJobsComeBack: a job of every tube is found again, also by another number of shards,
// and ids go on where they ended.
func TestJobsComeBack(t *testing.T) {
	cfg := &Config{Dir: t.TempDir(), SegmentSize: 1 << 20, Sync: wal.SyncNever}
	want := []string{"default"}
	first := newTarget(t, 4)
	j, _ := open(t, first, cfg)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		put(t, first, name, "x")
		want = append(want, name)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	second := newTarget(t, 2)
	j, failed := open(t, second, cfg)
	defer j.Close()
	names, _ := second.Places.Tubes().Names()
	if got := slices.Sorted(names.All()); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the tubes are %q, want %q", got, want)
	}
	for i, name := range want[1:] {
		if sh, ok := second.Places.OfJob(core.JobID(i + 1)); !ok || sh != second.Places.OfTube([]byte(name)) {
			t.Errorf("job %d of tube %s is in shard %d: %v", i+1, name, sh, ok)
		}
	}
	if id := put(t, second, "f", "y"); id != 6 {
		t.Errorf("the next job is %d, want 6", id)
	}
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
}

// TestMarkWithoutFiles: a directory in which beanstalkd's files were being taken over is
// refused without them, since the journal beside them may lack jobs.
func TestMarkWithoutFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, importMark), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newTarget(t, 1).Recover(&Config{Dir: dir, SegmentSize: 1 << 20}, func() {})
	if err == nil || !strings.Contains(err.Error(), "put them back") {
		t.Errorf("the error is %v", err)
	}
}
