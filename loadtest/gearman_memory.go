package main

import (
	"context"
	"errors"
	"time"

	"polystalk/loadtest/proc"
)

// gearmanMemory: count background jobs are submitted and resident memory is
// read; then all are taken and completed, and after the settling time memory is
// read again.
type gearmanMemory struct {
	gearmanStock
	takers []*gearmanTaker
}

func newGearmanMemory(e *env) workload { return &gearmanMemory{gearmanStock: gearmanStock{env: e}} }

func noLightLoad(l Load) error {
	if l.LightRate > 0 {
		return errors.New("workload memory has no light load with Gearman; leave out the light-rate")
	}
	return nil
}

func (w *gearmanMemory) setup(ctx context.Context) error {
	if w.plan.ServerPID == 0 {
		return errors.New("workload memory needs the server's process id (-compare, or -pid)")
	}
	conns := w.plan.Load.Conns
	if err := w.open(ctx, conns); err != nil {
		return err
	}
	var err error
	w.takers, err = openAll(ctx, conns, w.worker, func(int, *gearmanTaker) error { return nil })
	return err
}

func (w *gearmanMemory) run(ph *phase) error {
	load := &w.plan.Load
	m := &memory{BodyBytes: load.Body}
	var err error
	if m.RSSEmpty, err = proc.RSS(w.plan.ServerPID); err != nil {
		return err
	}
	if err := w.submit(ph); err != nil { // as many as -count says
		return err
	}
	m.Jobs = int64(w.submitted())
	if err := w.settle(ph); err != nil {
		return err
	}
	if err := ph.rest(time.Second); err != nil {
		return err
	}
	if m.RSSFull, err = proc.RSS(w.plan.ServerPID); err != nil {
		return err
	}
	if err := w.everyone(ph, w.takers, w.submitted()); err != nil {
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

func (w *gearmanMemory) teardown(ctx context.Context) error { return w.clear(ctx) }
