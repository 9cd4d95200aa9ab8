package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
)

// A workload is one process's part of a load. setup may be slow and is not
// measured; run is called once per phase and returns with every command
// answered and the server in the state in which setup left it, so that it can
// be called again; teardown removes what setup made.
//
// One operation of beanstalkd's protocol is one command answered, in every
// workload but connect: put, reserve and delete of one job are three operations. Gearman
// does not answer every request, so there one operation is one job submitted,
// taken or done, as the workload says, or one echo. Connecting is not an
// operation.
type workload interface {
	setup(ctx context.Context) error
	run(ph *phase) error
	teardown(ctx context.Context) error
}

// A spec describes a workload by name.
type spec struct {
	help     string
	defaults Load
	once     bool // run changes the server for good: no warm-up, no end but its jobs
	counted  bool // the same, if there is a count
	alone    bool // one process only
	pairs    bool // needs a producer and a consumer
	workers  bool // has worker connections beside those of -conns
	unpaced  bool // has no open loop
	constant bool // makes sense against a server that answers constants
	check    func(Load) error
	build    func(*env) workload
}

// A connection is what an env keeps until it is closed, in peace or not.
type connection interface {
	quit() error
	Shut()
}

// An env is what a workload has of its process.
type env struct {
	plan   plan
	mu     sync.Mutex
	conns  map[connection]bool
	err    error         // the first failure; conns are closed once it is set
	ended  chan struct{} // closed once err is set
	mem    *memory
	growth *growth
}

func newEnv(p plan) *env {
	return &env{plan: p, conns: map[connection]bool{}, ended: make(chan struct{})}
}

// done is closed at the first failure.
func (e *env) done() <-chan struct{} { return e.ended }

// fail records the first failure and closes all connections, so that whoever
// waits for a reply returns.
func (e *env) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil || err == nil {
		return
	}
	e.err = err
	close(e.ended)
	for c := range e.conns {
		c.Shut()
	}
}

func (e *env) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// connect opens a connection that fail will close.
func (e *env) connect(ctx context.Context) (*conn, error) {
	c, err := dial(ctx, e.plan.Addr, &e.plan.Load, e.plan.Constant)
	if err != nil {
		return nil, err
	}
	return c, e.adopt(c)
}

// adopt makes c a connection that fail will close.
func (e *env) adopt(c connection) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		c.Shut()
		return e.err
	}
	e.conns[c] = true
	return nil
}

// quit ends a connection politely.
func (e *env) quit(c connection) error {
	e.mu.Lock()
	delete(e.conns, c)
	e.mu.Unlock()
	return c.quit()
}

func (e *env) quitAll() error { return e.quitAllBut(nil) }

func (e *env) quitAllBut(one connection) error {
	e.mu.Lock()
	all := slices.Collect(maps.Keys(e.conns))
	e.mu.Unlock()
	for _, c := range all {
		if c == one {
			continue
		}
		if err := e.quit(c); err != nil {
			return err
		}
	}
	return nil
}

// connectAll opens this process's share of connections.
func (e *env) connectAll(ctx context.Context, each func(i int, c *conn) error) ([]*conn, error) {
	return openAll(ctx, e.plan.share(e.plan.Load.Conns), e.connect, each)
}

// openAll opens n connections and does the same with each, a few at a time: a
// listener's backlog is short.
func openAll[C any](ctx context.Context, n int, open func(context.Context) (C, error), each func(i int, c C) error) ([]C, error) {
	conns := make([]C, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range conns {
		g.Go(func() error {
			c, err := open(ctx)
			if err != nil {
				return err
			}
			conns[i] = c
			return each(i, c)
		})
	}
	return conns, g.Wait()
}

// tubeName names a tube of this run and process.
func (e *env) tubeName(kind string, i int) string {
	return fmt.Sprintf("lt.%s.%d.%s%d", e.plan.Run, e.plan.Process, kind, i)
}

// A phase is one timed stretch of a workload in one process.
type phase struct {
	env      *env
	ctx      context.Context
	started  int64
	deadline int64
	count    int64 // commands over all lanes; 0: by the deadline alone
	lanes    []*drive.Lane
	lanesMu  sync.Mutex
	commands *latency.Recorder
	delivery *latency.Recorder

	excludedCPU, excludedWall time.Duration // see exclude
}

// actor is one connection's behaviour: turn does the smallest piece of it
// after which nothing is left unanswered.
type actor interface {
	turn(l *drive.Lane) error
}

// lane returns lane i of n paced lanes; paced is false for consumers, whose
// commands follow from others'.
func (ph *phase) lane(i, n int, paced bool) (*drive.Lane, error) {
	load := &ph.env.plan.Load
	l := &drive.Lane{Commands: ph.commands, Delivery: ph.delivery, Deadline: ph.deadline}
	if ph.count > 0 {
		l.Budget = max(1, ph.count/int64(n))
	}
	if paced && load.Rate > 0 {
		// Lanes of all processes share the rate; this process's are every Processes-th.
		if err := l.OpenLoop(ph.started, load.Rate, i*load.Processes+ph.env.plan.Process, n*load.Processes, load.Arrivals == "poisson"); err != nil {
			return nil, err
		}
	}
	ph.lanesMu.Lock()
	ph.lanes = append(ph.lanes, l)
	ph.lanesMu.Unlock()
	return l, nil
}

// ops returns the commands answered so far; safe while the phase runs.
func (ph *phase) ops() int64 {
	ph.lanesMu.Lock()
	defer ph.lanesMu.Unlock()
	var n int64
	for _, l := range ph.lanes {
		n += l.Ops()
	}
	return n
}

// unsent adds up what open-loop lanes did not send. For use after the phase.
func (ph *phase) unsent() int64 {
	var n int64
	for _, l := range ph.lanes {
		n += l.Unsent()
	}
	return n
}

// runActors gives every actor a goroutine and turns until the phase is over.
func runActors[A actor](ph *phase, actors []A) error {
	var wg sync.WaitGroup
	for i, a := range actors {
		l, err := ph.lane(i, len(actors), true)
		if err != nil {
			ph.env.fail(err)
			break
		}
		wg.Go(func() { ph.env.fail(ph.turns(a, l)) })
	}
	wg.Wait()
	return ph.env.failure()
}

// errDone is returned by a turn that finds nothing left to do.
var errDone = errors.New("nothing left to do")

func (ph *phase) turns(a actor, l *drive.Lane) error {
	defer l.End()
	for l.More() && ph.ctx.Err() == nil {
		if err := a.turn(l); errors.Is(err, errDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// exclude runs f outside the measurement: its time and the server's CPU are
// taken off. It is exact only while nothing else drives the server, so it is
// for workloads with one connection.
func (ph *phase) exclude(f func() error) error {
	pid := ph.env.plan.ServerPID
	if pid == 0 {
		return errors.New("this workload needs the server's process id (-compare, or -pid)")
	}
	cpu, err := proc.CPU(pid)
	if err != nil {
		return err
	}
	t := drive.Now()
	if err := f(); err != nil {
		return err
	}
	after, err := proc.CPU(pid)
	if err != nil {
		return err
	}
	ph.excludedCPU += after.Total - cpu.Total
	ph.excludedWall += time.Duration(drive.Now() - t)
	return nil
}

// rest waits; the time does not count, what the server does in it does.
func (ph *phase) rest(d time.Duration) error {
	ph.excludedWall += d
	select {
	case <-time.After(d):
		return nil
	case <-ph.env.done():
		return ph.env.failure()
	}
}

// deleteAll deletes jobs by id, many at a time, outside any measurement.
func (c *conn) deleteAll(ids []uint64) error {
	for len(ids) > 0 {
		n := min(len(ids), 256)
		for _, id := range ids[:n] {
			c.numbered("delete", id)
		}
		if err := c.Flush(); err != nil {
			return err
		}
		for range n {
			r, err := c.read()
			if err != nil {
				return err
			}
			if err := c.expect("delete", kindDeleted, r); err != nil {
				return err
			}
		}
		ids = ids[n:]
	}
	return nil
}

// checkID compares the id of a reserved job with the expected one.
func (c *conn) checkID(r *reply, id uint64) error {
	if r.num != id {
		return c.wrong("reserve", fmt.Sprintf("job %d", id), r)
	}
	return nil
}

// anchors puts one long-delayed job into each tube, so that the tubes exist,
// and returns the jobs' ids.
func (c *conn) anchors(n int, tube func(i int) string) ([]uint64, error) {
	ids := make([]uint64, 0, n)
	const some = 128
	for i := 0; i < n; i += some {
		m := min(n, i+some)
		for j := i; j < m; j++ {
			c.named("use", tube(j))
			c.putBody(jobPri, anchorIn, uint64(j))
		}
		if err := c.Flush(); err != nil {
			return ids, err
		}
		for range m - i {
			r, err := c.read()
			if err == nil {
				err = c.expect("use", kindUsing, r)
			}
			if err != nil {
				return ids, err
			}
			if r, err = c.read(); err == nil {
				err = c.expect("put", kindInserted, r)
			}
			if err != nil {
				return ids, err
			}
			ids = append(ids, r.num)
		}
	}
	return ids, nil
}
