package wal_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"testing"

	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

var (
	seedFlag = flag.Uint64("seed", 0, "play only this seed")
	runsFlag = flag.Int("runs", 0, "how many seeds to play; zero: a few seconds' worth")
	fromFlag = flag.Uint64("from", 1, "the first of them")
)

// seeds calls play for the seeds that the flags name, else for the first few. Short tests play
// an eighth of them.
func seeds(t *testing.T, few int, play func(seed uint64) error) {
	first, last := uint64(1), uint64(few)
	if testing.Short() {
		last = uint64(few+7) / 8
	}
	if *runsFlag > 0 {
		first, last = *fromFlag, *fromFlag+uint64(*runsFlag)-1
	}
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		if err := play(seed); err != nil {
			t.Fatalf("seed %d: %v\nrerun: go test ./shard/wal -run '^%s$' -seed=%d", seed, err, t.Name(), seed)
		}
	}
}

// life runs a world until the disk stops or steps are over. It reports whether
// the machine has stopped.
func (w *world) life(steps int) (stopped bool, err error) {
	for range steps {
		err = w.step()
		if err != nil {
			break
		}
	}
	if w.fake.Dead {
		if err != nil && errors.Is(err, errBroken) {
			return true, err
		}
		return true, nil
	}
	return false, err
}

// reboot ends the process, or the machine with it.
func (w *world) reboot() (cut bool) {
	if cut = w.rng.IntN(3) > 0; cut {
		w.fake.Cut()
	} else {
		w.fake.Kill()
	}
	return cut
}

// lives plays generations of one world, each of which ends in a crash at a
// random operation, the first one at operation at; zero: at none.
func lives(w *world, at, generations, steps int) error {
	d := w.fake
	d.CrashAt = at
	first := true
	strict := true
	for g := 0; g <= generations; {
		d.Ops = 0
		_, err := w.open(strict)
		if err != nil && !d.Dead {
			return fmt.Errorf("generation %d: %w", g, err)
		}
		stopped, started := d.Dead, err == nil
		if started {
			stopped, err = w.life(steps)
			if err != nil {
				return fmt.Errorf("generation %d, step %d, %v: %w", g, w.steps, d, err)
			}
		}
		if first && at > 0 && !stopped {
			return errBeyond
		}
		first = false
		g++
		// What a power cut has taken is not back because the start after it was killed.
		safe := !w.reboot() && (strict || started)
		strict = w.opts.Sync == SyncAlways || safe
		d.CrashAt = 1 + w.rng.IntN(1+d.Ops*3/2)
		if g == generations {
			d.CrashAt = 0
		}
	}
	w.closeCores()
	return nil
}

// errBeyond: there are fewer operations than at which to stop.
var errBeyond = errors.New("beyond the end")

// kinds are the servers that crash.
var kinds = []struct {
	name    string
	prepare func(w *world, seed uint64)
}{
	{"alone", func(w *world, seed uint64) {
		w.opts.Sync = SyncPolicy(seed % 3)
		if seed%2 == 0 {
			w.aside = func() error { return w.j.Tend() }
		}
	}},
	{"one of several", func(w *world, _ uint64) { newSole(w) }},
	// Batches without an Entry have the right indexes, whatever was given up before them.
	{"each in turn", func(w *world, _ uint64) {
		c := newSole(w)
		w.turn = func() {
			w.sole, w.aside, w.opts.Proposer = nil, nil, nil
			if w.rng.IntN(2) == 0 {
				w.sole, w.aside, w.opts.Proposer = c, c.begin, c
			}
		}
		w.sole = nil
	}},
}

// TestCrashAnywhere stops the machine, or only the process, at every operation of the disk that
// gives up or names a file, and at some of the others: at all of them if a seed is given.
func TestCrashAnywhere(t *testing.T) {
	for _, kind := range kinds[:2] {
		t.Run(kind.name, func(t *testing.T) {
			stride, names := 20, 1
			if testing.Short() {
				stride, names = 120, 10
			} else if *runsFlag > 0 || *seedFlag != 0 {
				stride = 1
			}
			seeds(t, 1, func(seed uint64) error {
				world := func(at int) *world {
					w := newWorld(seed, fakedisk.New(seed<<20|uint64(at)))
					kind.prepare(w, 0)
					w.fat, w.weight = 10, 8000
					return w
				}
				var ops []string
				w := world(0)
				w.fake.Before = func(op, _ string) error { ops = append(ops, op); return nil }
				if err := lives(w, math.MaxInt, 2, 30); err != errBeyond {
					return err
				}
				named := 0
				for i, op := range ops {
					if op == "remove" || op == "rename" {
						named++
					}
					if at := i + 1; at%stride == 0 || (op == "remove" || op == "rename") && named%names == 0 {
						if err := lives(world(at), at, 2, 30); err != nil {
							return fmt.Errorf("stopped at operation %d, %s: %w", at, op, err)
						}
					}
				}
				t.Logf("seed %d: %d operations: %v", seed, len(ops), w.fake.Did)
				return nil
			})
		})
	}
}

// TestCrashSometimes plays longer worlds. What was acknowledged is there after any crash, ids go
// on, compaction keeps the bound, and the sums add up.
func TestCrashSometimes(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			seeds(t, 8, func(seed uint64) error {
				w := newWorld(seed, fakedisk.New(seed))
				kind.prepare(w, seed)
				w.weight = []int{100, 1000, 10000}[w.rng.IntN(3)]
				w.fat = []int{0, 10, 100}[w.rng.IntN(3)]
				return lives(w, 0, 7, 130)
			})
		})
	}
}
