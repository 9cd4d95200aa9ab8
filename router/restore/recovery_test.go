package restore

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"polystalk/router/ops"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	"polystalk/shard/wal"
)

// digests returns the digests of all shards.
func digests(t *testing.T, target *Target) (all []uint64) {
	t.Helper()
	for i := range target.Places.Shards() {
		sh, b := own(t, target, i)
		all = append(all, sh.Digest(b))
		sh.Release(b)
	}
	return all
}

// remove deletes a job.
func remove(t *testing.T, target *Target, id core.JobID) {
	t.Helper()
	i, ok := target.Places.OfJob(id)
	if !ok {
		t.Fatalf("job %d is nowhere", id)
	}
	sh, b := own(t, target, i)
	defer sh.Release(b)
	var r core.Reply
	if sh.Apply(b, &core.Op{Kind: core.OpDelete, ID: id}, &r); r.Status != core.StatusOK {
		t.Fatalf("deleting job %d: status %d", id, r.Status)
	}
	target.Places.IDs().Finish(id)
}

// TestFollowerIsAsAStart: a follower that has applied all records of a server, and then leads, has
// the same tubes, jobs and next id as a server that reads its journal, also with another number of
// shards.
func TestFollowerIsAsAStart(t *testing.T) {
	cfg := &Config{Dir: t.TempDir(), SegmentSize: 1 << 20, Sync: wal.SyncNever}
	// The digests must not depend on changes of the time of day.
	began := time.Now()
	now := func() core.Time { return core.Time(began.UnixNano()) + core.Time(time.Since(began)) }
	k := ops.NewClock(now, func() (core.Time, core.Time) { t := now(); return t, t }, func() core.Time { return 0 })
	first := newTargetAt(t, 4, k)
	j, _ := open(t, first, cfg)
	rng := rand.New(rand.NewPCG(1, 1))
	var live []core.JobID
	gone := core.JobID(0)
	for n := range 3000 {
		live = append(live, put(t, first, fmt.Sprint("tube", n%7), fmt.Sprint("body ", n)))
		if k := rng.IntN(len(live)); rng.IntN(3) > 0 {
			gone = live[k]
			remove(t, first, gone)
			live = append(live[:k], live[k+1:]...)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	const shards = 2
	start := newTargetAt(t, shards, k)
	read, err := start.Recover(cfg, alone)
	if err != nil {
		t.Fatal(err)
	}
	read.Follow()

	follower := newTargetAt(t, shards, k)
	own := &Config{Dir: t.TempDir(), SegmentSize: 1 << 20, Sync: wal.SyncNever}
	r, err := follower.Recover(own, alone)
	if err != nil {
		t.Fatal(err)
	}
	r.Follow()
	n := 0
	_, err = commit.New(commit.Options{Options: wal.Options{Disk: wal.Dir(cfg.Dir), Manual: true}, Shards: 1}).Recover(wal.Replayer{
		Workers: 1, Worker: func(uint16) int { return 0 },
		Apply: func(_ int, rec *record.Record) error {
			if n++; n%100 == 0 {
				r.Settle()
			}
			return r.Apply(rec)
		},
	})
	if err != nil || n < 3000 {
		t.Fatalf("%d records, %v", n, err)
	}
	if acked := r.Journal().Acked(); acked != 0 {
		t.Errorf("commit %d is acknowledged before it leads", acked)
	}

	for _, r := range []*Recovery{read, r} {
		if err := r.Lead(); err != nil {
			t.Fatal(err)
		}
		defer r.Journal().Close()
	}
	if a, b := fmt.Sprint(digests(t, start)), fmt.Sprint(digests(t, follower)); a != b {
		t.Errorf("digests of a start are %s, of a follower that leads %s", a, b)
	}
	if a, b := read.Journal().Stats().Live, r.Journal().Stats().Live; a != b || a == 0 {
		t.Errorf("by the journal of a start %d bytes live, by that of a follower %d", a, b)
	}
	names := func(t *Target) string {
		l, _ := t.Places.Tubes().Names()
		return fmt.Sprint(slices.Sorted(l.All()))
	}
	if a, b, c := names(first), names(start), names(follower); a != b || a != c {
		t.Errorf("the tubes were %s, are %s after a start, and %s at a follower", a, b, c)
	}
	for _, id := range live {
		at, ok := start.Places.OfJob(id)
		if got, found := follower.Places.OfJob(id); !ok || !found || got != at {
			t.Fatalf("job %d is in shard %d: %v; want %d: %v", id, got, found, at, ok)
		}
	}
	if at, found := follower.Places.OfJob(gone); found {
		t.Errorf("job %d, which is gone, is in shard %d", gone, at)
	}
	if id := put(t, follower, "tube1", "z"); id != 3001 {
		t.Errorf("the next job is %d, want 3001", id)
	}
	for _, id := range live {
		remove(t, follower, id) // a page panics if an id is finished twice
	}
}

// TestFailureBeforeItLeads: an error of the journal before Lead is reported, and Lead fails.
func TestFailureBeforeItLeads(t *testing.T) {
	broken := errors.New("broken")
	byHand := alone
	byHand.Manual = true
	disk := &failing{Disk: wal.Dir(t.TempDir())}
	target := newTarget(t, 1)
	var told error
	target.Failed, target.Log = func(f *commit.Failure) { told = f }, slog.New(slog.DiscardHandler)
	r, err := target.Recover(&Config{Disk: disk, SegmentSize: 1 << 20}, byHand)
	if err != nil {
		t.Fatal(err)
	}
	r.Follow()
	disk.err = broken
	if err := r.Journal().Tend(); !errors.Is(err, broken) {
		t.Errorf("to tend says %v", err)
	}
	disk.err = nil
	if err := r.Lead(); !errors.Is(err, broken) {
		t.Errorf("to lead says %v", err)
	}
	if !errors.Is(told, broken) || !errors.Is(<-r.Failed(), broken) {
		t.Errorf("told %v", told)
	}
	if p := r.Journal().Pressure(); p != commit.Wait {
		t.Errorf("pressure %d", p)
	}
}

// failing is a disk that creates no files while err is not nil.
type failing struct {
	wal.Disk
	err error
}

func (d *failing) Create(name string) (wal.File, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.Disk.Create(name)
}
