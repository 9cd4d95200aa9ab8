package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
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

// garbage writes some segments in which nothing lives, and tends none of them.
func (w *world) garbage(segments int) error {
	for w.j.Stats().Segments < segments {
		p := w.shards[0]
		p.put()
		if err := w.commit(); err != nil {
			return err
		}
		p.remove(len(p.all) - 1)
	}
	return w.commit()
}

// TestAsideUntilItLeads: between Open and Lead a journal has segments ready, and writes nothing
// and gives up nothing, however much there is to give up.
func TestAsideUntilItLeads(t *testing.T) {
	d := fakedisk.New(1)
	w := newWorld(1, d)
	w.fat, w.weight = 0, 50_000
	must(t, second(w.open(true)))
	must(t, w.garbage(8))
	must(t, w.j.Close())
	before := w.j.Stats()

	w.aside = func() error {
		current, at := w.j.End()
		s := w.j.Stats()
		for range 5 {
			if err := w.j.Tend(); err != nil {
				return err
			}
		}
		switch again, then := w.j.End(); {
		case again != current || then != at:
			return fmt.Errorf("it has written up to %d of segment %d, before it was %d of %d", then, again, at, current)
		case w.j.Stats().Oldest != before.Oldest || w.j.Stats().Segments < s.Segments:
			return fmt.Errorf("it has given up something: %+v, before %+v", w.j.Stats(), s)
		case d.Entries[SegmentName(current+1)] == nil:
			return errors.New("no segment is ready")
		case w.j.Acked() != before.Batches:
			return fmt.Errorf("commit %d is acknowledged, and there is none behind %d", w.j.Acked(), before.Batches)
		}
		return nil
	}
	must(t, second(w.open(true)))
	must(t, w.tend())
	if s := w.j.Stats(); s.Oldest == before.Oldest {
		t.Errorf("once it leads it gives up nothing: %+v", s)
	}
	w.closeCores()
}

// TestCloseBeforeItLeads: a journal that was open, and no more, is as it was; and a new one
// begins with the highest id that is known when it leads.
func TestCloseBeforeItLeads(t *testing.T) {
	d := fakedisk.New(1)
	w := newWorld(1, d)
	w.parts = 1
	never := errors.New("it does not lead")
	for _, first := range []uint64{0, 50} {
		w.opts.First = first
		for range 2 {
			w.aside = func() error {
				l := w.shards[0].log
				l.Begin()
				l.Buffer.Delete(7, 7) // of what it follows, and not its own to commit
				l.End()
				return errors.Join(w.j.Close(), never)
			}
			if _, err := w.open(true); !errors.Is(err, never) {
				t.Fatal(err)
			}
			if n := len(Batches(1, d.Entries[SegmentName(1)].Data)); n != 0 {
				t.Fatalf("%d batches are written", n)
			}
		}
		if first == 0 {
			must(t, Erase(d))
		}
	}
	w.aside = func() error { w.j.RaiseID(1234); return nil }
	must(t, second(w.open(true)))
	must(t, w.j.SetImported(1))
	must(t, w.j.Close())
	w.aside = nil
	must(t, second(w.open(true)))
	if w.j.HighID() != 1234 || w.j.Acked() != 50 {
		t.Errorf("the highest id is %d, and commits go on behind %d", w.j.HighID(), w.j.Acked())
	}
	w.closeCores()
}

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

// A cowDisk is on a file system that writes what is overwritten elsewhere.
type cowDisk struct {
	Disk
	name string
}

type cowFile struct {
	File
	name string
}

func (d cowDisk) Open(name string) (File, error) {
	f, err := d.Disk.Open(name)
	return cowFile{f, d.name}, err
}

func (f cowFile) CopyOnWrite() string { return f.name }

// TestCopyOnWriteIsToldOf: each start on a file system where filling a segment reserves nothing
// says so in one line.
func TestCopyOnWriteIsToldOf(t *testing.T) {
	for name, want := range map[string]int{"zfs": 1, "": 0} {
		w := newWorld(1, fakedisk.New(1))
		w.opts.Disk = cowDisk{w.disk, name}
		for range 2 {
			var log bytes.Buffer
			w.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
			must(t, second(w.open(true)))
			must(t, w.j.Close())
			if strings.Count(log.String(), "\n") != want || strings.Count(log.String(), "file system") < want {
				t.Errorf("on %q it says %q", name, log.String())
			}
		}
		w.closeCores()
	}
}

// TestReplayErrorEndsTheStart: an error of one worker ends the recovery, and names the file.
func TestReplayErrorEndsTheStart(t *testing.T) {
	w := newWorld(1, fakedisk.New(1))
	must(t, second(w.open(true)))
	for w.j.Stats().Segments < 6 {
		must(t, w.step())
	}
	w.closeCores()
	broken := errors.New("broken")
	_, err := commit.New(w.opts).Recover(Replayer{
		Workers: 2, Worker: func(slot uint16) int { return int(slot) % 2 },
		Apply: func(int, *record.Record) error { return broken },
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "journal.") {
		t.Errorf("it says %v", err)
	}
}
