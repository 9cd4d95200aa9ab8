package beanstalkd

import (
	"context"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// manyTubes: tubes tubes exist all the time, since each holds one job delayed
// for hours, and are divided among the connections. A turn moves to the next
// tube of the connection (use, watch, ignore the last one) and cycles there:
// six commands for one job at depth 1. A connection that has a single tube
// ignores "default", which it does not watch, so that the commands are the
// same.
type manyTubes struct {
	env
	actors  []*wanderer
	control *conn
	anchor  []uint64
}

func newManyTubes(e *workload.Env) workload.Workload { return &manyTubes{env: env{e}} }

func (w *manyTubes) Setup(ctx context.Context) error {
	conns := w.Plan.Share(w.Plan.Load.Conns)
	n := max(w.Plan.Share(w.Plan.Load.Tubes), conns)
	names := make([]string, n)
	for i := range names {
		names[i] = w.TubeName("t", i)
	}
	var err error
	if w.control, err = w.connect(ctx); err != nil {
		return err
	}
	if w.anchor, err = w.control.anchors(n, func(i int) string { return names[i] }); err != nil {
		return err
	}
	w.actors = make([]*wanderer, conns)
	_, err = w.connectAll(ctx, func(i int, c *conn) error {
		w.actors[i] = newWanderer(c, names[i*n/conns:(i+1)*n/conns])
		return c.own(w.actors[i].tubes[0])
	})
	return err
}

func (w *manyTubes) Run(ph *workload.Phase) error { return workload.RunActors(ph, w.actors) }

func (w *manyTubes) Teardown(context.Context) error {
	if !w.Plan.Throwaway {
		if err := w.control.deleteAll(w.anchor); err != nil {
			return err
		}
	}
	return w.QuitAll()
}

// A wanderer is a cycler that changes its tube every turn.
type wanderer struct {
	*cycler
	tubes  []string
	used   int // index of the tube in use
	move   func(i int)
	onMove func(i int, r *reply) error
}

func newWanderer(c *conn, tubes []string) *wanderer {
	a := &wanderer{cycler: newCycler(c), tubes: tubes}
	last := "default"
	both := uint64(1)
	if len(tubes) > 1 {
		both = 2
	}
	a.move = func(i int) {
		switch i {
		case 0:
			if len(tubes) > 1 {
				last = tubes[a.used]
			}
			a.used = (a.used + 1) % len(tubes)
			c.tube = tubes[a.used]
			c.named("use", c.tube)
		case 1:
			c.named("watch", c.tube)
		case 2:
			c.named("ignore", last)
		}
	}
	a.onMove = func(i int, r *reply) error {
		switch i {
		case 0:
			return c.usingTube(r)
		case 1:
			return c.watching("watch", both, r)
		default:
			return c.watching("ignore", 1, r)
		}
	}
	return a
}

func (a *wanderer) Turn(l *drive.Lane) error {
	if err := a.c.batch(l, 3, a.move, a.onMove); err != nil {
		return err
	}
	return a.cycler.Turn(l)
}

// multiWatch: every connection watches tubes tubes of its own, whose names
// spread them over a server's shards. A turn is depth times (use the next
// tube, put), then depth reserves and depth deletes. As all jobs have one
// priority, they must come back in the order of their ids over all tubes.
type multiWatch struct {
	env
	actors []*watcher
}

func newMultiWatch(e *workload.Env) workload.Workload { return &multiWatch{env: env{e}} }

func (w *multiWatch) Setup(ctx context.Context) error {
	k := w.Plan.Load.Tubes
	w.actors = make([]*watcher, w.Plan.Share(w.Plan.Load.Conns))
	_, err := w.connectAll(ctx, func(i int, c *conn) error {
		tubes := make([]string, k)
		for j := range tubes {
			tubes[j] = w.TubeName("w", i*k+j)
			if _, err := c.call(kindWatching, "watch "+tubes[j]); err != nil {
				return err
			}
		}
		w.actors[i] = newWatcher(c, tubes)
		_, err := c.call(kindWatching, "ignore default")
		return err
	})
	return err
}

func (w *multiWatch) Run(ph *workload.Phase) error { return workload.RunActors(ph, w.actors) }

func (w *multiWatch) Teardown(context.Context) error { return w.QuitAll() }

// A watcher is a cycler that puts into one watched tube after the other.
type watcher struct {
	*cycler
	tubes     []string
	named     int // tube of the last use written
	answered  int // tube of the last use answered
	putNext   func(i int)
	onPutNext func(i int, r *reply) error
}

func newWatcher(c *conn, tubes []string) *watcher {
	a := &watcher{cycler: newCycler(c), tubes: tubes}
	a.putNext = func(i int) {
		if i%2 == 0 {
			a.named = (a.named + 1) % len(tubes)
			c.named("use", tubes[a.named])
			return
		}
		a.put(i / 2)
	}
	a.onPutNext = func(i int, r *reply) error {
		if i%2 == 0 {
			a.answered = (a.answered + 1) % len(tubes)
			c.tube = tubes[a.answered]
			return c.usingTube(r)
		}
		return a.onPut(i/2, r)
	}
	return a
}

func (a *watcher) Turn(l *drive.Lane) error {
	n := a.c.depth
	if err := a.c.batch(l, 2*n, a.putNext, a.onPutNext); err != nil {
		return err
	}
	return a.takeAll(l)
}
