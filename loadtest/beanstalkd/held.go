package beanstalkd

import (
	"context"
	"fmt"
	"math/rand/v2"

	"polystalk/loadtest/workload"
)

// held: one connection holds held reservations and deletes them in a shuffled
// order, depth in flight; one operation is one delete. Putting and reserving
// them happens outside the measurement, as often as the duration asks for.
type held struct {
	env
	*deleter
	rng *rand.Rand
}

func newHeld(e *workload.Env) workload.Workload {
	return &held{env: env{e}, rng: rand.New(rand.NewPCG(1, 2))}
}

func oneConnection(l workload.Load) error {
	if l.Conns != 1 {
		return fmt.Errorf("workload %s has one connection", l.Workload)
	}
	return nil
}

func (w *held) Setup(ctx context.Context) error {
	c, err := w.connect(ctx)
	if err != nil {
		return err
	}
	w.deleter = newDeleter(c, w.Plan.Load.Held)
	return c.own(w.TubeName("held", 0))
}

func (w *held) Run(ph *workload.Phase) error {
	l, err := ph.Lane(0, 1, true)
	if err != nil {
		return err
	}
	defer l.End()
	// At least one round; a round is never cut short, and the deadline counts
	// measured time only.
	for first := true; first || l.More(); first = false {
		if err := ph.Exclude(func() error { return w.c.inBulk(w.fill) }); err != nil {
			return err
		}
		l.Deadline = ph.Deadline + int64(ph.Excluded())
		if err := w.delete(l, len(w.ids)); err != nil {
			return err
		}
	}
	return nil
}

// fill puts and reserves all jobs, and shuffles them.
func (w *held) fill() error {
	l := workload.UnmeasuredLane()
	put := func(i int) { w.c.putBody(jobPri, 0, uint64(i)) }
	onPut := func(i int, r *reply) error {
		w.ids[i] = r.num
		return w.c.expect("put", kindInserted, r)
	}
	if err := w.c.batch(l, len(w.ids), put, onPut); err != nil {
		return err
	}
	onReserve := func(i int, r *reply) error {
		if err := w.c.expect("reserve", kindReserved, r); err != nil {
			return err
		}
		if err := w.c.checkID(r, w.ids[i]); err != nil {
			return err
		}
		return w.c.checkBody(r, uint64(i))
	}
	if err := w.c.batch(l, len(w.ids), func(int) { w.c.word("reserve") }, onReserve); err != nil {
		return err
	}
	w.rng.Shuffle(len(w.ids), func(i, j int) { w.ids[i], w.ids[j] = w.ids[j], w.ids[i] })
	return nil
}

func (w *held) Teardown(context.Context) error { return w.QuitAll() }
