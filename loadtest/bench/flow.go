package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// A flow has producers and consumers that meet on one tube. Its latency counts from the time at
// which a put was due or sent to the arrival of RESERVED. The put carries that time as its stamp.
//
// In a closed loop the number of waiting jobs is bounded: producers take tickets. In an open loop
// producers put at the due times, whatever the consumers do. The rate counts puts.
type flow struct {
	*env
	tube      string
	producers []*Conn
	consumers []*cycler
	control   *Conn
	ahead     int // closed loop: batches that may be put and not yet reserved

	tickets  chan struct{} // one for each batch that may be put now
	reserved atomic.Int64  // jobs in this phase
	sum      atomic.Uint64 // of the ids of all jobs put, minus the ids of all jobs reserved
	commands recorder      // latencies of single commands, which are not reported
}

// stopStamp marks a job that tells a consumer to end.
const stopStamp = math.MaxUint64

// setupOneTube has as many producers as consumers. Each producer may be one batch ahead.
func setupOneTube(ctx context.Context, e *env) (runner, error) {
	return setupFlow(ctx, e, e.Load.Conns/2, e.Load.Conns/2*2)
}

// setupWakeup has one producer, which waits until its job is reserved. So all consumers are blocked
// when the next put arrives.
func setupWakeup(ctx context.Context, e *env) (runner, error) { return setupFlow(ctx, e, 1, 1) }

func setupFlow(ctx context.Context, e *env, producers, ahead int) (_ runner, err error) {
	w := &flow{env: e, tube: e.tubeName("flow", 0), producers: make([]*Conn, producers), consumers: make([]*cycler, e.Load.Conns-producers), ahead: ahead}
	if w.control, err = e.open(ctx); err != nil {
		return nil, err
	}
	if err := w.control.command("use "+w.tube, "USING"); err != nil {
		return nil, err
	}
	return w.run, e.openAll(ctx, e.Load.Conns, func(i int, c *Conn) error {
		c.tube = w.tube
		if i >= producers {
			w.consumers[i-producers] = newCycler(c, c.depth)
			return c.watchOnly(w.tube)
		}
		w.producers[i] = c
		return c.command("use "+w.tube, "USING")
	})
}

func (w *flow) run(ph *phase) error {
	w.tickets = make(chan struct{}, w.ahead)
	for range w.ahead {
		w.tickets <- struct{}{}
	}
	w.reserved.Store(0)
	if ph.count > 0 {
		ph.count = max(1, ph.count/3) // only the producers' share: each put is also reserved and deleted
	}
	var consuming sync.WaitGroup
	for i, a := range w.consumers {
		l, err := ph.lane(i, len(w.consumers), false)
		if err != nil {
			return err
		}
		l.rec = &w.commands
		consuming.Go(func() { w.fail(w.consume(a, l, ph.rec)) })
	}
	err := ph.all(turnsOf(w.producers, func(c *Conn) turn { return func(l *lane) error { return w.produce(c, l) } }))
	if c := w.control; err == nil {
		// Stop jobs sort after all real ones, so the tube is empty when one is reserved. There is
		// one for every reserve that can be waiting.
		put := func(int) { c.put(stopPri, 0, stopStamp) }
		w.fail(c.batch(unmeasured(), len(w.consumers)*w.Load.Depth, 1, put, c.expects("put", "INSERTED")))
	}
	consuming.Wait()
	if err := w.failure(); err != nil {
		return err
	}
	if err := w.control.clean(w.tube); err != nil { // unused stop jobs
		return err
	}
	if w.sum.Load() != 0 {
		return fmt.Errorf("tube %q: the jobs reserved are not the jobs put", w.tube)
	}
	return nil
}

// produce puts depth jobs.
func (w *flow) produce(c *Conn, l *lane) error {
	l.rec = &w.commands
	if l.alarm == nil {
		select {
		case <-w.tickets:
		case <-w.ended:
			return w.failure()
		}
	}
	due, err := l.begin(c.depth) // not batch: the stamp is this time
	if err != nil {
		return err
	}
	for range c.depth {
		c.put(jobPri, 0, uint64(due))
	}
	if err := c.ask(); err != nil {
		return err
	}
	for range c.depth {
		if err := c.ReadReply(); err != nil {
			return err
		}
		if err := c.expect("put", "INSERTED"); err != nil {
			return err
		}
		w.sum.Add(c.Reply.Num)
		l.done++
	}
	return nil
}

// consume reserves depth jobs and deletes them, until it gets a stop job.
func (w *flow) consume(a *cycler, l *lane, delivery *recorder) error {
	for stopped := false; !stopped; {
		for i := range a.depth {
			a.reserve(i)
		}
		if err := a.ask(); err != nil {
			return err
		}
		for i := range a.depth {
			if err := a.ReadReply(); err != nil {
				return err
			}
			stamp, err := Stamp(a.Reply.Body)
			if err != nil {
				return errors.Join(a.wrong("reserve", "RESERVED"), err)
			}
			if err := a.expectJob(0, stamp); err != nil {
				return err
			}
			a.ids[i] = a.Reply.Num
			l.done++
			if stamp == stopStamp {
				stopped = true
				continue
			}
			delivery.record(a.at-int64(stamp), 1)
			w.sum.Add(-a.Reply.Num)
			if n := w.reserved.Add(1); n%int64(a.depth) == 0 {
				select {
				case w.tickets <- struct{}{}:
				default: // open loop: nobody takes them
				}
			}
		}
		if err := a.batch(l, a.depth, a.depth, a.remove, a.onRemove); err != nil {
			return err
		}
	}
	return nil
}
