package exchange_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
	"polystalk/shard/wal/fakedisk"
)

// contents is what the files of a directory hold, by name.
type contents map[string]string

// beside is what is in every directory and no journal's.
var beside = contents{"lock": "", "cluster.state": "term 7, vote 2", "binlog.3": "beanstalkd's", "journal.bak": "an operator's"}

// journalOf is a journal's files from a number on; its words tell it from others.
func journalOf(word string, from, n int) contents {
	files := contents{}
	for i := range n {
		files[fmt.Sprintf("journal.%010d", from+i)] = strings.Repeat(fmt.Sprintf("%s %d;", word, i), 200)
	}
	return files
}

// write makes files, durable with their names.
func write(t *testing.T, d wal.Disk, files contents) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := d.Create(name)
		if err == nil && files[name] != "" {
			_, err = f.WriteAt([]byte(files[name]), 0)
		}
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
}

// held are the files of a disk.
func held(d *fakedisk.Disk) contents {
	files := contents{}
	for name, f := range d.Entries {
		files[name] = string(f.Data)
	}
	return files
}

// with is both.
func (c contents) with(other contents) contents {
	all := maps.Clone(c)
	maps.Copy(all, other)
	return all
}

// names returns the files' names, for a failing test.
func (c contents) names() []string { return slices.Sorted(maps.Keys(c)) }

// A scene is a directory with a journal and another one staged, either perhaps with a note.
type scene struct {
	name string
	old  contents
	new  contents
}

// staged are the names of the new journal before the exchange.
func (s *scene) staged() contents {
	files := contents{}
	for name, what := range s.new {
		name = strings.Replace(name, "journal.", "incoming.", 1)
		files[strings.Replace(name, "exchange.", "incoming.", 1)] = what
	}
	return files
}

var scenes = []scene{
	{"other names", journalOf("old", 1, 3), journalOf("new", 31, 4)},
	{"the same names", journalOf("old", 5, 4), journalOf("new", 5, 4)},
	{"names that overlap", journalOf("old", 1, 5), journalOf("new", 4, 5)},
	{"no journal before", nil, journalOf("new", 9, 3)},
	{"a note", journalOf("old", 1, 2), journalOf("new", 1, 2).with(contents{"exchange.note": "who the members are"})},
	{"a note after another", journalOf("old", 1, 2).with(contents{"exchange.note": "as of before"}), journalOf("new", 7, 2).with(contents{"exchange.note": "who the members are"})},
	{"no note after one", journalOf("old", 1, 2).with(contents{"exchange.note": "as of before"}), journalOf("new", 7, 2)},
	{"a spare that was not finished", journalOf("old", 1, 2).with(contents{"journal.0000000003.tmp": "zeros"}), journalOf("new", 1, 1)},
}

// disk has the scene on it.
func (s *scene) disk(t *testing.T, seed uint64) *fakedisk.Disk {
	d := fakedisk.New(seed)
	write(t, d, beside)
	write(t, d, s.old)
	write(t, d, s.staged())
	return d
}

// check says what is wrong with what a directory holds after a start.
func (s *scene) check(d *fakedisk.Disk, mayBeOld bool) error {
	got := held(d)
	switch {
	case maps.Equal(got, beside.with(s.new)):
	case mayBeOld && maps.Equal(got, beside.with(s.old)):
	default:
		return fmt.Errorf("the directory holds %q", got.names())
	}
	return nil
}

// TestEndAnywhere ends the process at each operation of an exchange, and then at each of the
// start that goes on: by kill -9, or by a power cut after which any changes of names are durable.
func TestEndAnywhere(t *testing.T) {
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			for seed := range uint64(10) {
				for at := 1; endAt(t, &s, seed, at); at++ {
				}
			}
		})
	}
}

// endAt ends an exchange at an operation, and each start after that somewhat later. It reports
// false if the exchange was over before.
func endAt(t *testing.T, s *scene, seed uint64, at int) bool {
	t.Helper()
	d := s.disk(t, seed*1000+uint64(at))
	d.CrashAt, d.Unordered = d.Ops+at, seed%4 == 0
	err := exchange.Begin(d)
	done := err == nil
	if done && d.Ops >= d.CrashAt {
		t.Fatalf("seed %d: no error of the end at operation %d", seed, at)
	}
	for later := 1; ; later++ {
		if seed%2 == 0 {
			d.Cut()
		} else {
			d.Kill()
		}
		d.CrashAt = d.Ops + later
		if _, err := exchange.Resume(d); err == nil {
			break
		} else if !errors.Is(err, fakedisk.ErrDead) {
			t.Fatalf("seed %d, operation %d: the next start says: %v", seed, at, err)
		}
	}
	d.CrashAt = 0
	d.Cut() // what a start has seen to is for good
	if err := s.check(d, !done); err != nil {
		t.Fatalf("seed %d, operation %d: %v", seed, at, err)
	}
	return !done
}

// TestNothingIsExchanged: a journal that was staged is removed if the exchange never began, for
// want of room, or by Discard. The old journal stays.
func TestNothingIsExchanged(t *testing.T) {
	for i, s := range scenes[:3] {
		d := s.disk(t, 3)
		if i == 0 {
			d.Before = func(op, name string) error {
				if op == "create" {
					return &fs.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
				}
				return nil
			}
			if err := exchange.Begin(d); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("without room it says %v", err)
			}
		}
		if i == 2 {
			if err := exchange.Discard(d); err != nil {
				t.Fatal(err)
			}
		} else if found, err := exchange.Resume(d); found != exchange.Leftover || err != nil {
			t.Fatalf("%v, %v", found, err)
		}
		if d.Cut(); !maps.Equal(held(d), beside.with(s.old)) {
			t.Fatalf("the directory holds %q", held(d).names())
		}
	}
}

// TestDiskErrors has each operation fail once: the next start goes on.
func TestDiskErrors(t *testing.T) {
	for _, s := range scenes {
		for at := 1; ; at++ {
			d := s.disk(t, uint64(at))
			n := 0
			d.Before = func(op, name string) error {
				if n++; n == at {
					return &fs.PathError{Op: op, Path: name, Err: syscall.EIO}
				}
				return nil
			}
			err := exchange.Begin(d)
			if n >= at && err == nil {
				t.Fatalf("%s: nobody was told of the error at operation %d", s.name, at)
			}
			d.Before = nil
			if _, again := exchange.Resume(d); again != nil {
				t.Fatalf("%s: after the error at operation %d: %v", s.name, at, again)
			}
			d.Cut()
			if bad := s.check(d, err != nil); bad != nil {
				t.Fatalf("%s: after the error at operation %d: %v", s.name, at, bad)
			}
			if err == nil {
				break
			}
		}
	}
}

func TestStageIsAJournalsOnly(t *testing.T) {
	d := fakedisk.New(1)
	stage := exchange.Stage(d)
	for _, f := range []func() error{
		func() error { _, err := stage.Create("cluster.state"); return err },
		func() error { _, err := stage.Open("lock"); return err },
		func() error { return stage.Remove("binlog.1") },
		func() error { return stage.Rename("journal.0000000001", "lock") },
		func() error { return stage.Rename("lock", "journal.0000000001") },
	} {
		if err := f(); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("it says %v", err)
		}
	}
	if d.Ops != 0 {
		t.Errorf("%d operations went to the disk", d.Ops)
	}
}

// TestStage shows the new journal under the names that it will have, and nothing else.
func TestStage(t *testing.T) {
	s := scenes[0]
	d := fakedisk.New(1)
	write(t, d, beside.with(s.old))
	stage := exchange.Stage(d)
	write(t, stage, s.new)
	write(t, d, contents{"incoming.note": "no file of the journal"})
	names, err := stage.List()
	if err != nil || !slices.Equal(names, s.new.names()) {
		t.Errorf("%q, %v", names, err)
	}
	if got := held(d); !maps.Equal(got, beside.with(s.old).with(s.staged()).with(contents{"incoming.note": "no file of the journal"})) {
		t.Errorf("the directory holds %q", got.names())
	}
	if err := errors.Join(stage.Rename(names[0], "journal.0000000100"), stage.Remove(names[1])); err != nil {
		t.Error(err)
	}
	if f, err := stage.Open("journal.0000000100"); err != nil {
		t.Error(err)
	} else if size, _ := f.Size(); size != int64(len(s.new[names[0]])) {
		t.Errorf("%d bytes", size)
	}
}

func TestNote(t *testing.T) {
	d := fakedisk.New(1)
	note := func(want string) {
		t.Helper()
		if b, err := exchange.Note(d); err != nil || string(b) != want {
			t.Errorf("the note is %q (%v), want %q", b, err, want)
		}
	}
	for _, b := range []string{"first", "the second one"} {
		if err := exchange.StageNote(d, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	note("")
	if err := exchange.Begin(d); err != nil {
		t.Fatal(err)
	}
	note("the second one")
	if err := exchange.DropNote(d); err != nil {
		t.Fatal(err)
	}
	d.Cut()
	note("")
	if err := exchange.StageNote(d, make([]byte, 1<<20)); err == nil {
		t.Error("a note may be of any size")
	}
	write(t, d, contents{"exchange.note": strings.Repeat("x", 1<<20)})
	if _, err := exchange.Note(d); err == nil {
		t.Error("a note of any size is read")
	}
	if err := exchange.StageNote(d, []byte("left over")); err != nil {
		t.Fatal(err)
	}
	if found, err := exchange.Resume(d); found != exchange.Leftover || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if n := d.Opened(); n != 0 {
		t.Errorf("%d files are open", n)
	}
}
