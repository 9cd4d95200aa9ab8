package main

import "context"

// background: every connection submits jobs of one of tubes functions, depth a
// turn. Nobody takes them, so that the queue grows until the teardown. With
// waiting jobs, the setup has submitted so many before.
//
// How the rate holds while the queue grows is told by one long run, by its early
// and late rates:
//
//	background conns=8 depth=100 count=1000000          sustained>=0.8
//
// or, at a queue of a given length, by a pair of short ones:
//
//	background name=short conns=8 waiting=1000 count=10000
//	background name=long conns=8 waiting=1000000 count=10000    long: ops/@short>=0.8
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
	if err := w.submit(ph); err != nil {
		return err
	}
	w.growth = grown.growth(ph.started)
	return w.settle(ph)
}

func (w *background) teardown(ctx context.Context) error { return w.clear(ctx) }
