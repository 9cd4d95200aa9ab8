package main

import "context"

// gearmanDrain: the setup submits count background jobs, and waiting ones that
// are to be left; measured is taking and completing count of them, depth at a
// time on each connection. There is no time limit but the jobs.
type gearmanDrain struct {
	gearmanStock
	takers []*gearmanTaker
}

func newGearmanDrain(e *env) workload { return &gearmanDrain{gearmanStock: gearmanStock{env: e}} }

func (w *gearmanDrain) count() int { return max(1, w.plan.share(int(w.plan.Load.Count))) }

func (w *gearmanDrain) setup(ctx context.Context) error {
	conns := w.plan.share(w.plan.Load.Conns)
	if err := w.open(ctx, min(conns, 4)); err != nil {
		return err
	}
	if err := w.fill(w.count() + w.plan.share(w.plan.Load.Waiting)); err != nil {
		return err
	}
	var err error
	w.takers, err = openAll(ctx, conns, w.worker, func(int, *gearmanTaker) error { return nil })
	return err
}

func (w *gearmanDrain) run(ph *phase) error {
	return w.everyone(ph, w.takers, uint64(w.count()))
}

func (w *gearmanDrain) teardown(ctx context.Context) error { return w.clear(ctx) }
