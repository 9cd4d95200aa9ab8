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
	c      *conn
	ids    []uint64
	rng    *rand.Rand
	drop   func(i int)
	onDrop func(i int, r *reply) error
}

func newHeld(e *workload.Env) workload.Workload {
	w := &held{env: env{e}, ids: make([]uint64, e.Plan.Load.Held), rng: rand.New(rand.NewPCG(1, 2))}
	w.drop = func(i int) { w.c.numbered("delete", w.ids[i]) }
	w.onDrop = func(_ int, r *reply) error { return w.c.expect("delete", kindDeleted, r) }
	return w
}

func oneConnection(l workload.Load) error {
	if l.Conns != 1 {
		return fmt.Errorf("workload %s has one connection", l.Workload)
	}
	return nil
}

func (w *held) Setup(ctx context.Context) (err error) {
	if w.c, err = w.connect(ctx); err != nil {
		return err
	}
	return w.c.own(w.TubeName("held", 0))
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
		if err := ph.Exclude(w.hold); err != nil {
			return err
		}
		l.Deadline = ph.Deadline + int64(ph.Excluded())
		if err := w.c.batch(l, len(w.ids), w.drop, w.onDrop); err != nil {
			return err
		}
	}
	return nil
}

// hold puts and reserves all jobs, many at a time.
func (w *held) hold() error {
	depth := w.c.depth
	w.c.depth = 256
	defer func() { w.c.depth = depth }()
	l := workload.UnmeasuredLane()
	put := func(i int) { w.c.putBody(jobPri, 0, uint64(i)) }
	onPut := func(i int, r *reply) error {
		w.ids[i] = r.num
		return w.c.expect("put", kindInserted, r)
	}
	if err := w.c.batch(l, len(w.ids), put, onPut); err != nil {
		return err
	}
	onHold := func(i int, r *reply) error {
		if err := w.c.expect("reserve", kindReserved, r); err != nil {
			return err
		}
		if err := w.c.checkID(r, w.ids[i]); err != nil {
			return err
		}
		return w.c.checkBody(r, uint64(i))
	}
	if err := w.c.batch(l, len(w.ids), func(int) { w.c.word("reserve") }, onHold); err != nil {
		return err
	}
	w.rng.Shuffle(len(w.ids), func(i, j int) { w.ids[i], w.ids[j] = w.ids[j], w.ids[i] })
	return nil
}

func (w *held) Teardown(context.Context) error { return w.QuitAll() }
