package beanstalkd

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// laravel: what a Laravel worker sends through pheanstalk when it polls a high
// queue and then a low one, and the push of one job to the low queue; the mix
// agrees with the one reported in beanstalkd's issue 573 (about two each of
// watch, ignore and list-tubes-watched, and one stats-job, for every put). A
// turn is twelve commands, each waiting for the last one's reply:
//
//	use low, put,
//	watch high, list-tubes-watched, ignore …, reserve-with-timeout 0 → TIMED_OUT,
//	watch low, list-tubes-watched, ignore high, reserve-with-timeout 0 → RESERVED,
//	stats-job, delete
//
// Connections share tubes pairs of queues (default 4). Every turn puts before
// it reserves, so the low queue is never empty when it is asked. Every
// reconnect turns the connection is given up for a new one.
type laravel struct {
	env
	actors []*poller
}

func newLaravel(e *workload.Env) workload.Workload { return &laravel{env: env{e}} }

func laravelKnobs(l workload.Load) error {
	if l.Depth != 1 {
		return errors.New("workload laravel sends one command at a time: depth is 1")
	}
	return stampedBodies(l)
}

func (w *laravel) Setup(ctx context.Context) error {
	w.actors = make([]*poller, w.Plan.Share(w.Plan.Load.Conns))
	_, err := w.connectAll(ctx, func(i int, c *conn) error {
		q := i % w.Plan.Load.Tubes
		w.actors[i] = &poller{w: w, ctx: ctx, c: c, high: w.TubeName("high", q), low: w.TubeName("low", q),
			watched: "default", turns: i % w.Plan.Load.Reconnect}
		return nil
	})
	return err
}

func (w *laravel) Run(ph *workload.Phase) error {
	for _, a := range w.actors {
		a.ctx = ph.Ctx
	}
	return workload.RunActors(ph, w.actors)
}

func (w *laravel) Teardown(context.Context) error { return w.QuitAll() }

// A poller is one worker process of the application.
type poller struct {
	w         *laravel
	ctx       context.Context
	c         *conn
	high, low string
	watched   string // the one tube watched between polls
	turns     int
	stamp     uint64
	id        uint64
	list      []byte
}

func (a *poller) Turn(l *drive.Lane) error {
	if a.turns++; a.turns%a.w.Plan.Load.Reconnect == 0 {
		if err := a.w.Quit(a.c); err != nil {
			return err
		}
		c, err := a.w.connect(a.ctx)
		if err != nil {
			return err
		}
		a.c, a.watched = c, "default"
	}
	if err := a.push(l); err != nil {
		return err
	}
	if err := a.pop(l, a.high, kindTimedOut); err != nil {
		return err
	}
	if err := a.pop(l, a.low, kindReserved); err != nil {
		return err
	}
	return a.finish(l)
}

// one sends the command that c.Out holds and returns its reply.
func (a *poller) one(l *drive.Lane) (*reply, error) {
	t, err := l.Begin(1)
	if err != nil {
		return nil, err
	}
	if err := a.c.Ask(); err != nil {
		return nil, err
	}
	r, err := a.c.read()
	if err == nil {
		l.Answered(t, a.c.At)
	}
	return r, err
}

func (a *poller) push(l *drive.Lane) error {
	a.c.tube = a.low
	a.c.named("use", a.low)
	r, err := a.one(l)
	if err != nil {
		return err
	}
	if err := a.c.usingTube(r); err != nil {
		return err
	}
	a.stamp++
	a.c.putBody(jobPri, 0, a.stamp)
	if r, err = a.one(l); err != nil {
		return err
	}
	return a.c.expect("put", kindInserted, r)
}

// pop makes tube the only one watched and asks for a job without waiting.
func (a *poller) pop(l *drive.Lane, tube string, expected kind) error {
	c := a.c
	c.named("watch", tube)
	r, err := a.one(l)
	if err != nil {
		return err
	}
	if err := c.watching("watch", 2, r); err != nil {
		return err
	}
	c.word("list-tubes-watched")
	if r, err = a.one(l); err != nil {
		return err
	}
	a.list = fmt.Appendf(a.list[:0], "---\n- %s\n- %s\n", a.watched, tube)
	if r.kind != kindOK || !bytes.Equal(r.body, a.list) {
		return fmt.Errorf("wrong reply to list-tubes-watched: expected %q, got %q %q", a.list, r.line, r.body)
	}
	c.named("ignore", a.watched)
	if r, err = a.one(l); err != nil {
		return err
	}
	if err := c.watching("ignore", 1, r); err != nil {
		return err
	}
	a.watched = tube
	c.word("reserve-with-timeout 0")
	if r, err = a.one(l); err != nil {
		return err
	}
	if err := c.expect("reserve-with-timeout 0", expected, r); err != nil || expected != kindReserved {
		return err
	}
	a.id = r.num
	stamp, err := drive.Stamp(r.body)
	if err != nil {
		return err
	}
	return c.checkBody(r, stamp)
}

func (a *poller) finish(l *drive.Lane) error {
	c := a.c
	c.numbered("stats-job", a.id)
	r, err := a.one(l)
	if err != nil {
		return err
	}
	a.list = fmt.Appendf(a.list[:0], "---\nid: %d\n", a.id)
	if r.kind != kindOK || !bytes.HasPrefix(r.body, a.list) || !bytes.Contains(r.body, []byte("\nstate: reserved\n")) {
		return fmt.Errorf("wrong reply to stats-job %d, which is reserved: got %q %q", a.id, r.line, r.body)
	}
	c.numbered("delete", a.id)
	if r, err = a.one(l); err != nil {
		return err
	}
	return c.expect("delete", kindDeleted, r)
}
