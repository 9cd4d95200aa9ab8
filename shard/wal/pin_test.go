package wal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A copyOf writes what a pin keeps to another disk.
type copyOf struct {
	to   *fakedisk.Disk
	file File
	name string
	size int64
}

// take is for Pin.Each. What it has of a segment already it takes once more.
func (c *copyOf) take(number uint64, at int64, piece []byte) (err error) {
	if name := SegmentName(number); name != c.name {
		if c.name, c.size = name, 0; c.file != nil {
			c.file.Close()
		}
		if c.file, err = c.to.Open(name); errors.Is(err, fs.ErrNotExist) {
			c.file, err = c.to.Create(name)
		}
		if err != nil {
			return err
		}
	}
	if at != c.size {
		return fmt.Errorf("a piece at %d of %s follows on %d", at, c.name, c.size)
	}
	c.size += int64(len(piece))
	_, err = c.file.WriteAt(piece, at)
	return err
}

// pinned is a world that has lived for some steps, and a pin in it.
func pinned(t *testing.T, seed uint64, steps int) (*world, *Pin) {
	t.Helper()
	w := newWorld(seed, fakedisk.New(seed))
	if _, err := w.open(true); err != nil {
		t.Fatal(err)
	}
	w.goOn(t, steps)
	return w, w.j.Pin()
}

// goOn has some steps done.
func (w *world) goOn(t *testing.T, steps int) {
	t.Helper()
	for range steps {
		if err := w.step(); err != nil && !strings.Contains(err.Error(), "bytes on disk") {
			t.Fatal(err)
		}
	}
}

// TestCopyMeanwhile copies a journal that goes on, and compacts: a start from the copy finds
// what it held in the end.
func TestCopyMeanwhile(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for seed := range uint64(12) {
		w, p := pinned(t, seed, 150)
		c := &copyOf{to: fakedisk.New(seed + 100)}
		steps := 20
		err := p.Each(func(number uint64, at int64, piece []byte) error {
			if steps--; steps > 0 {
				w.goOn(t, 1)
			}
			return c.take(number, at, piece)
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		// Now that nothing happens any more, what was written behind the last piece.
		c.name = ""
		if err := p.Each(c.take); err != nil {
			t.Fatalf("seed %d: the rest: %v", seed, err)
		}
		p.Release()
		w.disk, w.fake, w.opts.Disk = c.to, c.to, c.to
		if _, err := w.open(true); err != nil {
			t.Fatalf("seed %d: a start from the copy: %v", seed, err)
		}
		w.goOn(t, 30)
	}
}

// TestPinIsKept: a journal of garbage holds twice its bound while it is pinned, or what a full
// disk allows. Then the pin is lost, and a reader gets an error and nothing else.
func TestPinIsKept(t *testing.T) {
	for _, full := range []bool{false, true} {
		w, p := pinned(t, 1, 40)
		if full {
			w.fake.Limit = w.fake.Size() + w.opts.SegmentSize/2
		}
		first, beyond := w.j.Stats().Oldest, false
		for i := 0; !p.Lost(); i++ {
			if i == 20000 {
				t.Fatal("the pin is never lost")
			}
			s := w.j.Stats()
			bound := 2*s.Live + 3*w.opts.SegmentSize + 4*largest
			if s.Bytes > 2*bound {
				t.Fatalf("%d bytes on disk", s.Bytes)
			} else if beyond = beyond || s.Bytes > bound; !p.Lost() {
				if _, err := w.fake.Open(SegmentName(first)); err != nil {
					t.Fatalf("the oldest segment is gone: %v", err)
				}
			}
			w.goOn(t, 1)
		}
		if !beyond && !full {
			t.Error("the directory was never beyond its bound")
		}
		if err := p.Each((&copyOf{to: fakedisk.New(5)}).take); !errors.Is(err, ErrPinLost) {
			t.Errorf("reading says %v", err)
		}
		p.Release()
		w.goOn(t, 20)
		must(t, w.tend())
	}
}

// TestPinsAreGivenUp: once nobody reads, the directory comes back within its bound.
func TestPinsAreGivenUp(t *testing.T) {
	w, p := pinned(t, 2, 40)
	other := w.j.Pin()
	for i := 0; w.tend() == nil; i++ {
		if i == 20000 {
			t.Fatal("the directory never goes beyond its bound")
		}
		w.goOn(t, 1)
	}
	p.Release()
	p.Release()
	if w.tend() == nil {
		t.Error("the other pin keeps nothing")
	}
	other.Keep(1 << 40)
	if err := w.tend(); err != nil {
		t.Error(err)
	}
	other.Release()
}

// TestPinOfDamage: what cannot be read is not passed on. An error of the disk or of the visitor
// ends the reading, and no file stays open.
func TestPinOfDamage(t *testing.T) {
	w, p := pinned(t, 4, 150)
	defer p.Release()
	current, end := w.j.End()
	for current == w.j.Stats().Oldest || end < 5000 {
		w.goOn(t, 1)
		current, end = w.j.End()
	}
	read := func() error { return w.j.Pin().Each((&copyOf{to: fakedisk.New(5)}).take) }
	open := w.fake.Opened()
	for _, at := range []struct {
		segment uint64
		offset  int64
	}{{current - 1, 3000}, {current - 1, 3}, {current, 4000}, {current, end - 20}} {
		b := &w.fake.Entries[SegmentName(at.segment)].Data[at.offset]
		*b ^= 1
		var damage *Damage
		if err := read(); !errors.As(err, &damage) || damage.File != SegmentName(at.segment) {
			t.Errorf("reading what is damaged at %v says %v", at, err)
		}
		*b ^= 1
	}
	broken := errors.New("broken")
	if err := p.Each(func(uint64, int64, []byte) error { return broken }); err != broken {
		t.Errorf("reading says %v", err)
	}
	w.fake.Before = func(op, name string) error {
		if op == "read" {
			return &fs.PathError{Op: op, Path: name, Err: syscall.EIO}
		}
		return nil
	}
	if err := read(); !errors.Is(err, syscall.EIO) {
		t.Errorf("reading says %v", err)
	}
	if n := w.fake.Opened(); n != open {
		t.Errorf("%d files are open, %d before", n, open)
	}
}

// TestCopyBesideCustomers copies a journal again and again while its goroutines work. A server
// starts from each copy, and the last one has everything.
func TestCopyBesideCustomers(t *testing.T) {
	s := &server{disk: Dir(t.TempDir()), policy: SyncEvery, size: SegmentMin}
	must(t, s.open(3))
	copied := func() (*fakedisk.Disk, error) {
		c := &copyOf{to: fakedisk.New(1)}
		p := s.j.Pin()
		defer p.Release()
		return c.to, p.Each(c.take)
	}
	var copies []*fakedisk.Disk
	var over atomic.Bool
	var reader sync.WaitGroup
	reader.Go(func() {
		for !over.Load() {
			if to, err := copied(); err == nil {
				copies = append(copies, to)
			} else if !errors.Is(err, ErrPinLost) {
				t.Error(err)
			}
		}
	})
	list := s.customers(3, 6, 80)
	over.Store(true)
	reader.Wait()
	must(t, s.j.Durable())
	last, err := copied()
	must(t, err)
	must(t, s.end())
	copies = append(copies, last)
	for i, to := range copies[max(0, len(copies)-5):] {
		of := &server{disk: to, size: SegmentMin}
		if err := of.open(2); err != nil {
			t.Fatalf("copy %d of %d: %v", i, len(copies), err)
		}
		if to == last {
			must(t, holds(of.bodies(), list))
		}
		must(t, of.end())
	}
}
