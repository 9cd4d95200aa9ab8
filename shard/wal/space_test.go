package wal_test

import (
	"fmt"
	"testing"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// TestFull fills a disk: changes are refused before the journal needs the
// space, deletes go on, and what they free is used again.
func TestFull(t *testing.T) {
	seeds(t, 2, func(seed uint64) error {
		d := fakedisk.New(seed)
		d.Limit = SegmentMin * int64(6+seed%5)
		d.Mute = seed%2 == 0
		w := newWorld(seed, d)
		w.weight = []int{100, 3000, 20000}[seed%3]
		w.fat = 0
		if _, err := w.open(true); err != nil {
			return err
		}
		full := 0
		for round := range 3 {
			// Puts only, until none is taken.
			refused := 0
			for n := 0; refused < 20; n++ {
				if n > 200000 {
					return fmt.Errorf("round %d: the disk is never full: %v", round, d)
				}
				for range 20 {
					if w.j.Pressure() == commit.Open {
						w.shards[w.rng.IntN(len(w.shards))].put()
					}
				}
				if err := w.commit(); err != nil {
					return fmt.Errorf("round %d, put %d: %w", round, w.id, err)
				}
				if err := w.tend(); err != nil {
					return fmt.Errorf("round %d, put %d: %w", round, w.id, err)
				}
				if p := w.j.Pressure(); p != commit.Open {
					refused++
					if p == commit.Full {
						full++
					}
				}
			}
			if w.j.Pressure() != commit.Full {
				return fmt.Errorf("round %d: pressure %d on a full disk", round, w.j.Pressure())
			}
			if !tight(w.j) {
				return fmt.Errorf("round %d: what nobody asked for is recorded on a full disk", round)
			}
			// Each delete on its own, which takes the most space.
			gone := w.jobs() * 4 / 5
			for range gone {
				p := w.shards[w.rng.IntN(len(w.shards))]
				p.delete()
				if err := w.commit(); err != nil {
					return fmt.Errorf("round %d, deleting: %w", round, err)
				}
				if w.rng.IntN(20) == 0 {
					if err := w.tend(); err != nil {
						return fmt.Errorf("round %d, deleting: %w", round, err)
					}
				}
			}
			if err := w.tend(); err != nil {
				return err
			}
			if p := w.j.Pressure(); p != commit.Open {
				return fmt.Errorf("round %d: pressure %d after most jobs were deleted: %+v, %v", round, p, w.j.Stats(), d)
			}
			if w.rng.IntN(2) == 0 {
				d.Cut()
				if _, err := w.open(true); err != nil {
					return err
				}
			}
		}
		// More space comes from outside.
		for w.j.Pressure() != commit.Full {
			w.shards[0].put()
			if err := w.commit(); err != nil {
				return err
			}
			if err := w.tend(); err != nil {
				return err
			}
		}
		d.Limit *= 2
		w.now += 60 * core.Second // at most until somebody looks whether it is so
		if err := w.tend(); err != nil {
			return err
		}
		if p := w.j.Pressure(); p != commit.Open {
			return fmt.Errorf("pressure %d with space again", p)
		}
		d.Cut()
		_, err := w.open(true)
		w.closeCores()
		return err
	})
}

// tight reports what j's first log tells its shard to leave out.
func tight(j *commit.Journal) bool {
	l := j.Log(0)
	l.Begin()
	defer l.End()
	return l.Buffer.Tight
}

func (w *world) jobs() (n int) {
	for _, p := range w.shards {
		n += len(p.all)
	}
	return n
}

// TestChurn: few jobs live, much happens to them; the directory keeps its
// bound, which tend looks at, and compaction comes to an end.
func TestChurn(t *testing.T) {
	for name, churn := range map[string]func(p *part){
		"releases": func(p *part) {
			r := p.apply(&core.Op{Kind: core.OpReserve, Client: p.client, Bound: core.MaxKey})
			if r.Status == core.StatusReserved {
				p.apply(&core.Op{Kind: core.OpRelease, Client: p.client, ID: r.ID, Delay: 1})
			}
		},
		"pauses": func(p *part) {
			for _, name := range p.names {
				p.apply(&core.Op{Kind: core.OpPause, Name: []byte(name), Delay: 1000000})
			}
		},
		"puts and deletes": func(p *part) {
			p.put()
			for p.w.jobs() > 300 {
				p.delete()
			}
		},
		"kicks": func(p *part) {
			r := p.apply(&core.Op{Kind: core.OpReserve, Client: p.client, Bound: core.MaxKey})
			if r.Status == core.StatusReserved {
				p.apply(&core.Op{Kind: core.OpBury, Client: p.client, ID: r.ID})
				p.apply(&core.Op{Kind: core.OpKickJob, ID: r.ID})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, fakedisk.New(1))
			w.weight, w.fat = 500, 40
			must(t, second(w.open(true)))
			for range 300 {
				w.shards[w.rng.IntN(len(w.shards))].put()
			}
			for range 300 {
				for range 60 {
					w.now += core.Second / 10
					churn(w.shards[w.rng.IntN(len(w.shards))])
				}
				must(t, w.commit())
				must(t, w.tend())
			}
			if s := w.j.Stats(); s.Oldest < 3 {
				t.Fatalf("nothing was ever given up: %+v", s)
			}
			w.fake.Cut()
			must(t, second(w.open(true)))
			w.closeCores()
		})
	}
}

// TestManyPauses: pauses that take more than a segment are no jobs, and yet
// live; compaction gives up trying.
func TestManyPauses(t *testing.T) {
	w := newWorld(1, fakedisk.New(1))
	must(t, second(w.open(true)))
	for i := range 20000 {
		name := fmt.Appendf(nil, "a tube with a number of its own, which is %d", i)
		p := w.shards[w.partOf(core.SlotOf(name))]
		r := p.apply(&core.Op{Kind: core.OpWatch, Client: p.client, Name: name})
		p.client = r.Client
		p.apply(&core.Op{Kind: core.OpPause, Name: name, Delay: 1 << 30})
		if i%50 == 0 {
			must(t, w.j.Commit())
			must(t, w.j.Tend())
		}
	}
	must(t, w.j.Commit())
	w.acked(w.j.Acked())
	before := w.j.Stats().Batches
	for range 20 {
		must(t, w.j.Tend())
	}
	if n := w.j.Stats().Batches - before; n > 300 {
		t.Errorf("%d batches were written for nothing", n)
	}
	w.fake.Cut()
	w.closeCores()
	w.shards = nil // it knows other tubes only
	must(t, second(w.open(true)))
	for i := range 20000 {
		name := fmt.Appendf(nil, "a tube with a number of its own, which is %d", i)
		var s core.TubeStats
		w.shards[w.partOf(core.SlotOf(name))].apply(&core.Op{Kind: core.OpStatsTube, Name: name, Figures: core.Figures{TubeStats: &s}})
		if s.Pause != 1<<30*core.Second {
			t.Fatalf("%s is paused for %d", name, s.Pause)
		}
	}
	w.closeCores()
}

// TestHighID: ids do not start again when all jobs are gone, whenever the
// machine stops and whatever is given up.
func TestHighID(t *testing.T) {
	seeds(t, 12, func(seed uint64) error {
		w := newWorld(seed, fakedisk.New(seed))
		w.weight, w.fat = 6000, 0
		for range 6 {
			if _, err := w.open(true); err != nil {
				return err
			}
			steps := w.rng.IntN(90)
			for n := 0; n < steps; n++ {
				p := w.shards[w.rng.IntN(len(w.shards))]
				p.put()
				for len(p.all) > 0 {
					p.delete()
				}
				if err := w.commit(); w.fake.Dead {
					break
				} else if err != nil {
					return err
				}
				// The last that happens is often that a segment is begun or
				// given up.
				if n == steps-1 && w.rng.IntN(2) == 0 {
					w.fake.CrashAt = w.fake.Ops + 1 + w.rng.IntN(12)
				}
				if err := w.tend(); err != nil && !w.fake.Dead {
					return err
				}
				if w.fake.CrashAt > 0 && !w.fake.Dead {
					n--
					if w.fake.Ops > w.fake.CrashAt {
						break
					}
				}
				if w.fake.Dead {
					break
				}
			}
			w.fake.Cut()
			w.fake.CrashAt = 0
		}
		_, err := w.open(true)
		w.closeCores()
		return err
	})
}

// TestHighIDOfFirstBatch: when the first write to a new segment is torn, the
// one that takes its place says the highest id too, and may outlive the rest.
func TestHighIDOfFirstBatch(t *testing.T) {
	seeds(t, 30, func(seed uint64) error {
		d := fakedisk.New(seed)
		w := newWorld(seed, d)
		w.weight, w.fat = 6000, 0
		if _, err := w.open(true); err != nil {
			return err
		}
		d.Before = func(op, name string) error {
			if op == "write" && w.j != nil {
				n, _ := w.j.End()
				if n == 2 && d.CrashAt == 0 {
					d.CrashAt = d.Ops + 1
				}
			}
			return nil
		}
		for !d.Dead {
			p := w.shards[0]
			p.put()
			p.delete()
			if err := w.commit(); err != nil && !d.Dead {
				return err
			}
			if err := w.tend(); err != nil && !d.Dead {
				return err
			}
		}
		d.Before, d.CrashAt = nil, 0
		for range 3 { // nobody puts
			d.Cut()
			if _, err := w.open(true); err != nil {
				return err
			}
			for _, p := range w.shards {
				for len(p.all) > 0 {
					p.delete()
				}
			}
			if err := w.commit(); err != nil {
				return err
			}
			if err := w.tend(); err != nil {
				return err
			}
		}
		w.closeCores()
		return nil
	})
}

// TestPendingUntilWritten: what the committer has taken counts until it is in a segment.
// Else a committer that waits for one would look like room.
func TestPendingUntilWritten(t *testing.T) {
	d := fakedisk.New(1)
	w := newWorld(1, d)
	must(t, second(w.open(true)))
	w.weight, w.fat = 1000, 0
	for w.j.Pending() < SegmentMin/16 {
		w.shards[0].put()
	}
	was, writes := w.j.Pending(), 0
	d.Before = func(op, name string) error {
		if op == "write" {
			if writes++; writes == 1 && w.j.Pending() != was {
				t.Errorf("%d bytes are pending at the first write, %d were before", w.j.Pending(), was)
			}
		}
		return nil
	}
	must(t, w.commit())
	if writes == 0 || w.j.Pending() != 0 {
		t.Errorf("after %d writes %d bytes are pending", writes, w.j.Pending())
	}
	w.closeCores()
}
