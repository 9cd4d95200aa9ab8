package wal_test

import (
	"errors"
	"fmt"
	"testing"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// TestFullDisk fills a disk again and again with small jobs and large bodies. Changes are refused
// before the journal needs the space. Every delete finds room, whatever compaction has to copy.
// Puts are taken again once all is deleted, or space comes from outside.
func TestFullDisk(t *testing.T) {
	seeds(t, 8, func(seed uint64) error {
		d := fakedisk.New(seed)
		d.Limit, d.Mute = SegmentMin*int64(6+seed*7%20), seed%2 == 0
		w := newWorld(seed, d)
		w.weight, w.fat = []int{20000, 3000, 300}[seed%3], 0
		if _, err := w.open(true); err != nil {
			return err
		}
		step := func(doing string) error {
			err := w.commit()
			if err == nil && w.rng.IntN(3) == 0 {
				err = w.j.Tend()
			}
			if err != nil {
				return fmt.Errorf("%s: %w; %+v, %v", doing, err, w.j.Stats(), d)
			}
			return nil
		}
		fill := func() error {
			for refused := 0; refused < 10; {
				p := w.shards[w.rng.IntN(len(w.shards))]
				if w.rng.IntN(30) == 0 {
					size := 70_000 + w.rng.IntN(6*SegmentMin)
					var c commit.Claim
					if w.claimed(&c, int64(size)+256) == commit.Open {
						p.large(size)
					}
					w.j.Release(&c)
				}
				for range 10 {
					if w.j.Pressure() == commit.Open {
						p.put()
					}
				}
				if err := step("filling"); err != nil {
					return err
				}
				if err := w.j.Tend(); err != nil {
					return err
				}
				if w.j.Pressure() == commit.Full {
					refused++
				}
			}
			if !tight(w.j) {
				return errors.New("records that no command needs are kept on a full disk")
			}
			return nil
		}
		empty := func(left int) error { // each delete in a commit of its own takes the most space
			for w.jobs() > left {
				w.shards[w.rng.IntN(len(w.shards))].delete()
				if err := step("deleting"); err != nil {
					return err
				}
			}
			return w.j.Tend()
		}
		for range 3 {
			if err := fill(); err != nil {
				return err
			}
			if err := empty(w.jobs() * w.rng.IntN(3) / 3); err != nil {
				return err
			}
			if w.rng.IntN(2) == 0 {
				d.Cut()
				if _, err := w.open(true); err != nil {
					return err
				}
			}
		}
		if err := fill(); err != nil {
			return err
		}
		d.Limit += 3 * SegmentMin
		w.now += 60 * core.Second // a limit that the disk does not show is tried again
		if err := w.j.Tend(); err != nil || w.j.Pressure() != commit.Open {
			return fmt.Errorf("pressure %d with more space from outside: %v", w.j.Pressure(), err)
		}
		if err := fill(); err != nil {
			return err
		}
		if err := empty(0); err != nil {
			return err
		}
		if p := w.j.Pressure(); p != commit.Open || w.j.Stats().Promised != 0 {
			return fmt.Errorf("pressure %d with no job left: %+v, %v", p, w.j.Stats(), d)
		}
		w.closeCores()
		return nil
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
			rounds := 300
			if testing.Short() && name != "releases" { // which take little space
				rounds = 100
			}
			for range rounds {
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

// TestManyPauses: pauses that take more than a segment are no jobs, and yet live. Compaction gives
// up trying.
func TestManyPauses(t *testing.T) {
	w := newWorld(1, fakedisk.New(1))
	must(t, second(w.open(true)))
	for i := range 8000 {
		name := fmt.Appendf(nil, "a tube with a number of its own, which is %d", i)
		p := w.shards[w.partOf(core.SlotOf(name))]
		p.client = p.apply(&core.Op{Kind: core.OpWatch, Client: p.client, Name: name}).Client
		p.apply(&core.Op{Kind: core.OpPause, Name: name, Delay: 1 << 30})
		if i%50 == 49 {
			must(t, w.j.Commit())
			must(t, w.j.Tend())
		}
	}
	before := w.j.Stats().Batches
	for range 20 {
		must(t, w.j.Tend())
	}
	if n := w.j.Stats().Batches - before; n > 300 {
		t.Errorf("%d batches were written for nothing", n)
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
				// The last that happens is often that a segment is begun or given up.
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
