package fakedisk

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Flaky says how often a disk fails to write back. It then does what Linux does: the pages count as
// clean. So what was written is read, for as long as it stays in memory, and no sync writes it
// again. Each open descriptor reports the error once, or else the next one that is opened.
type Flaky struct {
	Syncs int // one sync in this many fails; zero: none
	Idle  int // before one operation in this many the kernel writes back by itself
	Backs int // one of this many write-backs fails; zero: none
	Dirs  int // one sync of the directory in this many fails; zero: none
}

// oneIn reports whether the operation must fail this time.
func (d *Disk) oneIn(n int) bool {
	if n == 0 || d.rng.IntN(n) > 0 {
		return false
	}
	d.Failures++
	return true
}

// lose fails to write back all dirty sectors, or some of them. A sector gets onto the
// disk in any of the versions it has had, or not at all.
func (f *Inode) lose(rng *rand.Rand) {
	f.grow()
	all := rng.IntN(3) > 0 // nothing gets there
	for _, s := range slices.Sorted(maps.Keys(f.dirty)) {
		v := f.dirty[s]
		if k := rng.IntN(len(v) + 1); k > 0 && !all {
			copy(f.Durable[s*Sector:], v[k-1])
		}
	}
	f.dirty = nil
	f.errs++
	f.seen = false
}

// writeBack does the write-backs that the kernel starts by itself; d is locked.
func (d *Disk) writeBack() {
	idle := d.Flaky.Idle
	if idle == 0 || d.rng.IntN(idle) > 0 || len(d.Entries) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(d.Entries))
	f := d.Entries[names[d.rng.IntN(len(names))]]
	switch {
	case len(f.dirty) == 0:
	case d.oneIn(d.Flaky.Backs):
		f.lose(d.rng)
	default:
		f.Flush()
	}
}

// pageSectors is how many sectors leave memory at once.
const pageSectors = 8

// Evict takes clean pages out of memory, some or all: what is read is what is on
// the disk. It reports whether that makes a difference.
func (d *Disk) Evict() (differs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.rng.IntN(2) == 0
	for _, name := range slices.Sorted(maps.Keys(d.Entries)) {
		f := d.Entries[name]
		f.grow()
		for at := 0; at < len(f.Data); at += pageSectors * Sector {
			end := min(len(f.Data), at+pageSectors*Sector)
			if slices.Equal(f.Data[at:end], f.Durable[at:end]) || f.dirtyPage(at/Sector) || !all && d.rng.IntN(2) == 0 {
				continue
			}
			copy(f.Data[at:end], f.Durable[at:end])
			differs = true
		}
	}
	return differs
}

func (f *Inode) dirtyPage(first int) bool {
	for s := first; s < first+pageSectors; s++ {
		if len(f.dirty[s]) > 0 {
			return true
		}
	}
	return false
}
