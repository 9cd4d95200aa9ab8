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

// A mirror is a follower of a world's server: it writes every entry, and applies it a little
// later.
type mirror struct {
	w       *world
	disk    *fakedisk.Disk
	j       *commit.Journal
	cores   []*core.Core
	replays []*core.Replay
	behind  []Entry // not applied yet
	window  int     // bytes that may be written and not applied
	most    float64 // of its bound that the directory had
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

// take writes entries, which may replace others, and applies entries from before.
func (m *mirror) take(list []Entry) error {
	e := m.j.Entries()
	if err := e.Append(list, e.Last()); err != nil {
		return err
	}
	if err := e.Sync(); err != nil {
		return err
	}
	if m.window == 0 {
		defer func() { m.behind = list }()
	} else {
		m.behind = append(m.behind, list...)
	}
	for size := sizeOf(m.behind); len(m.behind) > 0 && (m.window == 0 || size > m.window); m.behind = m.behind[1:] {
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
	return m.measure()
}

func sizeOf(list []Entry) (n int) {
	for i := range list {
		n += len(list[i].Data)
	}
	return n
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
			m.settle()
			m.j.Entries().GiveUp(r.Floor)
		case r.Kind < record.KindState:
			if err := m.replays[m.w.partOf(r.Slot)].Apply(&r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *mirror) settle() {
	for _, p := range m.replays {
		p.Settle(m.w.now)
	}
}

// measure holds the directory against its bound.
func (m *mirror) measure() error {
	m.settle()
	live := int64(0)
	for i := range m.cores {
		live += m.j.Log(i).Buffer.Live
	}
	bound := 2*live + 3*m.w.opts.SegmentSize + 4*largest
	m.most = max(m.most, float64(m.disk.Size())/float64(bound))
	m.over = max(m.over, m.disk.Size()-bound)
	return nil
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

// TestFollowerKeepsTheBound: a follower's directory keeps the leader's bound, a segment more or
// less, whatever comes and goes. It gives up only what a Floor says, and its segments end elsewhere.
func TestFollowerKeepsTheBound(t *testing.T) {
	seeds(t, 6, func(seed uint64) error {
		w, m, first, err := followed(seed)
		if err != nil {
			return err
		}
		junk := []Entry{{Index: 1, Data: chunkOf(100_000)}}
		if err := m.take(junk); err != nil {
			return err
		}
		m.behind = nil
		w.sole.mirror = m.take
		if err := m.take(first); err != nil {
			return err
		}
		most := 0.0
		for range 600 {
			if err := w.step(); err != nil {
				return err
			}
			s := w.j.Stats()
			most = max(most, float64(s.Bytes)/float64(2*s.Live+3*w.opts.SegmentSize+4*largest))
		}
		if s := m.j.Stats(); s.Oldest < 3 {
			return fmt.Errorf("nothing was given up: %+v", s)
		}
		t.Logf("seed %d: the leader's directory takes %.2f of the bound at most, the follower's %.2f; %d live", seed, most, m.most, w.j.Stats().Live)
		if live := w.j.Stats().Live; m.most > 1+float64(w.opts.SegmentSize)/float64(2*live+3*w.opts.SegmentSize+4*largest) {
			return fmt.Errorf("the follower's directory takes %.2f of its bound", m.most)
		}
		w.closeCores()
		for _, c := range m.cores {
			c.Close()
		}
		return nil
	})
}

// TestFollowerThatCatchesUp: a follower writes what it lacks, and learns what it may give up when
// it applies that. So its directory exceeds its bound by no more than what is written and not
// applied.
func TestFollowerThatCatchesUp(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, window := range []int{1, SegmentMin, 4 * SegmentMin} {
		seeds(t, 3, func(seed uint64) error {
			w, m, lacks, err := followed(seed)
			if err != nil {
				return err
			}
			m.window = window
			w.sole.mirror = func(list []Entry) error {
				lacks = append(lacks, list...)
				return nil
			}
			for range 12 {
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
			if s := m.j.Stats(); s.Oldest < 3 {
				return fmt.Errorf("nothing was given up: %+v", s)
			}
			if m.over > int64(window) {
				return fmt.Errorf("the directory holds %d bytes more than its bound, where %d may not be applied", m.over, window)
			}
			w.closeCores()
			for _, c := range m.cores {
				c.Close()
			}
			return nil
		})
	}
}
