package exchange_test

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
)

// errEnd is what an unordered directory says from the operation on at which it ends.
var errEnd = errors.New("the machine has stopped")

// An unordered directory is one that keeps, at a power cut, any of the changes that were not
// synced, and not only the first ones: what POSIX allows, though hardly any file system does
// so. Its files are nothing but names that stand for what is in them, which is durable.
type unordered struct {
	rng     *rand.Rand
	now     contents
	durable contents
	pending []func(contents)
	left    int // operations until it ends; negative: without end
}

func newUnordered(seed uint64, files contents) *unordered {
	return &unordered{rng: rand.New(rand.NewPCG(seed, 5)), now: maps.Clone(files), durable: maps.Clone(files), left: -1}
}

func (u *unordered) begin() error {
	if u.left == 0 {
		return errEnd
	}
	u.left--
	return nil
}

func (u *unordered) change(f func(contents)) error {
	if err := u.begin(); err != nil {
		return err
	}
	f(u.now)
	u.pending = append(u.pending, f)
	return nil
}

// cut is a power cut.
func (u *unordered) cut() {
	for _, f := range u.pending {
		if u.rng.IntN(2) == 0 {
			f(u.durable)
		}
	}
	u.pending, u.now = nil, maps.Clone(u.durable)
}

func (u *unordered) List() ([]string, error) { return slices.Collect(maps.Keys(u.now)), u.begin() }

func (u *unordered) Create(name string) (wal.File, error) {
	if _, ok := u.now[name]; ok {
		return nil, fs.ErrExist
	}
	return unwritten{}, u.change(func(files contents) { files[name] = "" })
}

func (u *unordered) Open(string) (wal.File, error) { panic("nobody opens") }

func (u *unordered) Rename(from, to string) error {
	return u.change(func(files contents) {
		if what, ok := files[from]; ok {
			delete(files, from)
			files[to] = what
		}
	})
}

func (u *unordered) Remove(name string) error {
	if _, ok := u.now[name]; !ok {
		return fs.ErrNotExist
	}
	return u.change(func(files contents) { delete(files, name) })
}

func (u *unordered) Sync() error {
	if err := u.begin(); err != nil {
		return err
	}
	u.pending, u.durable = nil, maps.Clone(u.now)
	return nil
}

func (u *unordered) Free() int64 { return 1 << 40 }

// unwritten is a file into which nobody writes.
type unwritten struct{ wal.File }

func (unwritten) Close() error { return nil }

// TestUnordered is TestEndAnywhere on a directory whose changes become durable in any order.
func TestUnordered(t *testing.T) {
	for _, s := range scenes {
		for seed := range uint64(400) {
			u := newUnordered(seed, beside.with(s.old))
			for name, what := range s.staged() {
				u.change(func(files contents) { files[name] = what })
			}
			u.left = u.rng.IntN(30)
			begun := exchange.Begin(u)
			for {
				if u.rng.IntN(3) > 0 {
					u.cut()
				}
				u.left = u.rng.IntN(30)
				_, err := exchange.Resume(u)
				if err == nil {
					break
				}
				if !errors.Is(err, errEnd) {
					t.Fatalf("%s, seed %d: a start says: %v", s.name, seed, err)
				}
			}
			u.cut()
			isNew, isOld := maps.Equal(u.now, beside.with(s.new)), maps.Equal(u.now, beside.with(s.old))
			if !isNew && (!isOld || begun == nil) {
				t.Fatalf("%s, seed %d: the exchange said %v, and the directory holds %q", s.name, seed, begun, u.now.names())
			}
		}
	}
}
