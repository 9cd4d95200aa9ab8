package wal_test

import (
	"errors"
	"fmt"
	"testing"

	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

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
