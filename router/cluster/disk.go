package cluster

import (
	"sync/atomic"
	"time"
)

// A disk does a Machine's Appends on one goroutine. An error ends the node. Unsynced data may then
// be on the disk or not, but no message that depends on it was sent.
type disk struct {
	log   Log
	state *State
	dirty bool          // something was appended and not synced
	syncs atomic.Uint64 // begins and ends of syncs: odd during a sync
}

// A diskWatch measures how long the current sync has taken. One goroutine uses it.
type diskWatch struct {
	sync   uint64        // disk.syncs during the measured sync
	looked time.Duration // time of the last look
	took   time.Duration
}

// look returns how long the current sync has taken; zero: there is none. The caller calls it once a
// tick. A longer time between two calls counts as two ticks: the whole process may have been
// stopped, which is not the disk's fault.
func (w *diskWatch) look(d *disk, now, tick time.Duration) time.Duration {
	passed := min(now-w.looked, 2*tick)
	w.looked = now
	switch n := d.syncs.Load(); {
	case n%2 == 0:
		w.took = 0
	case n != w.sync:
		w.sync, w.took = n, 0
	default:
		w.took += passed
	}
	return w.took
}

// do does a list of Appends with one sync, and returns the messages that may be sent then. The vote
// and the entries may reach the disk in any order: no message is sent in between.
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
		return nil, nil // a later sync includes the entries
	}
	d.syncs.Add(1)
	defer d.syncs.Add(1)
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
