package gearmand

import (
	"context"

	"polystalk/loadtest/workload"
)

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
	stock
}

func newBackground(e *workload.Env) workload.Workload { return &background{stock{env: env{e}}} }

func (w *background) Setup(ctx context.Context) error {
	if err := w.open(ctx, w.Plan.Share(w.Plan.Load.Conns)); err != nil {
		return err
	}
	return w.fill(w.Plan.Share(w.Plan.Load.Waiting))
}

func (w *background) Run(ph *workload.Phase) error {
	grown := new(workload.Milestones)
	for _, a := range w.submitters {
		a.grown = grown
	}
	if err := w.submit(ph); err != nil {
		return err
	}
	w.Growth = grown.Growth(ph.Started)
	return w.audit(ph)
}

func (w *background) Teardown(ctx context.Context) error { return w.clear(ctx) }
