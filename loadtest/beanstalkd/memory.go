package beanstalkd

import (
	"context"
	"fmt"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/latency"
	"polystalk/loadtest/workload"
)

// memory: count ready jobs (default a million) are put into the
// connections' own tubes and resident memory is read; then, with a light
// rate, another connection cycles in an open loop for the duration, and the
// latencies reported are those of this light load alone; then all jobs are
// reserved and deleted, and after the settling time memory is read again.
type memory struct {
	env
	actors []*stocker
	light  *cycler
	jobs   int // per connection
}

func newMemory(e *workload.Env) workload.Workload { return &memory{env: env{e}} }

func (w *memory) Setup(ctx context.Context) error {
	if err := w.CanWeigh(); err != nil {
		return err
	}
	load := &w.Plan.Load
	w.jobs = max(1, int(load.Count)/load.Conns)
	w.actors = make([]*stocker, load.Conns)
	if _, err := w.connectAll(ctx, func(i int, c *conn) error {
		w.actors[i] = newStocker(c, false)
		return c.own(w.TubeName("m", i))
	}); err != nil || load.LightRate == 0 {
		return err
	}
	c, err := w.connect(ctx)
	if err != nil {
		return err
	}
	c.depth = 1
	w.light = newCycler(c)
	return c.own(w.TubeName("light", 0))
}

func (w *memory) Run(ph *workload.Phase) error {
	ph.Count = 0 // the jobs are the bound
	bulk := ph.Commands
	if w.light != nil {
		bulk = new(latency.Recorder)
	}
	fill := func() (int64, error) {
		err := w.everyone(ph, bulk, func(a *stocker, l *drive.Lane) error { return a.fill(l, w.jobs) })
		return int64(w.jobs) * int64(len(w.actors)), err
	}
	drain := func() error { return w.everyone(ph, bulk, (*stocker).takeAll) }
	if w.light == nil {
		return ph.Weigh(fill, nil, drain)
	}
	return ph.Weigh(fill, func() error { return w.lightLoad(ph) }, drain)
}

// everyone runs f on each connection at once, latencies going to bulk.
func (w *memory) everyone(ph *workload.Phase, bulk *latency.Recorder, f func(*stocker, *drive.Lane) error) error {
	actors := make([]oneTurn, len(w.actors))
	for i, a := range w.actors {
		actors[i] = func(l *drive.Lane) error {
			l.Commands = bulk
			if err := f(a, l); err != nil {
				return err
			}
			return workload.ErrDone
		}
	}
	return workload.RunActors(ph, actors)
}

// oneTurn is an actor with a single turn.
type oneTurn func(l *drive.Lane) error

func (f oneTurn) Turn(l *drive.Lane) error { return f(l) }

func (w *memory) lightLoad(ph *workload.Phase) error {
	l, err := ph.Lane(0, 1, false)
	if err != nil {
		return err
	}
	load := &w.Plan.Load
	start := drive.Now()
	l.Deadline = start + int64(load.Duration)
	if err := l.OpenLoop(start, load.LightRate, 0, 1, load.Arrivals == "poisson"); err != nil {
		return err
	}
	if err := ph.Turns(w.light, l); err != nil {
		return fmt.Errorf("light load: %w", err)
	}
	return nil
}

func (w *memory) Teardown(context.Context) error { return w.QuitAll() }
