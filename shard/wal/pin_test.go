package wal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
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
	copied := 0
	for seed := range uint64(12) {
		w, p := pinned(t, seed, 150)
		c := &copyOf{to: fakedisk.New(seed + 100)}
		steps := 20
		err := p.Each(func(number uint64, at int64, piece []byte) error {
			copied++
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
	if copied < 100 {
		t.Errorf("only %d pieces were copied", copied)
	}
}

// TestPinIsKept: a journal of garbage holds twice its bound while it is pinned, then the pin is
// lost; what comes after that is an error, and nothing else.
func TestPinIsKept(t *testing.T) {
	w, p := pinned(t, 1, 40)
	first := w.j.Stats().Oldest
	bound := func() int64 { return 2*w.j.Stats().Live + 3*w.opts.SegmentSize + 4*largest }
	beyond := false
	for i := 0; !p.Lost(); i++ {
		if i == 20000 {
			t.Fatal("the pin is never lost")
		}
		if got := w.j.Stats(); got.Bytes > 2*bound() {
			t.Fatalf("%d bytes on disk", got.Bytes)
		} else if beyond = beyond || got.Bytes > bound(); !p.Lost() {
			if _, err := w.fake.Open(SegmentName(first)); err != nil {
				t.Fatalf("the oldest segment is gone: %v", err)
			}
		}
		w.goOn(t, 1)
	}
	if !beyond {
		t.Error("the directory was never beyond its bound")
	}
	c := &copyOf{to: fakedisk.New(5)}
	if err := p.Each(c.take); !errors.Is(err, ErrPinLost) {
		t.Errorf("reading says %v", err)
	}
	p.Release()
	w.goOn(t, 20)
	if err := w.tend(); err != nil {
		t.Error(err)
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

// TestPinOnFullDisk: no client is refused because somebody reads.
func TestPinOnFullDisk(t *testing.T) {
	w, p := pinned(t, 3, 40)
	defer p.Release()
	w.fake.Limit = w.fake.Size() + w.opts.SegmentSize/2
	for i := 0; !p.Lost(); i++ {
		if i == 20000 {
			t.Fatal("the pin is kept on a full disk")
		}
		w.goOn(t, 1)
	}
}

// TestPinOfDamage: what cannot be read is not passed on.
func TestPinOfDamage(t *testing.T) {
	w, p := pinned(t, 4, 150)
	defer p.Release()
	current, end := w.j.End()
	for current == w.j.Stats().Oldest || end < 5000 {
		w.goOn(t, 1)
		current, end = w.j.End()
	}
	for _, at := range []struct {
		segment uint64
		offset  int64
	}{{current - 1, 3000}, {current - 1, 3}, {current, 4000}, {current, end - 20}} {
		b := &w.fake.Entries[SegmentName(at.segment)].Data[at.offset]
		*b ^= 1
		var damage *Damage
		err := w.j.Pin().Each((&copyOf{to: fakedisk.New(5)}).take)
		if !errors.As(err, &damage) || damage.File != SegmentName(at.segment) {
			t.Errorf("reading what is damaged at %v says %v", at, err)
		}
		*b ^= 1
	}
	w.fake.Before = func(op, name string) error {
		if op == "read" {
			return &fs.PathError{Op: op, Path: name, Err: syscall.EIO}
		}
		return nil
	}
	if err := p.Each((&copyOf{to: fakedisk.New(5)}).take); !errors.Is(err, syscall.EIO) {
		t.Errorf("reading says %v", err)
	}
}

// TestPinEndsWithVisit: an error of who takes the pieces ends the reading, and no file stays
// open.
func TestPinEndsWithVisit(t *testing.T) {
	w, p := pinned(t, 6, 40)
	defer p.Release()
	open, broken := w.fake.Opened(), errors.New("broken")
	if err := p.Each(func(uint64, int64, []byte) error { return broken }); err != broken {
		t.Errorf("reading says %v", err)
	}
	if n := w.fake.Opened(); n != open {
		t.Errorf("%d files are open, %d before", n, open)
	}
}

// TestCopyBesideCustomers copies a journal again and again while its goroutines work: each
// copy is one that a server starts from.
func TestCopyBesideCustomers(t *testing.T) {
	s := &server{disk: Dir(t.TempDir()), policy: SyncEvery, size: SegmentMin}
	must(t, s.open(3))
	over := make(chan struct{})
	var copies []*fakedisk.Disk
	var failed error
	var readers sync.WaitGroup
	readers.Go(func() {
		for stop := false; !stop; {
			select {
			case <-over:
				stop = true // one more, of all there is
			default:
			}
			c := &copyOf{to: fakedisk.New(uint64(len(copies)))}
			p := s.j.Pin()
			err := p.Each(c.take)
			p.Release()
			if err == nil {
				copies = append(copies, c.to)
			} else if failed = err; !errors.Is(err, ErrPinLost) {
				return
			}
		}
	})
	list := s.customers(3, 6, 150)
	must(t, s.j.Durable())
	close(over)
	readers.Wait()
	s.j.Close()
	s.closeCores()
	if failed != nil && !errors.Is(failed, ErrPinLost) || len(copies) == 0 {
		t.Fatal(len(copies), failed)
	}
	for i, to := range copies[max(0, len(copies)-10):] {
		of := &server{disk: to, size: SegmentMin}
		if err := of.open(2); err != nil {
			t.Fatalf("copy %d of %d: %v", i, len(copies), err)
		}
		if i == min(len(copies), 10)-1 {
			if err := holds(of.bodies(), list); err != nil {
				t.Errorf("the last of %d copies: %v", len(copies), err)
			}
		}
		must(t, of.j.Close())
		of.closeCores()
	}
}
