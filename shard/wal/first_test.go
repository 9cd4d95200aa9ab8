package wal_test

import (
	"testing"

	"polystalk/shard/core"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// TestJournalBeginsAnywhere: a journal that goes on where another one has ended is read again,
// with whatever is wrong with it, and its files are those that every release reads once the
// first one is given up.
func TestJournalBeginsAnywhere(t *testing.T) {
	d := fakedisk.New(1)
	w := newWorld(1, d)
	w.opts.First, w.fat = 1000, 0
	must(t, second(w.open(true)))
	if w.j.Acked() != 999 {
		t.Errorf("commits go on behind %d, want 999", w.j.Acked())
	}
	for w.j.Stats().Batches < 1010 {
		must(t, w.step())
	}
	must(t, w.commit())
	m := &museum{seed: 1, disk: d, now: w}
	name := SegmentName(1)
	whole := d.Clone()

	rec, err := m.open(whole.Clone(), nil)
	if err != nil || rec.Cut != "" || rec.Batches != w.j.Stats().Batches-999 {
		t.Fatalf("%+v, %v", rec, err)
	}
	s, err := Look(whole.Clone())
	if err != nil || len(s.Segments) == 0 || s.Segments[0].First != 1000 || len(s.Losses) > 0 || s.Torn != nil {
		t.Fatalf("%+v, %v", s, err)
	}

	// A damaged first batch is found, as in any other journal.
	at := Batches(1, whole.Entries[name].Data)
	spoilt := whole.Clone()
	spoilt.Entries[name].Data[at[0][0]+20] ^= 1
	if err := m.damaged(spoilt, name, at[0][0], "batch 1000 cannot be read"); err != nil {
		t.Error(err)
	}
	none := whole.Clone()
	clear(none.Entries[name].Data[HeaderSize:])
	for n := uint64(2); none.Entries[SegmentName(n)] != nil; n++ {
		delete(none.Entries, SegmentName(n))
	}
	if rec, err := m.open(none, nil); err != nil || rec.Batches != 0 {
		t.Errorf("without a batch: %+v, %v", rec, err)
	}

	// A file of another beginning is no part of it.
	for d.Entries[SegmentName(3)] == nil {
		must(t, w.step())
	}
	must(t, w.commit())
	if v := Version(d.Entries[name].Data); v != 2 {
		t.Errorf("the first file is of version %d, want 2", v)
	}
	for n := uint64(2); d.Entries[SegmentName(n)] != nil; n++ {
		if v := Version(d.Entries[SegmentName(n)].Data); v != 1 {
			t.Errorf("file %d is of version %d, want 1", n, v)
		}
		spoilt := d.Clone()
		SetFirst(spoilt.Entries[SegmentName(n)].Data, 1005)
		if err := m.damaged(spoilt, SegmentName(n), 48, "there are files before it"); err != nil {
			t.Error(err)
		}
	}
	for d.Entries[name] != nil {
		must(t, w.step())
	}
	for n := w.j.Stats().Oldest; d.Entries[SegmentName(n)] != nil; n++ {
		if v := Version(d.Entries[SegmentName(n)].Data); v != 1 {
			t.Errorf("file %d is of version %d when the first is gone, want 1", n, v)
		}
	}
	m.now = w
	if _, err := m.open(d.Clone(), nil); err != nil {
		t.Error(err)
	}
	w.closeCores()
}

// TestCommitsAreBatches: what comes back is known under the number of the batch that it was
// read from, and commits go on behind the last.
func TestCommitsAreBatches(t *testing.T) {
	w := newWorld(1, fakedisk.New(1))
	w.opts.First, w.parts, w.fat, w.weight = 70, 2, 0, 40_000
	must(t, second(w.open(true)))
	in := map[uint64][2]uint64{} // the batches of each job's commit: two where a segment ends
	for n := range 30 {
		w.shards[n%2].put()
		first := w.j.Stats().Batches + 1
		must(t, w.commit())
		in[w.id] = [2]uint64{first, w.j.Stats().Batches}
		must(t, w.tend())
	}
	last := w.j.Stats().Batches
	w.parts = 3
	must(t, second(w.open(true)))
	if w.j.Acked() != last || w.j.DurableCommit() != last {
		t.Errorf("commits go on behind %d, want %d", w.j.Acked(), last)
	}
	for id, b := range in {
		found := false
		for _, p := range w.shards {
			if p.core.NeedsCopy(core.JobID(id), b[0]-1) {
				t.Errorf("job %d of batch %d has an earlier number", id, b[0])
			}
			found = found || p.core.NeedsCopy(core.JobID(id), b[1])
		}
		if !found {
			t.Errorf("job %d of batch %d has a later number", id, b[1])
		}
	}
	s := w.j.Stats()
	if a, b := w.j.Segment(70), w.j.Segment(last); a != s.Oldest || b != s.Current || a >= b {
		t.Errorf("the first batch is in segment %d, the last in %d: %+v", a, b, s)
	}
	w.closeCores()
}
