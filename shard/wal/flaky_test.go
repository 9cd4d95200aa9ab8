package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"polystalk/shard/core"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// TestFlakyDisk plays worlds of all policies on disks that fail to write back:
// the journal ends, the process starts again on what is in memory, more is
// acknowledged, and then the power is cut; or it ends again, while it starts.
func TestFlakyDisk(t *testing.T) {
	seeds(t, 40, func(seed uint64) error {
		w := newWorld(seed, fakedisk.New(seed))
		w.opts.Sync = SyncPolicy(seed % 3)
		w.weight = []int{100, 1000, 6000}[w.rng.IntN(3)]
		w.fat = []int{0, 10, 100}[w.rng.IntN(3)]
		return w.flakyLives(8, 20)
	})
}

// flakyLives plays generations of a world on a flaky disk. Each ends by an error
// of the disk, in a stop at any operation, or by itself; and then the process
// starts again or the machine. The last one has a disk that is in order.
func (w *world) flakyLives(generations, steps int) error {
	d := w.fake
	strict := true
	for g := range generations + 1 {
		trouble := fakedisk.Flaky{Syncs: 1 + w.rng.IntN(30), Idle: 1 + w.rng.IntN(40), Backs: w.rng.IntN(6), Dirs: w.rng.IntN(12)}
		d.Ops, d.CrashAt = 0, 0
		if w.rng.IntN(2) == 0 {
			d.CrashAt = 1 + w.rng.IntN(60)
		}
		d.Flaky = fakedisk.Flaky{}
		if w.rng.IntN(2) == 0 {
			d.Flaky = trouble
		}
		if g == generations {
			d.Flaky, d.CrashAt, trouble = fakedisk.Flaky{}, 0, fakedisk.Flaky{}
		}
		failures := d.Failures
		_, err := w.open(strict)
		started := err == nil
		if started {
			d.Flaky = trouble
			err = w.flakyLife(steps)
		}
		// An error must be one of the disk's, and this life's.
		if err != nil && (errors.Is(err, errBroken) || !d.Dead && (d.Failures == failures || !errors.Is(err, syscall.EIO))) {
			return fmt.Errorf("generation %d, step %d, %v: %w", g, w.steps, d, err)
		}
		safe := w.again()
		strict = safe && (strict || started)
	}
	w.closeCores()
	return nil
}

// flakyLife goes on until the disk fails or steps are over.
func (w *world) flakyLife(steps int) error {
	for range steps {
		if err := w.step(); err != nil {
			return err
		}
		if w.opts.Sync == SyncEvery && w.rng.IntN(3) == 0 {
			n := w.j.Acked()
			if err := w.j.Sync(); err != nil {
				return err
			}
			w.acked(n)
		}
	}
	return nil
}

// again starts the machine or only the process again. It reports whether all
// that was written can still be read.
func (w *world) again() bool {
	switch w.rng.IntN(6) {
	case 0, 1:
		w.fake.Cut()
		return false
	case 2:
		w.fake.Kill()
		return !w.fake.Evict()
	}
	w.fake.Kill()
	return true
}

// TestZerosThatWereNotWritten: a recovery that cannot wipe what is behind the end leaves zeros in
// memory and old batches on the disk. They do not follow, one day, on a new batch that ends where
// the one before them did; here it is the first of a segment, which the next recovery finds empty.
func TestZerosThatWereNotWritten(t *testing.T) {
	d := fakedisk.New(1)
	w := newWorld(1, d)
	w.opts.Sync, w.parts = SyncEvery, 1
	must(t, second(w.open(true)))
	put := func() (segment uint64, at int64) {
		p := w.shards[0]
		w.id++
		p.apply(&core.Op{Kind: core.OpPut, Tube: p.tubes[0], TTR: 60, Body: bytes.Repeat([]byte{'x'}, 3000+384), ID: core.JobID(w.id)})
		must(t, w.commit())
		return w.j.End()
	}
	sync := func() {
		must(t, w.j.Durable())
		w.note()
	}
	first, _ := put()
	segment, at := first, int64(0)
	for segment == first {
		sync() // all but what is to come
		segment, at = put()
	}
	put()
	if at%fakedisk.Sector != 0 {
		t.Fatalf("the batch ends within a fakedisk.Sector, at %d: whoever writes it wipes the next", at)
	}
	// Of the first batch a fakedisk.Sector is missing, the second one is there.
	f := d.Entries[SegmentName(segment)]
	f.Flush()
	clear(f.Durable[fakedisk.Sector : 2*fakedisk.Sector])
	d.Cut()

	d.Before = func(op, name string) error {
		if op == "sync" && name == SegmentName(segment) {
			d.Flaky.Syncs = 1
		}
		return nil
	}
	if _, err := w.open(false); !errors.Is(err, syscall.EIO) {
		t.Fatalf("a start on a disk that does not write back: %v", err)
	}
	d.Kill()
	d.Before, d.Flaky = nil, fakedisk.Flaky{}
	must(t, second(w.open(false)))
	if s, end := put(); s != segment || end != at {
		t.Fatalf("the batch ends at %d of segment %d, the one before it at %d of %d", end, s, at, segment)
	}
	sync()
	d.Cut()
	must(t, second(w.open(true)))
	w.closeCores()
}

// TestForgottenMeanwhile: what the disk never had is forgotten by memory between
// the replay and the writing again. The start fails, since others were told of
// what is gone now; the next one finds what there is.
func TestForgottenMeanwhile(t *testing.T) {
	d := fakedisk.New(1)
	w := newWorld(1, d)
	must(t, second(w.open(true)))
	p := w.shards[0]
	w.weight, w.fat = 40_000, 0
	for range 20 {
		p.put()
		must(t, w.commit())
	}
	d.Flaky.Syncs = 1
	p.put()
	if err := w.commit(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	d.Flaky.Syncs = 0
	d.Kill()
	d.Before = func(op, _ string) error {
		if op == "syncdir" && !d.Evict() {
			t.Error("nothing is forgotten")
		}
		return nil
	}
	var dam *Damage
	if _, err := w.open(true); err == nil || errors.As(err, &dam) {
		t.Fatalf("the first start says %v", err)
	}
	d.Before = nil
	must(t, second(w.open(true)))
	p = w.shards[0]
	p.put()
	must(t, w.commit())
	d.Cut()
	must(t, second(w.open(true)))
	w.closeCores()
}
