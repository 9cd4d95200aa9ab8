package wal_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"polystalk/shard/commit"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// failOnce makes the next operation of that name fail, and only that one.
func failOnce(d *fakedisk.Disk, op string) {
	d.Before = func(o, _ string) error {
		if o != op {
			return nil
		}
		d.Before = nil
		return syscall.EIO
	}
}

// TestNothingAfterAnError: once a write or a sync has failed, no later commit is acknowledged, not
// even before the error was reported: the same sync would succeed, and mean nothing.
func TestNothingAfterAnError(t *testing.T) {
	for _, op := range []string{"write", "sync"} {
		for policy := range SyncPolicy(2) {
			t.Run(fmt.Sprintf("%s policy=%d", op, policy), func(t *testing.T) {
				d := fakedisk.New(1)
				w := newWorld(1, d)
				w.opts.Sync = policy
				var told []error
				w.opts.Fail = func(f *commit.Failure) { told = append(told, f) }
				must(t, second(w.open(true)))
				for range 20 {
					w.shards[0].put()
				}
				must(t, w.commit())
				must(t, w.j.Durable())
				w.note()
				acked, durable := w.j.Acked(), w.j.DurableCommit()

				w.shards[0].put()
				failOnce(d, op)
				w.shards[0].put()
				if err := w.j.Durable(); !errors.Is(err, syscall.EIO) {
					t.Fatalf("the first says %v", err)
				}
				before := w.j.Acked()
				if policy == SyncAlways && before != acked {
					t.Errorf("acknowledged up to %d with an error behind %d", before, acked)
				}
				ops := d.Ops
				for _, again := range []struct {
					what string
					do   func() error
				}{{"a sync", w.j.Sync}, {"a commit", w.j.Commit}, {"Durable", w.j.Durable}, {"Close", w.j.Close}} {
					if err := again.do(); !errors.Is(err, syscall.EIO) {
						t.Errorf("%s after the error says %v", again.what, err)
					}
				}
				if w.j.Acked() != before || w.j.DurableCommit() != durable {
					t.Errorf("acknowledged up to %d, durable to %d after an error; before it %d and %d", w.j.Acked(), w.j.DurableCommit(), before, durable)
				}
				if d.Ops != ops {
					t.Errorf("%d operations on the disk after the error", d.Ops-ops)
				}
				if len(told) != 1 || !errors.Is(told[0], syscall.EIO) {
					t.Errorf("Fail was told %v", told)
				}
				w.closeCores()
			})
		}
	}
}
