package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A museum is a journal at rest, and what it held after each of the last commits.
type museum struct {
	seed    uint64
	disk    *fakedisk.Disk
	now     *world
	after   []*facts // the last is what there is
	ends    []int64  // where they ended, in the current segment
	current uint64   // segment
	oldest  uint64
}

// build makes a journal of several segments. Its last batches are small and in one segment.
func build(t *testing.T, seed uint64) *museum {
	t.Helper()
	return buildLonger(t, seed, 0)
}

// buildLonger is build with a number of segments between the oldest and the current one at first.
// Compaction may take some.
func buildLonger(t *testing.T, seed, between uint64) *museum {
	t.Helper()
	m := &museum{seed: seed, disk: fakedisk.New(seed)}
	w := newWorld(seed, m.disk)
	w.weight = 4000
	must(t, second(w.open(true)))
	for current := uint64(0); ; current, _ = w.j.End() {
		if s := w.j.Stats(); s.Oldest >= 3 && s.Segments >= 4 && current >= s.Oldest+between {
			break
		}
		must(t, w.step())
	}
	must(t, w.commit())
	must(t, w.tend())
	w.weight, w.fat = 30, 0
	for len(m.after) < 5 {
		w.shards[w.rng.IntN(len(w.shards))].put()
		w.shards[w.rng.IntN(len(w.shards))].delete()
		must(t, w.commit())
		n, at := w.j.End()
		if n != m.current {
			m.current, m.after, m.ends = n, nil, nil
		}
		f := newFacts()
		for _, p := range w.shards {
			c := p.base.clone()
			maps.Copy(f.jobs, c.jobs)
			maps.Copy(f.pauses, c.pauses)
		}
		m.after, m.ends = append(m.after, f), append(m.ends, at)
	}
	m.oldest = w.j.Stats().Oldest
	w.closeCores()
	m.now = w
	return m
}

func second[T any](_ T, err error) error { return err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open recovers a disk and compares what is there; want nil: whatever it is.
func (m *museum) open(d *fakedisk.Disk, want *facts) (*Recovered, error) {
	w := newWorld(m.seed, d)
	w.now = m.now.now
	survey, lookErr := Look(d.Clone())
	rec, err := w.open(true)
	if err := agrees(survey, lookErr, rec, err); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	defer w.closeCores()
	got := newFacts()
	for _, p := range w.shards {
		maps.Copy(got.jobs, p.base.jobs)
		maps.Copy(got.pauses, p.base.pauses)
	}
	if want != nil {
		err = want.differ(got, int64(w.now), func(uint16) bool { return true }, slotOf)
	}
	if err == nil {
		err = w.step() // it goes on
	}
	return rec, err
}

// damaged wants a Damage of that file and offset, and nothing changed.
func (m *museum) damaged(d *fakedisk.Disk, file string, offset int64, reason string) error {
	before := d.Clone()
	_, err := m.open(d, nil)
	var dam *Damage
	if !errors.As(err, &dam) {
		return fmt.Errorf("no damage is found: %v", err)
	}
	if dam.File != file || dam.Offset != offset || !strings.Contains(dam.Reason, reason) {
		return fmt.Errorf("%v, want it in %s at offset %d: … %s", err, file, offset, reason)
	}
	if len(d.Entries) != len(before.Entries) {
		return errors.New("files have come or gone")
	}
	for name, f := range before.Entries {
		if g := d.Entries[name]; g == nil || !bytes.Equal(f.Data, g.Data) {
			return fmt.Errorf("%s has changed", name)
		}
	}
	return nil
}

// TestFlipped changes a bit of a batch: of the last one it is a torn end, of any other damage.
func TestFlipped(t *testing.T) {
	seeds(t, 1, func(seed uint64) error {
		m := build(t, seed)
		rng := rand.New(rand.NewPCG(seed, 4))
		flips := 120
		if testing.Short() {
			flips = 30
		}
		for k := range flips {
			d := m.disk.Clone()
			number := m.oldest + rng.Uint64N(m.current-m.oldest+1)
			f := d.Entries[SegmentName(number)]
			batches := Batches(number, f.Data)
			i := rng.IntN(len(batches))
			switch k % 4 {
			case 0:
				i = len(batches) - 1
			case 1:
				i = 0
			}
			b := batches[i]
			at := b[0] + rng.Int64N(b[1]-b[0])
			if k%3 == 0 {
				at = b[0] + rng.Int64N(48)
			}
			f.Data[at] ^= 1 << rng.IntN(8)
			if k%5 == 4 {
				clear(f.Data[b[0] : b[0]+48]) // nothing of its head is left
			}
			if number < m.current || i < len(batches)-1 {
				if err := m.damaged(d, SegmentName(number), b[0], ""); err != nil {
					return fmt.Errorf("flip %d at byte %d, in batch %d of %d of segment %d: %w", k, at, i, len(batches), number, err)
				}
				continue
			}
			rec, err := m.open(d, m.after[len(m.after)-2])
			if err != nil || rec.Cut == "" && k%5 != 4 {
				return fmt.Errorf("flip %d in the last batch, at byte %d of it: %+v, %w", k, at-b[0], rec, err)
			}
		}
		return nil
	})
}

func TestDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	m := build(t, 2)
	other := build(t, 3)
	names := []string{}
	for n := m.oldest; m.disk.Entries[SegmentName(n)] != nil; n++ {
		names = append(names, SegmentName(n))
	}
	if len(names) < 4 {
		t.Fatalf("%d segments", len(names))
	}
	for i, name := range names {
		n := m.oldest + uint64(i)
		if i < len(names)-1 {
			d := m.disk.Clone()
			delete(d.Entries, name)
			if err := m.damaged(d, name, 0, "missing"); err != nil {
				t.Errorf("%s is missing: %v", name, err)
			}
		}
		for at := range HeaderSize {
			d := m.disk.Clone()
			d.Entries[name].Data[at] ^= 4
			if err := m.damaged(d, name, 0, ""); err != nil {
				t.Errorf("%s has a bit flipped at %d: %v", name, at, err)
			}
		}
		d := m.disk.Clone()
		SetVersion(d.Entries[name].Data, 3)
		if err := m.damaged(d, name, 0, "version 3"); err != nil {
			t.Errorf("%s is of another version: %v", name, err)
		}
		SetVersion(d.Entries[name].Data, 2)
		if err := m.damaged(d, name, 0, "one of the two is wrong"); err != nil {
			t.Errorf("%s is of a version that tells of a first batch: %v", name, err)
		}
		d = m.disk.Clone()
		d.Entries[name].Data = d.Entries[name].Data[:20]
		if err := m.damaged(d, name, 0, "too short"); err != nil {
			t.Errorf("%s is short: %v", name, err)
		}
		if i == 0 { // nothing before it says which batch is the first
			for how, empty := range map[string]func(f *fakedisk.Inode){
				"zeroed": func(f *fakedisk.Inode) { clear(f.Data[HeaderSize:]) },
				"cut":    func(f *fakedisk.Inode) { f.Data = f.Data[:HeaderSize] },
			} {
				d = m.disk.Clone()
				empty(d.Entries[name])
				if err := m.damaged(d, name, HeaderSize, "missing"); err != nil {
					t.Errorf("%s: %v", how, err)
				}
			}
		}
		if f := other.disk.Entries[name]; f != nil && i > 0 {
			d = m.disk.Clone()
			d.Entries[name].Data = slices.Clone(f.Data)
			if err := m.damaged(d, name, 16, "another journal"); err != nil {
				t.Errorf("%s is another journal's: %v", name, err)
			}
		}
		if i > 0 {
			d = m.disk.Clone()
			d.Entries[name].Data = slices.Clone(d.Entries[names[i-1]].Data)
			if err := m.damaged(d, name, 0, names[i-1]); err != nil {
				t.Errorf("%s is a copy of segment %d: %v", name, n-1, err)
			}
		}
	}
}

// TestRecycled: what an earlier life of a file left behind is nothing.
func TestRecycled(t *testing.T) {
	m := build(t, 4)
	last := m.current
	for m.disk.Entries[SegmentName(last+1)] != nil {
		last++
	}
	if last == m.current {
		t.Fatal("no segment is ahead")
	}
	for n := m.oldest; n < last; n++ {
		d := m.disk.Clone()
		old := slices.Clone(d.Entries[SegmentName(n)].Data)
		Redress(old, last)
		d.Entries[SegmentName(last)].Data = old
		if rec, err := m.open(d, m.after[len(m.after)-1]); err != nil || rec.Cut != "" {
			t.Fatalf("segment %d was %d once: %+v, %v", last, n, rec, err)
		}
	}
	// And behind the end of the current segment.
	d := m.disk.Clone()
	end := m.ends[len(m.ends)-1]
	copy(d.Entries[SegmentName(m.current)].Data[end:], d.Entries[SegmentName(m.oldest)].Data[HeaderSize:])
	if rec, err := m.open(d, m.after[len(m.after)-1]); err != nil || rec.Cut != "" {
		t.Fatalf("old bytes behind the end: %+v, %v", rec, err)
	}
}
