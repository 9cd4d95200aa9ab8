package wal_test

import (
	"errors"
	"fmt"
	"testing"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A sole is the consensus of a server that is one of several, and has no others: what it has
// synced is committed. It is a commit.Proposer for a world.
type sole struct {
	w     *world
	term  uint64
	queue []Entry
	ended uint64 // the last commit that has ended
	lag   int    // it goes on by itself at one End in lag; zero: at each
	early bool   // others have committed what is not written here yet

	mirror func([]Entry) error // a follower, or nil
}

// newSole makes a world's server one of several.
func newSole(w *world) *sole {
	c := &sole{w: w}
	w.sole, w.opts.Proposer, w.opts.Node = c, c, 7
	w.opts.First = 0
	w.aside = c.begin
	return c
}

func (c *sole) entries() *Entries { return c.w.j.Entries() }

// uncommitted applies the entries of a log that are not known to be committed.
func uncommitted(e *Entries, replays []*core.Replay, partOf func(slot uint16) int) error {
	for i := e.Committed() + 1; i <= e.Last(); i++ {
		list, err := e.Read(i, i+1, 0)
		if err != nil {
			return err
		}
		x := list[0]
		for data := x.Data; len(data) > 0 && x.Kind == record.Normal; {
			var r record.Record
			n, err := record.Parse(&r, data)
			if err != nil {
				return err
			}
			data = data[n:]
			r.Commit = i
			switch {
			case r.Kind == record.KindFloor:
				e.GiveUp(r.Floor)
			case r.Kind == record.KindEpoch:
				for _, p := range replays {
					p.Gap()
				}
			case r.Kind.HasSlot():
				if err := replays[partOf(r.Slot)].Apply(&r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// begin writes the first entry of a term, which is empty.
func (c *sole) begin() error {
	c.queue, c.ended = nil, 0
	c.term++
	e := c.entries()
	if last := e.Last(); last > 0 {
		term, err := e.Term(last)
		if err != nil {
			return err
		}
		c.term = term + 1
		if err := c.outvoted(last, term); err != nil {
			return err
		}
	}
	if err := e.Append([]Entry{{Index: e.Last() + 1, Term: c.term}}, e.Last()); err != nil {
		return err
	}
	return e.Sync()
}

// outvoted writes some entries that the next term replaces: so there are more batches than entries.
func (c *sole) outvoted(last, term uint64) error {
	var list []Entry
	for range c.w.rng.IntN(4) {
		last++
		// The machine may stop before it is replaced, so it is of no job there is.
		body := make([]byte, c.w.rng.IntN(50_000))
		list = append(list, Entry{Index: last, Term: term, Data: append(record.AppendChunkHead(nil, 0, 1<<50, len(body)), body...)})
	}
	e := c.entries()
	committed := e.Last()
	if err := e.Append(list, committed); err != nil {
		return err
	}
	if len(list) == 0 {
		return nil
	}
	return e.Append([]Entry{{Index: committed + 1, Term: c.term}}, committed)
}

func (c *sole) Propose(data []byte, n uint64) error {
	if len(data) > EntryMax {
		return fmt.Errorf("%w: an entry of %d bytes", errBroken, len(data))
	}
	c.queue = append(c.queue, Entry{Index: c.entries().Last() + uint64(len(c.queue)) + 1, Term: c.term, Data: data})
	return nil
}

func (c *sole) End(n uint64) error {
	if c.ended = n; c.early {
		return c.w.j.Committed(n)
	}
	if c.lag > 0 && c.w.rng.IntN(c.lag) > 0 {
		return nil
	}
	return c.goOn()
}

func (c *sole) Wanted() bool { return false }

// goOn writes what was proposed, and says that it is committed.
func (c *sole) goOn() error {
	if len(c.queue) > 0 {
		e := c.entries()
		if err := e.Append(c.queue, e.Last()); err != nil {
			return err
		}
		if err := e.Sync(); err != nil {
			return err
		}
		if c.mirror != nil {
			if err := c.mirror(c.queue); err != nil {
				return err
			}
		}
		c.queue = nil
	}
	return c.w.j.Committed(c.ended)
}

// maybeGoOn is goOn now and then, unless a commit has failed.
func (c *sole) maybeGoOn(err error) error {
	if err == nil && c.w.rng.IntN(3) == 0 {
		err = c.goOn()
		c.w.note()
	}
	return err
}

// TestOneOfSeveralMayLag: the same if what was proposed comes back later, several commits at
// once. What is under way counts as pending until it is written, to the byte: when nothing is,
// nothing is pending.
func TestOneOfSeveralMayLag(t *testing.T) {
	seeds(t, 8, func(seed uint64) error {
		w := newWorld(seed, fakedisk.New(seed))
		newSole(w).lag = 4
		w.weight = []int{100, 1000, 4000}[w.rng.IntN(3)]
		w.fat = 0
		for life := range 4 {
			w.disk.(*fakedisk.Disk).Ops = 0
			_, err := w.open(true)
			for step := 0; err == nil && step < 100; step++ {
				w.now += core.Time(w.rng.IntN(5000)) * core.Second / 1000
				for range 1 + w.rng.IntN(20) {
					w.shards[w.rng.IntN(len(w.shards))].act()
				}
				pending := w.j.Pending()
				if err = w.commit(); err == nil && len(w.sole.queue) > 0 && w.j.Pending() <= 0 {
					err = fmt.Errorf("%w: %d entries are under way, and nothing is pending (before %d)", errBroken, len(w.sole.queue), pending)
				}
				if err == nil && w.rng.IntN(4) == 0 {
					if err = w.sole.goOn(); err == nil && w.idle() && w.j.Pending() != 0 {
						err = fmt.Errorf("%w: nothing is under way, and %d bytes are pending", errBroken, w.j.Pending())
					}
					w.note()
				}
				if err == nil && w.rng.IntN(2) == 0 {
					err = w.j.Tend()
				}
			}
			if err != nil && (!w.fake.Dead || errors.Is(err, errBroken)) {
				return fmt.Errorf("life %d: %w", life, err)
			}
			w.reboot()
			w.fake.CrashAt = w.fake.Ops/2 + w.rng.IntN(1+w.fake.Ops)
		}
		w.closeCores()
		return nil
	})
}

// TestLeaderKeepsWhatItHasNotItself: a Floor that others have committed gives up nothing here
// before it is written, and durable, with the copies before it. A lower Floor that follows, and
// says which files were taken over, takes nothing back.
func TestLeaderKeepsWhatItHasNotItself(t *testing.T) {
	for _, lower := range []bool{false, true} {
		w := newWorld(1, fakedisk.New(1))
		w.parts, w.fat, w.weight = 1, 0, 50_000
		c := newSole(w)
		must(t, second(w.open(true)))
		must(t, w.garbage(8))
		oldest := w.j.Stats().Oldest
		expect := func(what string, given bool) {
			t.Helper()
			for range 8 {
				must(t, w.j.Tend())
				if w.j.Requested() {
					must(t, w.j.Commit())
				}
			}
			if s := w.j.Stats(); s.Oldest != oldest != given {
				t.Fatalf("%s: segments from %d on are there, before %d; %d entries are not written", what, s.Oldest, oldest, len(c.queue))
			}
		}
		c.early = true
		expect("committed by others", false)
		if lower {
			must(t, w.j.SetImported(1))
			c.early = false
			must(t, c.goOn())
		} else {
			must(t, c.entries().Append(c.queue, 1))
			c.queue = nil
			expect("written", false)
			must(t, c.entries().Sync())
		}
		expect("durable", true)
		w.closeCores()
	}
}

// TestFullElsewhere: while the others have no room a leader refuses what takes space, also what
// waits for some, as if its own disk was full; deletes go on, old segments are given up, and it
// takes changes again once they have room.
func TestFullElsewhere(t *testing.T) {
	w := newWorld(1, fakedisk.New(1))
	w.parts, w.fat, w.weight = 1, 0, 20_000
	newSole(w)
	must(t, second(w.open(true)))
	p := w.shards[0]
	for range 60 {
		p.put()
		must(t, w.commit())
		must(t, w.tend())
	}
	if w.j.SetRoomElsewhere(SegmentMin/2) != true || w.j.Pressure() != commit.Full {
		t.Fatalf("the pressure is %d", w.j.Pressure())
	}
	var room commit.Claim
	if got := w.j.Claim(&room, 100_000); got != commit.Full || room != (commit.Claim{}) {
		t.Errorf("a claim is answered with %d, and has %+v", got, room)
	}
	if got := w.j.Fits(&room, 100_000); got != commit.Full {
		t.Errorf("whether a body fits is answered with %d", got)
	}
	oldest := w.j.Stats().Oldest
	for len(p.all) > 0 {
		p.remove(0)
		must(t, w.commit())
		must(t, w.tend())
	}
	if s := w.j.Stats(); s.Live != 0 || s.Oldest <= oldest {
		t.Errorf("%d bytes live, and segments from %d on are there, before %d", s.Live, s.Oldest, oldest)
	}
	if w.j.SetRoomElsewhere(100*SegmentMin) || w.j.Pressure() != commit.Open {
		t.Errorf("the pressure is %d once there is room", w.j.Pressure())
	}
	if got := w.j.Claim(&room, 1000); got != commit.Open {
		t.Errorf("then a claim is answered with %d", got)
	}
	w.j.Release(&room)
	if own := w.j.Room(); own < SegmentMin {
		t.Errorf("it has room for %d bytes itself", own)
	}
	w.closeCores()
}
