package beanstalkd

import (
	"context"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// A cycler puts depth jobs into a tube of its own, reserves them and deletes
// them. Since nobody else touches the tube, the jobs must come back in the
// order of their ids, with the bodies they were put with.
type cycler struct {
	*deleter                // its ids are those of the jobs put
	stamp            uint64 // of the last job put
	put, reserve     func(i int)
	onPut, onReserve func(i int, r *reply) error
}

func newCycler(c *conn) *cycler {
	a := &cycler{deleter: newDeleter(c, c.depth)}
	// Made once: a closure per turn would be garbage per turn.
	a.put = func(int) { a.stamp++; c.putBody(jobPri, 0, a.stamp) }
	a.onPut = func(i int, r *reply) error { a.ids[i] = r.num; return c.expect("put", kindInserted, r) }
	a.reserve = func(int) { c.word("reserve") }
	a.onReserve = func(i int, r *reply) error {
		if err := c.expect("reserve", kindReserved, r); err != nil {
			return err
		}
		if err := c.checkID(r, a.ids[i]); err != nil {
			return err
		}
		return c.checkBody(r, a.stamp-uint64(c.depth-1-i))
	}
	return a
}

func (a *cycler) Turn(l *drive.Lane) error {
	if err := a.c.batch(l, a.c.depth, a.put, a.onPut); err != nil {
		return err
	}
	return a.takeAll(l)
}

// takeAll reserves and deletes the depth jobs that were put.
func (a *cycler) takeAll(l *drive.Lane) error {
	n := a.c.depth
	if err := a.c.batch(l, n, a.reserve, a.onReserve); err != nil {
		return err
	}
	return a.delete(l, n)
}

// cycle: every connection has a tube of its own and cycles on it. With tubes
// set, N idle tubes hold one delayed job each beside it (idle-tubes).
type cycle struct {
	env
	actors  []*cycler
	idle    int
	control *conn
	anchor  []uint64
}

func newCycle(e *workload.Env) workload.Workload { return &cycle{env: env{e}} }

// newIdleTubes is cycle beside tubes idle tubes, made by the first process.
func newIdleTubes(e *workload.Env) workload.Workload {
	w := &cycle{env: env{e}}
	if e.Plan.Process == 0 {
		w.idle = e.Plan.Load.Tubes
	}
	return w
}

func (w *cycle) Setup(ctx context.Context) error {
	if w.idle > 0 {
		c, err := w.connect(ctx)
		if err != nil {
			return err
		}
		w.control = c
		if w.anchor, err = c.anchors(w.idle, func(i int) string { return w.TubeName("idle", i) }); err != nil {
			return err
		}
	}
	w.actors = make([]*cycler, w.Plan.Share(w.Plan.Load.Conns))
	_, err := w.connectAll(ctx, func(i int, c *conn) error {
		w.actors[i] = newCycler(c)
		return c.own(w.TubeName("c", i))
	})
	return err
}

func (w *cycle) Run(ph *workload.Phase) error { return workload.RunActors(ph, w.actors) }

func (w *cycle) Teardown(context.Context) error {
	if w.control != nil && !w.Plan.Throwaway {
		if err := w.control.deleteAll(w.anchor); err != nil {
			return err
		}
	}
	return w.QuitAll()
}
