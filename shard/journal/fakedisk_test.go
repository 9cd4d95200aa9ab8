package journal_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"

	. "polystalk/shard/journal"
)

// errDead is what a disk says whose machine has stopped.
var errDead = errors.New("the machine has stopped")

const sector = 512

// A fakeDisk is a directory in memory that forgets at a power cut what was not
// synced: each sector by itself, with any of the versions it has had since;
// of changes to the directory those behind a random one.
type fakeDisk struct {
	mu      sync.Mutex
	rng     *rand.Rand
	entries map[string]*inode
	durable map[string]*inode
	pending []func(map[string]*inode) // changes of entries that are not durable

	ops     int
	crashAt int            // the machine stops at this operation; zero: never
	dead    bool           // it has
	did     map[string]int // operations by name
	last    string         // the last one

	files int   // open
	limit int64 // bytes; zero: none
	mute  bool  // Free does not tell
	shown int64 // it tells this; zero: what is left

	flaky    flaky
	failures int // of writing back

	// before is called before each operation, unlocked; its error is the
	// operation's. A write that fails has written half.
	before func(op, name string) error
}

// An inode is a file. data is what is read; after a power cut some of it is as
// in durable. A sector may differ there and not be dirty: see flaky.
type inode struct {
	data, durable []byte
	dirty         map[int][][]byte // sectors' versions since the last sync

	errs int  // write-backs that failed
	seen bool // a sync has told of the last of them
}

func newFakeDisk(seed uint64) *fakeDisk {
	return &fakeDisk{
		rng: rand.New(rand.NewPCG(seed, 77)), did: map[string]int{},
		entries: map[string]*inode{}, durable: map[string]*inode{},
	}
}

// begin starts an operation, and locks. When the machine stops in it, stop is
// true: it may be done by half, and its error is errDead.
func (d *fakeDisk) begin(op, name string) (stop bool, err error) {
	if d.before != nil {
		if err := d.before(op, name); err != nil {
			d.mu.Lock()
			return false, err
		}
	}
	d.mu.Lock()
	if d.dead {
		return false, errDead
	}
	d.ops++
	d.did[op]++
	d.last = op
	d.writeBack()
	if d.ops == d.crashAt {
		d.dead = true
		return true, errDead
	}
	return false, nil
}

func (d *fakeDisk) change(f func(map[string]*inode)) {
	f(d.entries)
	d.pending = append(d.pending, f)
}

// cut is a power cut.
func (d *fakeDisk) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.pending[:d.rng.IntN(len(d.pending)+1)] {
		f(d.durable)
	}
	d.pending = nil
	d.entries = maps.Clone(d.durable)
	for _, name := range slices.Sorted(maps.Keys(d.entries)) {
		d.entries[name].cut(d.rng)
	}
	d.dead = false
}

func (f *inode) cut(rng *rand.Rand) {
	size := len(f.durable)
	if len(f.data) != size && rng.IntN(2) == 0 {
		size = len(f.data)
	}
	after := make([]byte, size)
	copy(after, f.durable)
	all := rng.IntN(4) // sometimes nothing is lost, or everything
	for _, at := range slices.Sorted(maps.Keys(f.dirty)) {
		v := f.dirty[at]
		k := rng.IntN(len(v) + 1)
		switch all {
		case 0:
			k = len(v)
		case 1:
			k = 0
		}
		if off := at * sector; k > 0 && off < size {
			copy(after[off:], v[k-1])
		}
	}
	f.data, f.durable, f.dirty = after, slices.Clone(after), nil
	f.errs, f.seen = 0, false
}

// kill ends the process only: nothing is lost, and nothing becomes durable.
func (d *fakeDisk) kill() {
	d.mu.Lock()
	d.dead = false
	d.mu.Unlock()
}

// clone is the disk as it is, all of it durable.
func (d *fakeDisk) clone() *fakeDisk {
	c := newFakeDisk(1)
	for name, f := range d.entries {
		g := &inode{data: slices.Clone(f.data), durable: slices.Clone(f.data)}
		c.entries[name], c.durable[name] = g, g
	}
	return c
}

func (d *fakeDisk) used() (n int64) {
	for _, f := range d.entries {
		n += int64(len(f.data))
	}
	return n
}

// size is the bytes of all files, temporary ones too.
func (d *fakeDisk) size() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used()
}

func (d *fakeDisk) List() ([]string, error) {
	_, err := d.begin("list", "")
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.entries)), err
}

func (d *fakeDisk) Create(name string) (File, error) {
	stop, err := d.begin("create", name)
	defer d.mu.Unlock()
	if err != nil && !stop {
		return nil, err
	}
	if d.entries[name] != nil {
		return nil, fs.ErrExist
	}
	f := &inode{}
	d.change(func(m map[string]*inode) { m[name] = f })
	return d.open(f, name), err
}

func (d *fakeDisk) Open(name string) (File, error) {
	_, err := d.begin("open", name)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f := d.entries[name]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	return d.open(f, name), nil
}

func (d *fakeDisk) Rename(from, to string) error {
	stop, err := d.begin("rename", to)
	defer d.mu.Unlock()
	if err != nil && !stop {
		return err
	}
	f := d.entries[from]
	if f == nil {
		return fs.ErrNotExist
	}
	d.change(func(m map[string]*inode) {
		delete(m, from)
		m[to] = f
	})
	return err
}

func (d *fakeDisk) Remove(name string) error {
	stop, err := d.begin("remove", name)
	defer d.mu.Unlock()
	if err != nil && !stop {
		return err
	}
	if d.entries[name] == nil {
		return fs.ErrNotExist
	}
	d.change(func(m map[string]*inode) { delete(m, name) })
	return err
}

func (d *fakeDisk) Sync() error {
	_, err := d.begin("syncdir", "")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	if d.oneIn(d.flaky.dirs) {
		return &fs.PathError{Op: "sync", Path: ".", Err: syscall.EIO}
	}
	for _, f := range d.pending {
		f(d.durable)
	}
	d.pending = nil
	return nil
}

func (d *fakeDisk) Free() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.limit == 0 || d.mute {
		return math.MaxInt64
	}
	if d.shown != 0 {
		return d.shown
	}
	return max(0, d.limit-d.used())
}

// A fakeFile is an open inode.
type fakeFile struct {
	d    *fakeDisk
	f    *inode
	name string
	errs int // of the inode's, that are told of
}

// open makes a file of f. Linux tells a new one of an error that nobody was told of.
func (d *fakeDisk) open(f *inode, name string) *fakeFile {
	d.files++
	h := &fakeFile{d, f, name, f.errs}
	if f.errs > 0 && !f.seen {
		h.errs--
	}
	return h
}

func (h *fakeFile) Close() error {
	h.d.mu.Lock()
	h.d.files--
	h.d.mu.Unlock()
	return nil
}

// opened is how many files are open.
func (d *fakeDisk) opened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files
}

func (h *fakeFile) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return int64(len(h.f.data)), nil
}

func (h *fakeFile) Truncate(size int64) error { panic("nobody truncates") }

func (h *fakeFile) ReadAt(b []byte, at int64) (int, error) {
	_, err := h.d.begin("read", h.name)
	defer h.d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n := 0
	if at < int64(len(h.f.data)) {
		n = copy(b, h.f.data[at:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *fakeFile) WriteAt(b []byte, at int64) (int, error) {
	d := h.d
	stop, err := d.begin("write", h.name)
	defer d.mu.Unlock()
	if stop {
		b = b[:d.rng.IntN(len(b)+1)]
	} else if err != nil {
		if err == errDead {
			return 0, err
		}
		b = b[:len(b)/2]
	}
	grow := at + int64(len(b)) - int64(len(h.f.data))
	if d.limit > 0 && grow > 0 && d.used()+grow > d.limit {
		err = &fs.PathError{Op: "write", Path: h.name, Err: syscall.ENOSPC}
		b = b[:max(0, int64(len(b))-(d.used()+grow-d.limit))]
	}
	h.f.write(b, at)
	return len(b), err
}

func (f *inode) write(b []byte, at int64) {
	if len(b) == 0 {
		return
	}
	end := at + int64(len(b))
	if end > int64(len(f.data)) {
		f.data = append(f.data, make([]byte, end-int64(len(f.data)))...)
	}
	copy(f.data[at:], b)
	if f.dirty == nil {
		f.dirty = map[int][][]byte{}
	}
	first := int(at / sector)
	kept := slices.Clone(f.data[first*sector : min(int64(len(f.data)), (end+sector-1)/sector*sector)])
	for s := first; len(kept) > 0; s++ {
		n := min(sector, len(kept))
		f.dirty[s] = append(f.dirty[s], kept[:n:n])
		kept = kept[n:]
	}
}

func (h *fakeFile) Sync() error {
	_, err := h.d.begin("sync", h.name)
	defer h.d.mu.Unlock()
	if err != nil {
		return err
	}
	f := h.f
	if h.d.oneIn(h.d.flaky.syncs) {
		f.lose(h.d.rng)
	}
	f.flush()
	if h.errs != f.errs {
		h.errs, f.seen = f.errs, true
		return &fs.PathError{Op: "sync", Path: h.name, Err: syscall.EIO}
	}
	return nil
}

// flush makes durable what is dirty.
func (f *inode) flush() {
	f.grow()
	for s := range f.dirty {
		at := s * sector
		copy(f.durable[at:], f.data[at:min(len(f.data), at+sector)])
	}
	f.dirty = nil
}

func (f *inode) grow() {
	if len(f.durable) < len(f.data) {
		f.durable = append(f.durable, make([]byte, len(f.data)-len(f.durable))...)
	}
}

// names are the segments there are, for a failing test.
func (d *fakeDisk) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.entries)) {
		fmt.Fprintf(&b, "%s %d; ", name, len(d.entries[name].data))
	}
	return b.String()
}
