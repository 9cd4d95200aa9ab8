package beanstalkd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// A flow is producers and consumers that meet on one tube (one per load
// process). The latency is that of delivery: from when a put was due or sent
// to when its RESERVED arrived; the put carries that time as its stamp.
//
// In a closed loop producers stay a bounded number of jobs ahead: tickets. In
// an open loop they put when it is due, whatever the consumers do. The rate
// is of puts.
type flow struct {
	env
	tube      string
	producers []*producer
	consumers []*consumer
	control   *conn
	ahead     int // batches that may be put and not yet reserved, closed loop

	tickets  chan struct{} // closed loop: one for each batch that may be put now
	reserved atomic.Int64  // jobs in this phase
	putSum   atomic.Uint64 // of the ids of all jobs put
	gotSum   atomic.Uint64 // of the ids of all jobs reserved
}

// stopStamp marks a job that tells a consumer to end.
const stopStamp = math.MaxUint64

func stampedBodies(l workload.Load) error {
	if l.Body < drive.StampLen {
		return fmt.Errorf("bodies carry a stamp here: %d bytes or more", drive.StampLen)
	}
	return nil
}

// wakeupKnobs: a consumer that has several reserves waiting is never blocked
// in the sense of this workload.
func wakeupKnobs(l workload.Load) error {
	if l.Depth != 1 {
		return errors.New("workload wakeup has one command in flight: depth is 1")
	}
	return stampedBodies(l)
}

// newOneTube has as many producers as consumers, each producer one batch
// ahead and one in the making.
func newOneTube(e *workload.Env) workload.Workload {
	conns := e.Plan.Share(e.Plan.Load.Conns)
	w := &flow{env: env{e}, producers: make([]*producer, conns/2), consumers: make([]*consumer, conns-conns/2)}
	w.ahead = 2 * len(w.producers)
	return w
}

// newWakeup has one producer, which waits until its job is reserved, so that
// all consumers are blocked when the next put comes.
func newWakeup(e *workload.Env) workload.Workload {
	return &flow{env: env{e}, producers: make([]*producer, 1),
		consumers: make([]*consumer, e.Plan.Share(e.Plan.Load.Conns)-1), ahead: 1}
}

func (w *flow) Setup(ctx context.Context) error {
	w.tube = w.TubeName("flow", 0)
	var err error
	if w.control, err = w.connect(ctx); err != nil {
		return err
	}
	if err := w.control.own(w.tube); err != nil {
		return err
	}
	_, err = w.connectAll(ctx, func(i int, c *conn) error {
		c.tube = w.tube
		if i < len(w.producers) {
			w.producers[i] = newProducer(w, c)
			_, err := c.call(kindUsing, "use "+w.tube)
			return err
		}
		w.consumers[i-len(w.producers)] = newConsumer(w, c)
		return c.watchOnly(w.tube)
	})
	return err
}

func (w *flow) Run(ph *workload.Phase) error {
	w.tickets = make(chan struct{}, w.ahead)
	for range w.ahead {
		w.tickets <- struct{}{}
	}
	w.reserved.Store(0)
	if ph.Count > 0 {
		ph.Count = max(1, ph.Count/3) // producers' part: each put is reserved and deleted
	}
	var consuming sync.WaitGroup
	for i, a := range w.consumers {
		l, err := ph.Lane(i, len(w.consumers), false)
		if err != nil {
			return err
		}
		consuming.Go(func() {
			w.Fail(a.consume(l))
			l.Flush()
		})
	}
	err := workload.RunActors(ph, w.producers)
	if err == nil {
		w.Fail(w.putStops(len(w.consumers) * w.Plan.Load.Depth))
	}
	consuming.Wait()
	if err := w.Failure(); err != nil {
		return err
	}
	if err := w.takeStops(); err != nil {
		return err
	}
	if put, got := w.putSum.Load(), w.gotSum.Load(); put != got {
		return fmt.Errorf("tube %q: the jobs reserved are not the jobs put (sums of ids %d and %d)", w.tube, got, put)
	}
	return nil
}

// putStops puts the jobs that end consumers. They sort after all real ones,
// so nobody sees one before the tube is empty; there is one for every reserve
// that can be waiting.
func (w *flow) putStops(n int) error {
	for range n {
		w.control.putBody(stopPri, 0, stopStamp)
		if err := w.control.Flush(); err != nil {
			return err
		}
		if r, err := w.control.read(); err != nil {
			return err
		} else if err := w.control.expect("put", kindInserted, r); err != nil {
			return err
		}
	}
	return nil
}

// takeStops removes those that nobody needed.
func (w *flow) takeStops() error {
	c := w.control
	for {
		c.word("reserve-with-timeout 0")
		if err := c.Flush(); err != nil {
			return err
		}
		r, err := c.read()
		if err != nil || r.kind == kindTimedOut {
			return err
		}
		if err := c.expect("reserve-with-timeout 0", kindReserved, r); err != nil {
			return err
		}
		if stamp, err := drive.Stamp(r.body); err != nil || stamp != stopStamp {
			return errors.Join(fmt.Errorf("tube %q: job %d was left over", w.tube, r.num), err)
		}
		if err := c.deleteAll([]uint64{r.num}); err != nil {
			return err
		}
	}
}

func (w *flow) Teardown(context.Context) error { return w.QuitAll() }

// A producer puts depth jobs a turn.
type producer struct {
	w *flow
	c *conn
}

func newProducer(w *flow, c *conn) *producer { return &producer{w: w, c: c} }

func (a *producer) Turn(l *drive.Lane) error {
	if !l.IsOpen() {
		select {
		case <-a.w.tickets:
		case <-a.w.Done():
			return a.w.Failure()
		}
	}
	// Not batch: the stamp is the time that begin returns.
	due, err := l.Begin(a.c.depth)
	if err != nil {
		return err
	}
	for range a.c.depth {
		a.c.putBody(jobPri, 0, uint64(due))
	}
	if err := a.c.Ask(); err != nil {
		return err
	}
	var sum uint64
	for range a.c.depth {
		r, err := a.c.read()
		if err != nil {
			return err
		}
		if err := a.c.expect("put", kindInserted, r); err != nil {
			return err
		}
		sum += r.num
		l.Answered(due, a.c.At)
	}
	a.w.putSum.Add(sum)
	return nil
}

// A consumer reserves depth jobs, then deletes them. The latency of its
// reserve says nothing (it waits for a producer) and is not recorded.
type consumer struct {
	w *flow
	*deleter
}

func newConsumer(w *flow, c *conn) *consumer {
	return &consumer{w: w, deleter: newDeleter(c, c.depth)}
}

// consume goes on until a job says stop.
func (a *consumer) consume(l *drive.Lane) error {
	for stopped := false; !stopped; {
		for range a.c.depth {
			a.c.word("reserve")
		}
		if err := a.c.Ask(); err != nil {
			return err
		}
		for i := range a.c.depth {
			r, err := a.c.read()
			if err != nil {
				return err
			}
			if err := a.c.expect("reserve", kindReserved, r); err != nil {
				return err
			}
			stamp, err := drive.Stamp(r.body)
			if err == nil {
				err = a.c.checkBody(r, stamp)
			}
			if err != nil {
				return err
			}
			a.ids[i] = r.num
			l.Counted()
			if stamp == stopStamp {
				stopped = true
				continue
			}
			l.Delivery.Record(a.c.At-int64(stamp), 1)
			a.w.gotSum.Add(r.num)
			if n := a.w.reserved.Add(1); n%int64(a.c.depth) == 0 {
				select {
				case a.w.tickets <- struct{}{}:
				default: // open loop: nobody takes them
				}
			}
		}
		if err := a.delete(l, a.c.depth); err != nil {
			return err
		}
	}
	return nil
}
