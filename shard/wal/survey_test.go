package wal_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"polystalk/shard/record"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// agrees compares a survey with what a recovery of the same disk said.
func agrees(v *Survey, lookErr error, rec *Recovered, err error) error {
	var dam *Damage
	switch {
	case lookErr != nil:
		return fmt.Errorf("the survey fails: %w", lookErr)
	case errors.As(err, &dam):
		for _, l := range v.Losses {
			if l.File == dam.File && l.Offset == dam.Offset {
				return nil
			}
		}
		return fmt.Errorf("the recovery says %w; the survey says %+v", dam, v.Losses)
	case err != nil:
		return nil // nothing about the journal
	case len(v.Losses) > 0:
		return fmt.Errorf("the recovery is content; the survey says %v", &v.Losses[0].Damage)
	case (rec.Cut != "") != (v.Torn != nil):
		return fmt.Errorf("the recovery cuts %q; the survey says %+v", rec.Cut, v.Torn)
	case v.Torn != nil && rec.Cut != fmt.Sprintf("%s at offset %d", v.Torn.File, v.Torn.Offset):
		return fmt.Errorf("the recovery cuts %q; the survey %s at offset %d", rec.Cut, v.Torn.File, v.Torn.Offset)
	case v.Batches != int64(rec.Batches) || v.Globals.Imported != rec.Globals.Imported || v.Torn == nil && v.Globals.HighID != rec.Globals.HighID:
		return fmt.Errorf("the recovery read %+v; the survey says %d batches, %+v", rec, v.Batches, v.Globals)
	}
	return nil
}

// TestSurveyFindsAll: the first damage does not end the search, and every batch
// that is whole is handed out, once and in order.
func TestSurveyFindsAll(t *testing.T) {
	seeds(t, 3, func(seed uint64) error {
		m := build(t, seed)
		rng := rand.New(rand.NewPCG(seed, 9))
		for range 20 {
			d := m.disk.Clone()
			total, hurt := 0, map[string]int64{}
			for n := m.oldest; n < m.current; n++ {
				f := d.Entries[SegmentName(n)]
				batches := Batches(n, f.Data)
				total += len(batches)
				if rng.IntN(2) == 0 {
					b := batches[rng.IntN(len(batches))]
					f.Data[b[0]+rng.Int64N(b[1]-b[0])] ^= 1
					hurt[SegmentName(n)] = b[0]
				}
			}
			total += len(Batches(m.current, d.Entries[SegmentName(m.current)].Data)) - len(hurt)
			v, err := Look(d)
			if err != nil {
				return err
			}
			if len(v.Losses) != len(hurt) || v.Torn != nil {
				return fmt.Errorf("%v was hurt, found %+v, torn %+v", hurt, v.Losses, v.Torn)
			}
			for _, l := range v.Losses {
				count := uint64(1)
				if l.File == SegmentName(m.oldest) && l.Offset == HeaderSize {
					count = 0 // there is no batch before, to say which this was
				}
				if at, ok := hurt[l.File]; !ok || at != l.Offset || l.Count() != count || l.End <= at {
					return fmt.Errorf("%v was hurt, found %+v", hurt, l)
				}
			}
			got, broken, last := 0, 0, uint64(0)
			err = v.Each(false, func(b *Batch) error {
				if b.Number <= last {
					return fmt.Errorf("batch %d after %d", b.Number, last)
				}
				last = b.Number
				got++
				if b.Broken {
					broken++
				}
				for r, err := range b.Records() {
					if err != nil || r.Kind < record.KindPut || r.Kind > record.KindState {
						return fmt.Errorf("batch %d: %+v, %w", b.Number, r, err)
					}
				}
				return nil
			})
			if err != nil || got != total || broken != len(hurt) {
				return fmt.Errorf("%d batches of %d, broken off %d times of %d: %w", got, total, broken, len(hurt), err)
			}
		}
		return nil
	})
}

// long is a museum with a segment between the oldest and the current.
func long(t *testing.T) *museum {
	for seed := uint64(1); ; seed++ {
		if m := buildLonger(t, seed, 3); m.current > m.oldest+1 {
			return m
		}
	}
}

// TestSurveyOfFiles: files that are gone, empty, or full of zeros.
func TestSurveyOfFiles(t *testing.T) {
	m := long(t)
	name := SegmentName(m.oldest + 1)
	hurt := len(Batches(m.oldest+1, m.disk.Entries[name].Data))
	for what, change := range map[string]func(d *fakedisk.Disk){
		"gone":  func(d *fakedisk.Disk) { delete(d.Entries, name) },
		"empty": func(d *fakedisk.Disk) { d.Entries[name].Data = nil },
		"zeros": func(d *fakedisk.Disk) { clear(d.Entries[name].Data) },
	} {
		d := m.disk.Clone()
		change(d)
		v, err := Look(d)
		if err != nil || len(v.Losses) != 1 || v.Losses[0].File != name || v.Losses[0].Count() != uint64(hurt) {
			t.Errorf("%s: %+v, %v; want one damage of %d batches", what, v.Losses, err, hurt)
		}
	}
	d := m.disk.Clone()
	clear(d.Entries[SegmentName(m.oldest)].Data[HeaderSize:])
	if v, err := Look(d); err != nil || len(v.Losses) != 1 || v.Losses[0].Offset != HeaderSize {
		t.Errorf("the first has no batch: %+v, %v", v.Losses, err)
	}
	if v, err := Look(fakedisk.New(1)); v != nil || err != nil {
		t.Errorf("no journal: %v, %v", v, err)
	}
}

// A badDisk does not give a part of its files.
type badDisk struct {
	Disk
	name     string
	from, to int64
}

type badFile struct {
	File
	d *badDisk
}

func (d *badDisk) Open(name string) (File, error) {
	f, err := d.Disk.Open(name)
	if err == nil && name == d.name {
		f = badFile{f, d}
	}
	return f, err
}

func (f badFile) ReadAt(b []byte, at int64) (int, error) {
	if at < f.d.to && at+int64(len(b)) > f.d.from {
		return 0, io.ErrClosedPipe
	}
	return f.File.ReadAt(b, at)
}

// TestSurveyOfABadDisk: what the disk does not give is lost, and nothing else.
func TestSurveyOfABadDisk(t *testing.T) {
	m := long(t)
	n := m.oldest + 1
	d := &badDisk{m.disk.Clone(), SegmentName(n), 4096, 3 * 4096}
	v, err := Look(d)
	if err != nil {
		t.Fatal(err)
	}
	var want uint64
	for _, b := range Batches(n, m.disk.Entries[d.name].Data) {
		if b[0] < d.to && b[1] > d.from {
			want++
		}
	}
	if len(v.Losses) != 2 || v.Losses[0].Offset != d.from || v.Losses[0].End != d.to || v.Losses[1].Count() != want {
		t.Errorf("%+v; want %d batches lost", v.Losses, want)
	}
}

// TestSurveyOfALog: the survey knows the last entry, also behind entries that others have replaced.
// Batches from before the journal was a log are entries of term 1.
func TestSurveyOfALog(t *testing.T) {
	d := fakedisk.New(1)
	w := newWorld(2, d) // its first batch is a later one
	must(t, second(w.open(true)))
	for range 10 {
		must(t, w.step())
	}
	must(t, w.commit())
	must(t, w.j.Close())
	w.closeCores()
	j := newLog(t, d, nil)
	defer j.Close()
	e := j.Entries()
	before := e.Last()
	for i, x := range []struct{ first, n, term uint64 }{{1, 0, 1}, {1, 40, 1}, {41, 10, 3}, {38, 2, 4}, {40, 30, 4}, {70, 1, 7}} {
		x.first += before
		for k := range x.n {
			must(t, e.Append([]Entry{{Index: x.first + k, Term: x.term, Kind: record.Change, Data: make([]byte, 9000)}}, 0))
		}
		must(t, e.Sync())
		s, err := Look(d)
		must(t, err)
		want := x.first + x.n - 1
		if term, err := e.Term(e.Last()); s.LastIndex != want || s.LastTerm != x.term || e.Last() != want || term != x.term || err != nil {
			t.Errorf("step %d: the last entry is %d of term %d (by the log %d of %d, %v), want %d of %d", i, s.LastIndex, s.LastTerm, e.Last(), term, err, want, x.term)
		}
		if len(s.Losses) > 0 || s.Torn != nil {
			t.Errorf("step %d: %+v, %+v", i, s.Losses, s.Torn)
		}
	}
}
