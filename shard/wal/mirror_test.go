package wal_test

import (
	"fmt"
	"math"
	"testing"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A mirror is a follower of a world's server: it writes every entry, and applies it a little later.
type mirror struct {
	w       *world
	disk    *fakedisk.Disk
	j       *commit.Journal
	cores   []*core.Core
	replays []*core.Replay
	behind  []Entry // not applied yet
	window  int     // bytes that may be written and not applied
	over    int64   // the most bytes that it had beyond its bound
}

func newMirror(w *world) (*mirror, error) {
	m := &mirror{w: w, over: math.MinInt64, disk: fakedisk.New(2)}
	o := w.opts
	o.Disk, o.Proposer, o.Shards, o.Node = m.disk, mute{}, len(w.shards), 8
	m.j = commit.New(o)
	if err := m.j.Open(); err != nil {
		return nil, err
	}
	for i := range w.shards {
		c := core.New(nil)
		c.RecordTo(&m.j.Log(i).Buffer)
		p := c.Replay()
		p.Settle(w.now)
		m.cores, m.replays = append(m.cores, c), append(m.replays, p)
	}
	return m, nil
}

// take writes entries, which may replace others, and applies entries from before, until no more
// than window bytes are left.
func (m *mirror) take(list []Entry) error {
	e := m.j.Entries()
	if err := e.Append(list, e.Last()); err != nil {
		return err
	}
	if err := e.Sync(); err != nil {
		return err
	}
	m.behind = append(m.behind, list...)
	size := 0
	for i := range m.behind {
		size += len(m.behind[i].Data)
	}
	for ; size > m.window; m.behind = m.behind[1:] {
		if err := m.apply(&m.behind[0]); err != nil {
			return err
		}
		size -= len(m.behind[0].Data)
	}
	for m.j.Untended() {
		if err := m.j.Tend(); err != nil {
			return err
		}
	}
	m.measure()
	return nil
}

// apply applies an entry.
func (m *mirror) apply(x *Entry) error {
	for data := x.Data; len(data) > 0; {
		var r record.Record
		n, err := record.Parse(&r, data)
		if err != nil {
			return err
		}
		data = data[n:]
		r.Commit = x.Index
		switch {
		case r.Kind == record.KindFloor:
			m.measure()
			m.j.Entries().GiveUp(r.Floor)
		case r.Kind.HasSlot():
			if err := m.replays[m.w.partOf(r.Slot)].Apply(&r); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure compares the directory with its bound.
func (m *mirror) measure() {
	live := int64(0)
	for i, p := range m.replays {
		p.Settle(m.w.now)
		live += m.j.Log(i).Buffer.Live
	}
	m.over = max(m.over, m.disk.Size()-(2*live+3*m.w.opts.SegmentSize+4*largest))
}

// followed returns the world of a server that is one of several, a follower, and the entries that
// the follower lacks.
func followed(seed uint64) (w *world, m *mirror, lacks []Entry, err error) {
	w = newWorld(seed, fakedisk.New(seed))
	w.parts, w.fat = 2, 0
	w.weight = []int{200, 1000, 3000}[seed%3]
	e := newSole(w)
	if _, err = w.open(true); err != nil {
		return nil, nil, nil, err
	}
	if m, err = newMirror(w); err != nil {
		return nil, nil, nil, err
	}
	lacks, err = e.entries().Read(1, e.entries().Last()+1, 1<<30)
	return w, m, lacks, err
}

// TestFollowerKeepsTheBound: a follower that catches up again and again gives up only what Floors
// say that it applies. So its directory exceeds the leader's bound by no more than what is written
// and not applied, though its segments end elsewhere.
func TestFollowerKeepsTheBound(t *testing.T) {
	for _, window := range []int{1, SegmentMin, 4 * SegmentMin} {
		seeds(t, 3, func(seed uint64) error {
			w, m, lacks, err := followed(seed)
			if err != nil {
				return err
			}
			m.window = window
			if err := m.j.Entries().Append([]Entry{{Index: 1, Data: chunkOf(100_000)}}, 0); err != nil {
				return err // it is replaced
			}
			w.sole.mirror = func(list []Entry) error {
				lacks = append(lacks, list...)
				return nil
			}
			rounds := 12
			if testing.Short() {
				rounds = 4
			}
			for range rounds {
				for range 150 {
					if err := w.step(); err != nil {
						return err
					}
				}
				for ; len(lacks) > 0; lacks = lacks[1:] {
					if err := m.take(lacks[:1]); err != nil {
						return err
					}
				}
			}
			if s := m.j.Stats(); s.Oldest < 3 || m.over > int64(window) {
				return fmt.Errorf("the directory holds %d bytes more than its bound, where %d may not be applied: %+v", m.over, window, s)
			}
			w.closeCores()
			for _, c := range m.cores {
				c.Close()
			}
			return nil
		})
	}
}
