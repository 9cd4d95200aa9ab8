package beanstalkd

import (
	"context"
	"errors"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// A stocker puts jobs into a tube of its own and takes them out again, in
// order: the k-th job put carries the stamp k and must be the k-th reserved.
type stocker struct {
	*deleter                  // its ids are those of the jobs of a batch, reserved
	first, last      uint64   // stamps of the jobs in the tube: first < stamp <= last
	listed           bool     // all is wanted
	all              []uint64 // ids of every job in the tube
	put, reserve     func(i int)
	onPut, onReserve func(i int, r *reply) error
}

// newStocker is one whose tube is empty. listed: the ids of all jobs are wanted, to
// delete them in the end.
func newStocker(c *conn, listed bool) *stocker {
	a := &stocker{deleter: newDeleter(c, c.depth), listed: listed}
	a.put = func(int) { a.last++; c.putBody(jobPri, 0, a.last) }
	a.onPut = func(_ int, r *reply) error {
		if a.listed {
			a.all = append(a.all, r.num)
		}
		return c.expect("put", kindInserted, r)
	}
	a.reserve = func(int) { c.word("reserve") }
	a.onReserve = func(i int, r *reply) error {
		if err := c.expect("reserve", kindReserved, r); err != nil {
			return err
		}
		a.ids[i] = r.num
		a.first++
		return c.checkBody(r, a.first)
	}
	return a
}

// fill puts n jobs, depth at a time.
func (a *stocker) fill(l *drive.Lane, n int) error { return a.c.batch(l, n, a.put, a.onPut) }

// take reserves and deletes depth jobs, or what is left.
func (a *stocker) take(l *drive.Lane) error {
	n := int(min(uint64(a.c.depth), a.last-a.first))
	if n == 0 {
		return workload.ErrDone
	}
	if err := a.c.batch(l, n, a.reserve, a.onReserve); err != nil {
		return err
	}
	return a.delete(l, n)
}

// takeAll reserves and deletes all jobs.
func (a *stocker) takeAll(l *drive.Lane) error {
	for {
		if err := a.take(l); errors.Is(err, workload.ErrDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// putOnly: every connection puts into a tube of its own, depth jobs a turn.
// The jobs stay until the teardown, which deletes them by id.
type putOnly struct {
	env
	stock []*stocker
}

type putter struct{ *stocker }

func (a putter) Turn(l *drive.Lane) error { return a.fill(l, a.c.depth) }

func newPut(e *workload.Env) workload.Workload { return &putOnly{env: env{e}} }

func (w *putOnly) Setup(ctx context.Context) error {
	w.stock = make([]*stocker, w.Plan.Share(w.Plan.Load.Conns))
	_, err := w.connectAll(ctx, func(i int, c *conn) error {
		w.stock[i] = newStocker(c, !w.Plan.Throwaway)
		return c.own(w.TubeName("put", i))
	})
	return err
}

func (w *putOnly) Run(ph *workload.Phase) error {
	actors := make([]putter, len(w.stock))
	for i, s := range w.stock {
		actors[i] = putter{s}
	}
	return workload.RunActors(ph, actors)
}

func (w *putOnly) Teardown(context.Context) error {
	for _, s := range w.stock {
		if err := s.c.deleteAll(s.all); err != nil {
			return err
		}
	}
	return w.QuitAll()
}

// drain: the setup puts count jobs, spread over the connections' own tubes;
// measured is reserving and deleting them all, depth at a time. There is no
// time limit but the jobs.
type drain struct {
	env
	actors []drainer
}

type drainer struct{ *stocker }

func (a drainer) Turn(l *drive.Lane) error { return a.take(l) }

func newDrain(e *workload.Env) workload.Workload { return &drain{env: env{e}} }

func (w *drain) Setup(ctx context.Context) error {
	conns := w.Plan.Share(w.Plan.Load.Conns)
	jobs := int(w.Plan.Load.Count) / w.Plan.Load.Conns
	w.actors = make([]drainer, conns)
	_, err := w.connectAll(ctx, func(i int, c *conn) error {
		s := newStocker(c, false)
		w.actors[i] = drainer{s}
		if err := c.own(w.TubeName("drain", i)); err != nil {
			return err
		}
		return c.inBulk(func() error { return s.fill(workload.UnmeasuredLane(), max(1, jobs)) })
	})
	return err
}

func (w *drain) Run(ph *workload.Phase) error {
	ph.Count = 0 // the stock is the bound
	return workload.RunActors(ph, w.actors)
}

func (w *drain) Teardown(context.Context) error { return w.QuitAll() }
