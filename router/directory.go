package router

import (
	"slices"
	"sync"
	"sync/atomic"

	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// directory lists the server's tubes in the order that list-tubes shows: as
// created, except that the last one takes a removed one's place. Clients have
// met that order, so it is kept (source: the reference's ms.c, ms_delete).
// Shards report what comes and goes; only that takes the lock.
type directory struct {
	mu    sync.Mutex
	names nameList
	at    map[string]int
	most  int // names that there were since at was made
	n     atomic.Int64
	// folded are the names with upper case letters by what they are without.
	folded map[string][]string
	acct   *account
	freed  *freedBodies
	odd    atomic.Int64 // names that only Gearman clients can say
}

func newDirectory() *directory { return &directory{at: make(map[string]int), freed: newFreedBodies()} }

// TubeAdded implements core.Directory.
func (d *directory) TubeAdded(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	odd := !beanstalk.ValidTubeName([]byte(name))
	if odd {
		d.odd.Add(1)
	}
	d.at[name] = d.names.n
	d.names.add(name)
	d.names.bytes += shownLen(name, odd)
	d.most = max(d.most, d.names.n)
	d.n.Store(int64(d.names.n))
	if f := gearman.FoldFunction(name); f != name {
		if d.folded == nil {
			d.folded = make(map[string][]string)
		}
		d.folded[f] = append(d.folded[f], name)
	}
}

// TubeRemoved implements core.Directory.
func (d *directory) TubeRemoved(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	odd := !beanstalk.ValidTubeName([]byte(name))
	if odd {
		d.odd.Add(-1)
	}
	i, n := d.at[name], d.names.n-1
	d.at[d.names.at(n)] = i
	d.names.remove(i)
	d.names.bytes -= shownLen(name, odd)
	delete(d.at, name)
	d.n.Store(int64(n))
	if f := gearman.FoldFunction(name); f != name {
		same := d.folded[f]
		same = slices.Delete(same, slices.Index(same, name), slices.Index(same, name)+1)
		if d.folded[f] = same; len(same) == 0 {
			delete(d.folded, f)
		}
	}
	d.shrink()
}

// find is the tube of that name, or else one whose name differs by the case of letters
// only: what drop function means by it.
func (d *directory) find(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := gearman.FoldFunction(name)
	if _, ok := d.at[name]; ok {
		return name
	} else if _, ok := d.at[f]; ok {
		return f
	} else if same := d.folded[f]; len(same) > 0 {
		return same[0]
	}
	return name
}

// shrink makes the maps anew when they hold a small part of what they once did: no map
// gives memory back by itself.
func (d *directory) shrink() {
	const part, least = 16, 1024
	n := d.names.n
	if d.most < least || n > d.most/part {
		return
	}
	d.most = n
	d.at = make(map[string]int, n) // maps.Clone's is as large as the old one
	for i := range n {
		d.at[d.names.at(i)] = i
	}
	if len(d.folded) == 0 {
		d.folded = nil
	}
}

// A shardDirectory is the directory as one shard knows it: it also ends ids.
type shardDirectory struct {
	*directory
	ended finisher // the shard's owner's
}

// JobFinished implements core.Finisher.
func (d *shardDirectory) JobFinished(id core.JobID) { d.ended.finish(id) }

// BodyFreed implements core.BodyHearer.
func (d *directory) BodyFreed(body core.Large) {
	n := 0
	for _, p := range body {
		d.acct.orphan(p)
		n += cap(p)
	}
	d.freed.add(n)
}

// list is the names as they are now, and whether some are those of functions that are
// no tube's.
func (d *directory) list() (names *nameList, odd bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names.snapshot(), d.odd.Load() > 0
}

// all is list as a slice.
func (d *directory) all() []string {
	l, _ := d.list()
	names := make([]string, l.n)
	for i := range names {
		names[i] = l.at(i)
	}
	return names
}

// size is the number of tubes.
func (d *directory) size() int { return int(d.n.Load()) }
