package gearmand

import (
	"context"

	"polystalk/loadtest/workload"
)

// drain: the setup submits count background jobs, and waiting ones that
// are to be left; measured is taking and completing count of them, depth at a
// time on each connection. There is no time limit but the jobs.
type drain struct {
	stock
	takers []*taker
}

func newDrain(e *workload.Env) workload.Workload { return &drain{stock: stock{env: env{e}}} }

func (w *drain) count() int { return max(1, w.Plan.Share(int(w.Plan.Load.Count))) }

func (w *drain) Setup(ctx context.Context) error {
	conns := w.Plan.Share(w.Plan.Load.Conns)
	if err := w.open(ctx, min(conns, 4)); err != nil {
		return err
	}
	if err := w.fill(w.count() + w.Plan.Share(w.Plan.Load.Waiting)); err != nil {
		return err
	}
	var err error
	w.takers, err = workload.OpenAll(ctx, conns, w.worker, func(int, *taker) error { return nil })
	return err
}

func (w *drain) Run(ph *workload.Phase) error {
	return w.everyone(ph, w.takers, uint64(w.count()))
}

func (w *drain) Teardown(ctx context.Context) error { return w.clear(ctx) }
