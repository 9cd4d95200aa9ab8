package wal_test

import (
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// look is how often the keeper looks, at least.
const look = 200 * time.Millisecond

// againstQuota is a world that has run into a limit that its disk does not show.
func againstQuota(t *testing.T) *world {
	t.Helper()
	w := newWorld(3, fakedisk.New(3))
	w.fake.Limit, w.fake.Shown = 8*SegmentMin, 100*SegmentMin
	w.fat, w.weight = 0, 3000
	must(t, second(w.open(true)))
	for w.j.Pressure() != commit.Full {
		for range 20 {
			w.shards[w.rng.IntN(len(w.shards))].put()
		}
		must(t, w.commit())
		must(t, w.tend())
	}
	return w
}

// wait lets the keeper look for so long; it returns how often it has begun to
// fill a segment.
func (w *world) wait(t *testing.T, d time.Duration) (tries int) {
	t.Helper()
	was := w.fake.Did["create"]
	for ; d > 0; d -= look {
		w.now += core.Time(look)
		must(t, w.commit())
		must(t, w.tend())
	}
	return w.fake.Did["create"] - was
}

// TestQuota: a limit that the disk's free space does not show is not run into
// over and over, and yet it is soon noticed that there is room.
func TestQuota(t *testing.T) {
	for name, c := range map[string]struct {
		more   func(d *fakedisk.Disk, w *world) // makes room
		within time.Duration
	}{
		"nobody tells": {func(d *fakedisk.Disk, w *world) { d.Limit += SegmentMin }, 30 * time.Second},
		"free space rises": {func(d *fakedisk.Disk, w *world) {
			d.Limit += SegmentMin
			d.Shown += SegmentMin
		}, time.Second},
		"free space rises after it fell": {func(d *fakedisk.Disk, w *world) {
			d.Shown -= 5 * SegmentMin
			w.wait(t, time.Second)
			d.Limit += SegmentMin
			d.Shown += SegmentMin
		}, time.Second},
		"jobs are deleted": {func(d *fakedisk.Disk, w *world) {
			for w.jobs() > 10 {
				w.shards[w.rng.IntN(len(w.shards))].delete()
			}
		}, look},
	} {
		t.Run(name, func(t *testing.T) {
			w := againstQuota(t)
			if n := w.wait(t, 5*time.Minute); n < 5 || n > 20 {
				t.Errorf("%d tries in five minutes", n)
			}
			c.more(w.fake, w)
			for waited := look; ; waited += look {
				w.wait(t, look)
				if w.j.Pressure() == commit.Open {
					break
				}
				if waited >= c.within {
					t.Fatalf("not open %v after there was room", waited)
				}
			}
			w.closeCores()
		})
	}
}

// TestRoomKnowsQuota: what the disk shows is no room, once a segment could not be filled, and what
// is left of segments takes no change that this server itself would refuse.
func TestRoomKnowsQuota(t *testing.T) {
	w := againstQuota(t)
	if got := w.j.Room(); got > 3*SegmentMin || !w.j.FullWith(got) || w.j.FullWith(100*SegmentMin) {
		t.Errorf("room for %d bytes, full %t", got, w.j.FullWith(got))
	}
	if !w.j.FullHere() {
		t.Error("its own disk is not said to be full")
	}
	w.closeCores()
}

// TestStatsAskNoDisk: clients wait for who calls it, and the disk may hang.
func TestStatsAskNoDisk(t *testing.T) {
	w := newWorld(3, fakedisk.New(3))
	w.fake.Limit = 8 * SegmentMin
	must(t, second(w.open(true)))
	before := w.fake.Asked
	w.j.Stats()
	w.j.FullHere()
	if w.fake.Asked != before {
		t.Error("the disk is asked what it has")
	}
	if w.j.Room(); w.fake.Asked != before+1 {
		t.Error("the disk does not notice that it is asked")
	}
	if full := w.j.SetRoomElsewhere(0); !full || w.j.Pressure() != commit.Full || w.j.FullHere() {
		t.Error("a full disk of another server is taken for the own one")
	}
	w.closeCores()
}

// TestQuotaOfOne: what others write and remove is no reason to try for ever.
func TestQuotaOfOne(t *testing.T) {
	w := againstQuota(t)
	n := 0
	for i := range int64(5 * 60) {
		w.fake.Shown = (100 + i%4) * SegmentMin
		n += w.wait(t, time.Second)
	}
	if n > 25 {
		t.Errorf("%d tries in five minutes in which the free space moved", n)
	}
	w.closeCores()
}
