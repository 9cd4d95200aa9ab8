package journal_test

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// A flaky disk fails to write back, and then does what Linux does: the pages
// count as clean. So what was written is read, for as long as it stays in
// memory, and no sync writes it again. Who has the file open is told once, or
// else the next who opens it.
type flaky struct {
	syncs int // one sync in so many fails; zero: none
	idle  int // before one operation in so many the kernel writes back by itself
	backs int // one of these write-backs in so many fails; zero: none
	dirs  int // one sync of the directory in so many fails; zero: none
}

// oneIn reports whether it is to fail this time.
func (d *fakeDisk) oneIn(n int) bool {
	if n == 0 || d.rng.IntN(n) > 0 {
		return false
	}
	d.failures++
	return true
}

// lose fails to write back what is dirty, or some of it. A sector gets onto the
// disk in any of the versions it has had, or not at all.
func (f *inode) lose(rng *rand.Rand) {
	f.grow()
	all := rng.IntN(3) > 0 // nothing gets there
	for _, s := range slices.Sorted(maps.Keys(f.dirty)) {
		v := f.dirty[s]
		if k := rng.IntN(len(v) + 1); k > 0 && !all {
			copy(f.durable[s*sector:], v[k-1])
		}
	}
	f.dirty = nil
	f.errs++
	f.seen = false
}

// writeBack is what the kernel does by itself now and then; d is locked.
func (d *fakeDisk) writeBack() {
	idle := d.flaky.idle
	if idle == 0 || d.rng.IntN(idle) > 0 || len(d.entries) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(d.entries))
	f := d.entries[names[d.rng.IntN(len(names))]]
	switch {
	case len(f.dirty) == 0:
	case d.oneIn(d.flaky.backs):
		f.lose(d.rng)
	default:
		f.flush()
	}
}

// pageSectors is how many sectors leave memory at once.
const pageSectors = 8

// evict takes clean pages out of memory, some or all: what is read is what is on
// the disk. It reports whether that makes a difference.
func (d *fakeDisk) evict() (differs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.rng.IntN(2) == 0
	for _, name := range slices.Sorted(maps.Keys(d.entries)) {
		f := d.entries[name]
		f.grow()
		for at := 0; at < len(f.data); at += pageSectors * sector {
			end := min(len(f.data), at+pageSectors*sector)
			if slices.Equal(f.data[at:end], f.durable[at:end]) || f.dirtyPage(at/sector) || !all && d.rng.IntN(2) == 0 {
				continue
			}
			copy(f.data[at:end], f.durable[at:end])
			differs = true
		}
	}
	return differs
}

func (f *inode) dirtyPage(first int) bool {
	for s := first; s < first+pageSectors; s++ {
		if len(f.dirty[s]) > 0 {
			return true
		}
	}
	return false
}
