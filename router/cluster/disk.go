package cluster

import (
	"sync/atomic"
	"time"
)

// A disk does the Appends of a Machine: one goroutine uses it. An error ends the node: what
// was not synced may be there or not, and nothing of it was told.
type disk struct {
	log   Log
	state *State
	dirty bool // something was appended and not synced
	// flushing is since when it syncs, by a clock that only goes forward: somebody who sets the
	// machine's must not make it seem to hang. Zero: it does not. Anyone may look.
	flushing atomic.Int64
}

// loaded is where the clock of disks is zero.
var loaded = time.Now()

// hangs is for how long it has synced at this moment; zero: it does not. Anyone may call it.
func (d *disk) hangs() time.Duration {
	since := d.flushing.Load()
	if since == 0 {
		return 0
	}
	return time.Since(loaded) - time.Duration(since)
}

// do does a list of Appends with one sync, and gives what may be told then. That a vote is
// on the disk before what follows it, or behind, is all the same: nothing leaves in between.
func (d *disk) do(list []*Append) (after []Message, err error) {
	var vote *Vote
	for _, a := range list {
		if a.Vote != nil {
			vote = a.Vote
		}
		for len(a.Entries) > 0 { // one by one: on a full disk the rest is written later
			d.dirty = true
			if err := d.log.Append(a.Entries[:1], a.Commit); err != nil {
				return nil, err
			}
			a.Entries = a.Entries[1:]
		}
		after = append(after, a.After...)
	}
	if len(after) == 0 && vote == nil {
		return nil, nil // what was appended is synced with the next that somebody waits for
	}
	d.flushing.Store(int64(time.Since(loaded)))
	defer d.flushing.Store(0)
	if vote != nil {
		if err := d.state.SaveVote(*vote); err != nil {
			return nil, err
		}
	}
	if d.dirty {
		if err := d.log.Sync(); err != nil {
			return nil, err
		}
		d.dirty = false
	}
	return after, nil
}
