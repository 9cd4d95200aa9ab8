package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
)

// A memory is what the memory workload found, in bytes of the server's
// resident memory.
type memory struct {
	Jobs       int64 `json:"jobs"`
	BodyBytes  int   `json:"body_bytes"`
	RSSEmpty   int64 `json:"rss_empty"`
	RSSFull    int64 `json:"rss_full"`
	RSSDrained int64 `json:"rss_drained"` // after the settling time
}

// bytesPerJob is resident memory per ready job, body included.
func (m *memory) bytesPerJob() float64 {
	if m == nil {
		return 0
	}
	return float64(m.RSSFull-m.RSSEmpty) / float64(m.Jobs)
}

// kept is the part of that memory still resident after the drain.
func (m *memory) kept() float64 {
	if m == nil || m.RSSFull <= m.RSSEmpty {
		return 0
	}
	return max(0, float64(m.RSSDrained-m.RSSEmpty)/float64(m.RSSFull-m.RSSEmpty))
}

// memoryUse: count ready jobs (default a million) are put into the
// connections' own tubes and resident memory is read; then, with a light
// rate, another connection cycles in an open loop for the duration, and the
// latencies reported are those of this light load alone; then all jobs are
// reserved and deleted, and after the settling time memory is read again.
type memoryUse struct {
	*env
	actors []*stocker
	light  *cycler
	jobs   int // per connection
}

func newMemory(e *env) workload { return &memoryUse{env: e} }

func (w *memoryUse) setup(ctx context.Context) error {
	if w.plan.ServerPID == 0 {
		return errors.New("workload memory needs the server's process id (-compare, or -pid)")
	}
	load := &w.plan.Load
	w.jobs = max(1, int(load.Count)/load.Conns)
	w.actors = make([]*stocker, load.Conns)
	if _, err := w.connectAll(ctx, func(i int, c *conn) error {
		w.actors[i] = newStocker(c, false)
		return c.own(w.tubeName("m", i))
	}); err != nil || load.LightRate == 0 {
		return err
	}
	c, err := w.connect(ctx)
	if err != nil {
		return err
	}
	c.depth = 1
	w.light = newCycler(c)
	return c.own(w.tubeName("light", 0))
}

func (w *memoryUse) run(ph *phase) error {
	load := &w.plan.Load
	m := &memory{Jobs: int64(w.jobs) * int64(len(w.actors)), BodyBytes: load.Body}
	ph.count = 0
	var err error
	if m.RSSEmpty, err = proc.RSS(w.plan.ServerPID); err != nil {
		return err
	}
	bulk := ph.commands
	if w.light != nil {
		bulk = new(latency.Recorder)
	}
	if err := w.everyone(ph, bulk, func(a *stocker, l *drive.Lane) error { return a.fill(l, w.jobs) }); err != nil {
		return err
	}
	if err := ph.rest(time.Second); err != nil {
		return err
	}
	if m.RSSFull, err = proc.RSS(w.plan.ServerPID); err != nil {
		return err
	}
	if w.light != nil {
		if err := w.lightLoad(ph); err != nil {
			return err
		}
	}
	if err := w.everyone(ph, bulk, func(a *stocker, l *drive.Lane) error {
		for {
			if err := a.take(l); errors.Is(err, errDone) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}); err != nil {
		return err
	}
	if err := ph.rest(load.Settle); err != nil {
		return err
	}
	if m.RSSDrained, err = proc.RSS(w.plan.ServerPID); err != nil {
		return err
	}
	w.mem = m
	return nil
}

// everyone runs f on each connection at once, latencies going to bulk.
func (w *memoryUse) everyone(ph *phase, bulk *latency.Recorder, f func(*stocker, *drive.Lane) error) error {
	actors := make([]once, len(w.actors))
	for i, a := range w.actors {
		actors[i] = func(l *drive.Lane) error {
			l.Commands = bulk
			if err := f(a, l); err != nil {
				return err
			}
			return errDone
		}
	}
	return runActors(ph, actors)
}

// once is an actor with a single turn.
type once func(l *drive.Lane) error

func (f once) turn(l *drive.Lane) error { return f(l) }

func (w *memoryUse) lightLoad(ph *phase) error {
	l, err := ph.lane(0, 1, false)
	if err != nil {
		return err
	}
	load := &w.plan.Load
	start := drive.Now()
	l.Deadline = start + int64(load.Duration)
	if err := l.OpenLoop(start, load.LightRate, 0, 1, load.Arrivals == "poisson"); err != nil {
		return err
	}
	if err := ph.turns(w.light, l); err != nil {
		return fmt.Errorf("light load: %w", err)
	}
	return nil
}

func (w *memoryUse) teardown(context.Context) error { return w.quitAll() }
