package wal_test

import (
	"fmt"
	"testing"

	"polystalk/shard/commit"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// TestLargeBodiesOnAFullDisk: among small jobs and large bodies, on a disk that is filled
// again and again, every delete finds room, whatever compaction has to copy; and once all
// is deleted puts are taken again.
func TestLargeBodiesOnAFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	seeds(t, 12, func(seed uint64) error {
		d := fakedisk.New(seed)
		d.Limit = SegmentMin * int64(12+seed%30)
		w := newWorld(seed, d)
		w.weight, w.fat = []int{300, 3000, 20000}[seed%3], 0
		if _, err := w.open(true); err != nil {
			return err
		}
		step := func(round, n int) error {
			err := w.commit()
			if err == nil && w.rng.IntN(3) == 0 {
				err = w.j.Tend()
			}
			if err != nil {
				return fmt.Errorf("round %d, step %d: %w; %+v, %v", round, n, err, w.j.Stats(), d)
			}
			return nil
		}
		for round := range 6 {
			for n, refused := 0, 0; refused < 20 && n < 3000; n++ {
				p := w.shards[w.rng.IntN(len(w.shards))]
				if w.rng.IntN(30) == 0 {
					size := 70_000 + w.rng.IntN(6*SegmentMin)
					var c commit.Claim
					if w.claimed(&c, int64(size)+256) == commit.Open {
						p.large(size)
					}
					w.j.Release(&c)
				} else if w.j.Pressure() == commit.Open {
					p.put()
				} else {
					refused++
				}
				if err := step(round, n); err != nil {
					return err
				}
			}
			left := w.jobs() * w.rng.IntN(3) / 3
			for n := 0; w.jobs() > left; n++ {
				w.shards[w.rng.IntN(len(w.shards))].delete()
				if err := step(round, n); err != nil {
					return fmt.Errorf("deleting: %w", err)
				}
			}
		}
		for w.jobs() > 0 {
			for _, p := range w.shards {
				p.delete()
			}
			if err := step(6, 0); err != nil {
				return fmt.Errorf("deleting all: %w", err)
			}
		}
		if err := w.j.Tend(); err != nil {
			return err
		}
		if p := w.j.Pressure(); p != commit.Open || w.j.Stats().Promised != 0 {
			return fmt.Errorf("pressure %d with no job left: %+v, %v", p, w.j.Stats(), d)
		}
		d.Cut()
		_, err := w.open(true)
		w.closeCores()
		return err
	})
}
