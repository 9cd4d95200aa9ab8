package gearmand

import (
	"context"
	"errors"

	"polystalk/loadtest/workload"
)

// memory: count background jobs are submitted and resident memory is
// read; then all are taken and completed, and after the settling time memory is
// read again.
type memory struct {
	stock
	takers []*taker
}

func newMemory(e *workload.Env) workload.Workload { return &memory{stock: stock{env: env{e}}} }

func noLightLoad(l workload.Load) error {
	if l.LightRate > 0 {
		return errors.New("workload memory has no light load with Gearman; leave out the light-rate")
	}
	return nil
}

func (w *memory) Setup(ctx context.Context) error {
	if err := w.CanWeigh(); err != nil {
		return err
	}
	conns := w.Plan.Load.Conns
	if err := w.open(ctx, conns); err != nil {
		return err
	}
	var err error
	w.takers, err = workload.OpenAll(ctx, conns, w.worker, func(int, *taker) error { return nil })
	return err
}

func (w *memory) Run(ph *workload.Phase) error {
	fill := func() (int64, error) {
		if err := w.submit(ph); err != nil { // as many as -count says
			return 0, err
		}
		return int64(w.submitted()), w.audit(ph)
	}
	drain := func() error { return w.everyone(ph, w.takers, w.submitted()) }
	return ph.Weigh(fill, nil, drain)
}

func (w *memory) Teardown(ctx context.Context) error { return w.clear(ctx) }
