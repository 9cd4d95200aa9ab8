package main

import "context"

// background: every connection submits jobs of one of tubes functions, depth a
// turn. Nobody takes them, so that the queue grows until the teardown. With
// waiting jobs, the setup has submitted so many before.
type background struct {
	gearmanStock
}

func newBackground(e *env) workload { return &background{gearmanStock{env: e}} }

func (w *background) setup(ctx context.Context) error {
	if err := w.open(ctx, w.plan.share(w.plan.Load.Conns)); err != nil {
		return err
	}
	return w.fill(w.plan.share(w.plan.Load.Waiting))
}

func (w *background) run(ph *phase) error {
	grown := new(milestones)
	for _, a := range w.submitters {
		a.grown = grown
	}
	if err := runActors(ph, w.submitters); err != nil {
		return err
	}
	w.growth = grown.growth(ph.started)
	return w.settle(ph)
}

func (w *background) teardown(ctx context.Context) error { return w.clear(ctx) }
