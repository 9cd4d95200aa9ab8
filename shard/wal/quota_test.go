package wal_test

import (
	"testing"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// TestRoomKnowsQuota: a limit that the disk does not show is not run into over and over. What the
// disk shows is no room by then, and only Room asks the disk, for which event loops cannot wait.
// Once jobs are deleted, changes are taken at once.
func TestRoomKnowsQuota(t *testing.T) {
	w := newWorld(3, fakedisk.New(3))
	d := w.fake
	d.Limit, d.Shown = 8*SegmentMin, 100*SegmentMin
	w.fat, w.weight = 0, 3000
	must(t, second(w.open(true)))
	for w.j.Pressure() != commit.Full {
		for range 20 {
			w.shards[w.rng.IntN(len(w.shards))].put()
		}
		must(t, w.commit())
		must(t, w.tend())
	}
	tries := d.Did["create"]
	for range 300 {
		w.now += core.Second
		must(t, w.tend())
	}
	if n := d.Did["create"] - tries; n < 5 || n > 20 {
		t.Errorf("%d tries in five minutes", n)
	}
	asked := d.Asked
	if w.j.Stats(); !w.j.FullHere() || d.Asked != asked {
		t.Errorf("full %v, and the disk is asked %d times", w.j.FullHere(), d.Asked-asked)
	}
	if got := w.j.Room(); got > 3*SegmentMin || !w.j.FullWith(got) || w.j.FullWith(100*SegmentMin) {
		t.Errorf("room for %d bytes, full %t", got, w.j.FullWith(got))
	}
	for w.jobs() > 10 {
		w.shards[w.rng.IntN(len(w.shards))].delete()
	}
	must(t, w.commit())
	must(t, w.tend())
	if p := w.j.Pressure(); p != commit.Open {
		t.Errorf("pressure %d after jobs were deleted", p)
	}
	w.closeCores()
}
