// Package fakedisk is a disk in memory for tests of storage: it stops at any operation, loses
// power, fails to write back, and fills up, all from one seed. So a test can compare acknowledged
// changes with recovered ones, for every moment at which a machine may stop.
//
// What it does with what was not synced is what POSIX allows and Linux does; flaky.go says what
// comes of errors.
package fakedisk

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

	"polystalk/shard/wal"
)

// ErrDead is the error of every operation once the machine has stopped.
var ErrDead = errors.New("the machine has stopped")

// Sector is how many bytes a power cut keeps or forgets at once.
const Sector = 512

// A Disk is a directory in memory that forgets at a power cut what was not
// synced: each sector by itself, with any of the versions it has had since;
// of changes to the directory those behind a random one. It is a journal.Disk.
//
// Its fields may be set and read while it is not in use.
type Disk struct {
	// Limit is how many bytes there is room for; zero: any number. Free tells it, unless
	// it is Mute, or tells Shown if that is not zero.
	Limit int64
	Mute  bool
	Shown int64
	Asked int // how often Free was asked

	// CrashAt is the operation at which the machine stops, counted from one; zero: none.
	// Ops is how many there were, by name in Did.
	CrashAt int
	Ops     int
	Did     map[string]int
	Dead    bool // it has stopped; until Cut or Kill

	// Unordered has a power cut keep any of the changes to the directory, as POSIX allows, and
	// not the first ones.
	Unordered bool

	// Before is called before each operation, unlocked; its error is the operation's. A
	// write that fails has written half.
	Before func(op, name string) error

	Flaky    Flaky
	Failures int // of writing back

	// Entries are the files, by name.
	Entries map[string]*Inode

	mu      sync.Mutex
	rng     *rand.Rand
	durable map[string]*Inode
	pending []func(map[string]*Inode) // changes of Entries that are not durable
	files   int                       // open
}

// An Inode is a file. Data is what is read; after a power cut some of it is as
// in Durable. A sector may differ there and not be dirty: see Flaky.
type Inode struct {
	Data, Durable []byte

	dirty map[int][][]byte // sectors' versions since the last sync
	errs  int              // write-backs that failed
	seen  bool             // a sync has told of the last of them
}

// New is an empty disk. What it forgets, and which of its operations fail, comes of the seed.
func New(seed uint64) *Disk {
	return &Disk{
		rng: rand.New(rand.NewPCG(seed, 77)), Did: map[string]int{},
		Entries: map[string]*Inode{}, durable: map[string]*Inode{},
	}
}

// begin starts an operation and locks d.mu, also when it returns an error. If the machine stops
// during the operation, stop is true and the error is ErrDead; the operation may then take effect
// in part.
func (d *Disk) begin(op, name string) (stop bool, err error) {
	if d.Before != nil {
		if err := d.Before(op, name); err != nil {
			d.mu.Lock()
			return false, err
		}
	}
	d.mu.Lock()
	if d.Dead {
		return false, ErrDead
	}
	d.Ops++
	d.Did[op]++
	d.writeBack()
	if d.Ops == d.CrashAt {
		d.Dead = true
		return true, ErrDead
	}
	return false, nil
}

func (d *Disk) change(f func(map[string]*Inode)) {
	f(d.Entries)
	d.pending = append(d.pending, f)
}

// Cut is a power cut.
func (d *Disk) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.rng.IntN(len(d.pending) + 1)
	for i, f := range d.pending {
		if !d.Unordered && i < n || d.Unordered && d.rng.IntN(2) == 0 {
			f(d.durable)
		}
	}
	d.pending = nil
	d.Entries = maps.Clone(d.durable)
	for _, name := range slices.Sorted(maps.Keys(d.Entries)) {
		d.Entries[name].cut(d.rng)
	}
	d.Dead = false
}

func (f *Inode) cut(rng *rand.Rand) {
	size := len(f.Durable)
	if len(f.Data) != size && rng.IntN(2) == 0 {
		size = len(f.Data)
	}
	after := make([]byte, size)
	copy(after, f.Durable)
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
		if off := at * Sector; k > 0 && off < size {
			copy(after[off:], v[k-1])
		}
	}
	f.Data, f.Durable, f.dirty = after, slices.Clone(after), nil
	f.errs, f.seen = 0, false
}

// Kill ends only the process: nothing is lost, and nothing becomes durable.
func (d *Disk) Kill() {
	d.mu.Lock()
	d.Dead = false
	d.mu.Unlock()
}

// Clone returns a copy of the disk, with all of it durable.
func (d *Disk) Clone() *Disk {
	c := New(1)
	for name, f := range d.Entries {
		g := &Inode{Data: slices.Clone(f.Data), Durable: slices.Clone(f.Data)}
		c.Entries[name], c.durable[name] = g, g
	}
	return c
}

func (d *Disk) used() (n int64) {
	for _, f := range d.Entries {
		n += int64(len(f.Data))
	}
	return n
}

// Size is the bytes of all files, temporary ones too.
func (d *Disk) Size() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used()
}

func (d *Disk) List() ([]string, error) {
	_, err := d.begin("list", "")
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.Entries)), err
}

func (d *Disk) Create(name string) (wal.File, error) {
	stop, err := d.begin("create", name)
	defer d.mu.Unlock()
	if err != nil && !stop {
		return nil, err
	}
	if d.Entries[name] != nil {
		return nil, fs.ErrExist
	}
	f := &Inode{}
	d.change(func(m map[string]*Inode) { m[name] = f })
	return d.open(f, name), err
}

func (d *Disk) Open(name string) (wal.File, error) {
	_, err := d.begin("open", name)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f := d.Entries[name]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	return d.open(f, name), nil
}

func (d *Disk) Rename(from, to string) error {
	stop, err := d.begin("rename", to)
	defer d.mu.Unlock()
	if err != nil && !stop {
		return err
	}
	f := d.Entries[from]
	if f == nil {
		return fs.ErrNotExist
	}
	d.change(func(m map[string]*Inode) {
		delete(m, from)
		m[to] = f
	})
	return err
}

func (d *Disk) Remove(name string) error {
	stop, err := d.begin("remove", name)
	defer d.mu.Unlock()
	if err != nil && !stop {
		return err
	}
	if d.Entries[name] == nil {
		return fs.ErrNotExist
	}
	d.change(func(m map[string]*Inode) { delete(m, name) })
	return err
}

func (d *Disk) Sync() error {
	_, err := d.begin("syncdir", "")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	if d.oneIn(d.Flaky.Dirs) {
		return &fs.PathError{Op: "sync", Path: ".", Err: syscall.EIO}
	}
	for _, f := range d.pending {
		f(d.durable)
	}
	d.pending = nil
	return nil
}

func (d *Disk) Free() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Asked++
	if d.Limit == 0 || d.Mute {
		return math.MaxInt64
	}
	if d.Shown != 0 {
		return d.Shown
	}
	return max(0, d.Limit-d.used())
}

// A file is an open Inode.
type file struct {
	d    *Disk
	f    *Inode
	name string
	errs int // of the Inode's, that are told of
}

// open makes a file of f. Linux tells a new one of an error that nobody was told of.
func (d *Disk) open(f *Inode, name string) *file {
	d.files++
	h := &file{d, f, name, f.errs}
	if f.errs > 0 && !f.seen {
		h.errs--
	}
	return h
}

func (h *file) Close() error {
	h.d.mu.Lock()
	h.d.files--
	h.d.mu.Unlock()
	return nil
}

// Opened returns the number of open files.
func (d *Disk) Opened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files
}

func (h *file) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return int64(len(h.f.Data)), nil
}

func (h *file) ReadAt(b []byte, at int64) (int, error) {
	_, err := h.d.begin("read", h.name)
	defer h.d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n := 0
	if at < int64(len(h.f.Data)) {
		n = copy(b, h.f.Data[at:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *file) WriteAt(b []byte, at int64) (int, error) {
	d := h.d
	stop, err := d.begin("write", h.name)
	defer d.mu.Unlock()
	if stop {
		b = b[:d.rng.IntN(len(b)+1)]
	} else if err != nil {
		if err == ErrDead {
			return 0, err
		}
		b = b[:len(b)/2]
	}
	grow := at + int64(len(b)) - int64(len(h.f.Data))
	if d.Limit > 0 && grow > 0 && d.used()+grow > d.Limit {
		err = &fs.PathError{Op: "write", Path: h.name, Err: syscall.ENOSPC}
		b = b[:max(0, int64(len(b))-(d.used()+grow-d.Limit))]
	}
	h.f.write(b, at)
	return len(b), err
}

func (f *Inode) write(b []byte, at int64) {
	if len(b) == 0 {
		return
	}
	end := at + int64(len(b))
	if end > int64(len(f.Data)) {
		f.Data = append(f.Data, make([]byte, end-int64(len(f.Data)))...)
	}
	copy(f.Data[at:], b)
	if f.dirty == nil {
		f.dirty = map[int][][]byte{}
	}
	first := int(at / Sector)
	kept := slices.Clone(f.Data[first*Sector : min(int64(len(f.Data)), (end+Sector-1)/Sector*Sector)])
	for s := first; len(kept) > 0; s++ {
		n := min(Sector, len(kept))
		f.dirty[s] = append(f.dirty[s], kept[:n:n])
		kept = kept[n:]
	}
}

func (h *file) Sync() error {
	_, err := h.d.begin("sync", h.name)
	defer h.d.mu.Unlock()
	if err != nil {
		return err
	}
	f := h.f
	if h.d.oneIn(h.d.Flaky.Syncs) {
		f.lose(h.d.rng)
	}
	f.Flush()
	if h.errs != f.errs {
		h.errs, f.seen = f.errs, true
		return &fs.PathError{Op: "sync", Path: h.name, Err: syscall.EIO}
	}
	return nil
}

// Flush makes all dirty sectors durable.
func (f *Inode) Flush() {
	f.grow()
	for s := range f.dirty {
		at := s * Sector
		copy(f.Durable[at:], f.Data[at:min(len(f.Data), at+Sector)])
	}
	f.dirty = nil
}

func (f *Inode) grow() {
	if len(f.Durable) < len(f.Data) {
		f.Durable = append(f.Durable, make([]byte, len(f.Data)-len(f.Durable))...)
	}
}

// String is the files there are, for a failing test.
func (d *Disk) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.Entries)) {
		fmt.Fprintf(&b, "%s %d; ", name, len(d.Entries[name].Data))
	}
	return b.String()
}
