package router

import (
	"slices"
	"sync"
	"sync/atomic"

	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/shard"
)

// directory lists the server's tubes in the order that list-tubes shows: as
// created, except that the last one takes a removed one's place. Clients have
// met that order, so it is kept (source: the reference's ms.c, ms_delete).
// Shards report what comes and goes; only that takes the lock.
type directory struct {
	mu    sync.Mutex
	names []string
	at    map[string]int
	most  int // names that there were since at was made
	n     atomic.Int64
	acct  *account
	freed *freedBodies
	odd   atomic.Int64 // names that only Gearman clients can say
}

func newDirectory() *directory { return &directory{at: make(map[string]int), freed: newFreedBodies()} }

// TubeAdded implements shard.Directory.
func (d *directory) TubeAdded(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !beanstalk.ValidTubeName([]byte(name)) {
		d.odd.Add(1)
	}
	d.at[name] = len(d.names)
	d.names = append(d.names, name)
	d.most = max(d.most, len(d.names))
	d.n.Store(int64(len(d.names)))
}

// TubeRemoved implements shard.Directory.
func (d *directory) TubeRemoved(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !beanstalk.ValidTubeName([]byte(name)) {
		d.odd.Add(-1)
	}
	i, n := d.at[name], len(d.names)-1
	d.names[i] = d.names[n]
	d.at[d.names[i]] = i
	delete(d.at, name)
	d.names[n] = ""
	d.names = d.names[:n]
	d.n.Store(int64(n))
	d.shrink()
}

// shrink makes list and map anew when they hold a small part of what they once did:
// neither gives memory back by itself.
func (d *directory) shrink() {
	const part, least = 16, 1024
	n := len(d.names)
	if d.most < least || n > d.most/part {
		return
	}
	d.most = n
	d.names = slices.Clone(d.names)
	d.at = make(map[string]int, n) // maps.Clone's is as large as the old one
	for i, name := range d.names {
		d.at[name] = i
	}
}

// A shardDirectory is the directory as one shard knows it: it also ends ids.
type shardDirectory struct {
	*directory
	ended finisher // the shard's owner's
}

// JobFinished implements shard.Finisher.
func (d *shardDirectory) JobFinished(id shard.JobID) { d.ended.finish(id) }

// BodyFreed implements shard.BodyHearer.
func (d *directory) BodyFreed(body shard.Large) {
	n := 0
	for _, p := range body {
		d.acct.orphan(p)
		n += cap(p)
	}
	d.freed.add(n)
}

// shown is list with the names that are no tube's in double quotes.
func (d *directory) shown() []string {
	names := d.list()
	if d.odd.Load() > 0 {
		for i, name := range names {
			names[i] = string(gearman.AppendQuoted(nil, []byte(name)))
		}
	}
	return names
}

// list is a copy of the names.
func (d *directory) list() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.names...)
}

// size is the number of tubes.
func (d *directory) size() int { return int(d.n.Load()) }
