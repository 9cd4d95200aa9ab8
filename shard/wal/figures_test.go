package wal_test

import (
	"testing"
	"time"

	"polystalk/shard/core"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// TestFiguresOfCommits: how many records a commit had that had some, how long its sync took,
// and how much was written; nothing of that where nothing was done.
func TestFiguresOfCommits(t *testing.T) {
	w := newWorld(5, fakedisk.New(5))
	w.parts, w.fat, w.weight = 1, 0, 100
	step := core.Time(time.Millisecond)
	now := w.opts.Now
	w.opts.Now = func() time.Time {
		w.now += step
		return now()
	}
	must(t, second(w.open(true)))
	before := w.j.Stats()
	for range 3 {
		w.shards[0].put()
	}
	must(t, w.commit())
	s := w.j.Stats()
	if n := s.Records - before.Records; n != 3 || s.Sizes.N[1]-before.Sizes.N[1] != 1 || s.Sizes.Sum-before.Sizes.Sum != 3 {
		t.Errorf("%d records in commits of %v, before of %v", n, s.Sizes, before.Sizes)
	}
	// A millisecond, or a few if the clock was read in between, is above 977 µs.
	if s.Syncs.N[5]-before.Syncs.N[5] != 1 || s.Syncs.Sum-before.Syncs.Sum < uint64(step) {
		t.Errorf("syncs %v, before %v", s.Syncs, before.Syncs)
	}
	if n := s.Written - before.Written; n < 3*100 || n > 2*SegmentMin {
		t.Errorf("%d bytes were written", n)
	}
	must(t, w.commit()) // without a record: numbers may go on, these do not
	if again := w.j.Stats(); again.Sizes != s.Sizes || again.Syncs != s.Syncs || again.Written != s.Written {
		t.Errorf("%v after a commit of nothing, before %v", again, s)
	}
}
