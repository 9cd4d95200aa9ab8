package bench

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"

	"polystalk/codec/gearman"
)

var gearmand = &Protocol{
	name:      "gearman",
	addr:      "127.0.0.1:4730",
	args:      "-L 127.0.0.1 -p {port} -l stderr -P {dir}/gearmand.pid",
	unit:      "job or echo",
	first:     "background",
	ask:       "version\r\n",
	version:   regexp.MustCompile(`^OK (.+)\r?\n`),
	clean:     cleanGearmand,
	workloads: gearmandWorkloads,
	bench:     gearmandBench,
	goals:     gearmandGoals,
}

// One operation is one echo, or one job that is submitted, taken or completed: each workload says
// which. Gearman does not answer every request.
var gearmandWorkloads = map[string]spec{
	"background": {help: "submit background jobs that nobody takes, with unique ids, into -tubes functions (default 1) of each load process",
		defaults: Load{Tubes: 1}, traits: onceCounted, build: newBackground},
	"foreground": {help: "-conns clients submit and wait, -workers workers do it (default a quarter): latency to WORK_COMPLETE",
		traits: workers, build: newForeground},
	"drain": {help: "workers take and complete -count jobs that were submitted before (default 200000)",
		defaults: Load{Count: 200_000, Tubes: 1}, traits: once | unpaced, build: newGearDrain},
	"echo": {help: "ECHO_REQ with a body that must come back", build: newEcho},
	"memory": {help: "resident memory of -count waiting jobs (default 1000000), and after their drain",
		defaults: Load{Count: 1_000_000, Conns: 4, Depth: 64, Tubes: 1}, traits: once | alone | unpaced, build: newGearMemory},
}

// newEcho returns a workload of echo requests. In a turn, a connection sends as many requests as
// its depth, then reads the replies and checks that each returns the body that was sent; a stamp
// makes each body different. So that many bodies must be smaller than what a server buffers for a
// client that does not read.
func newEcho(e *env) workload {
	return &uniform[*gconn]{env: e, open: e.gear, make: func(_ int, c *gconn) (turn, error) {
		var sent, heard uint64
		write := func(int) { sent++; c.stampBody(sent); c.request(gearman.EchoReq, c.body) }
		check := func(_ int, m *gearman.Message) error {
			heard++
			if err := c.expect(gearman.EchoReq, gearman.EchoRes, m); err != nil {
				return err
			}
			return c.expectBody(heard)
		}
		return func(l *lane) error { return batch(c.link, l, c.depth, c.depth, write, c.read, check) }, nil
	}}
}

// A stock records which background jobs of this process were submitted and which were taken. Every
// job must be assigned once, with its unique id, body and function.
//
// Of n submitters the i-th stamps its jobs i, i+n, i+2n, …
type stock struct {
	*env
	functions  [][]byte
	submitters []*submitter
	takers     []turn
	control    *gconn

	claims atomic.Int64    // jobs that may still be submitted, or taken
	marks  []atomic.Uint64 // a bit per stamp: taken
	taken  atomic.Uint64
}

// open connects submitters and takers, and a control.
func (s *stock) open(ctx context.Context, submitters, takers int) (err error) {
	for i := range s.Load.Tubes {
		s.functions = append(s.functions, []byte(s.tubeName("f", i)))
	}
	if s.control, err = s.gear(ctx); err != nil {
		return err
	}
	s.submitters, s.takers = make([]*submitter, submitters), make([]turn, takers)
	if err := openAll(ctx, submitters, s.gear, func(i int, c *gconn) error {
		s.submitters[i] = newSubmitter(c, s, i)
		return nil
	}); err != nil {
		return err
	}
	can := func(ctx context.Context) (*gconn, error) { return s.worker(ctx, s.functions) }
	return openAll(ctx, takers, can, func(i int, c *gconn) error {
		s.takers[i] = s.taker(c)
		return nil
	})
}

// submit makes the submitters submit n jobs together, or until the phase is over if n is 0. They
// share n: with fixed parts, a slow submitter would be alone at the end.
func (s *stock) submit(ph *phase, n int64) error {
	s.claims.Store(math.MaxInt64)
	if n > 0 && s.Load.Rate == 0 {
		s.claims.Store(n)
		ph.count = 0
	}
	return ph.all(turnsOf(s.submitters, (*submitter).turn))
}

// fill submits n jobs without measuring.
func (s *stock) fill(n int) error {
	var wg sync.WaitGroup
	for i, a := range s.submitters {
		part := (n + len(s.submitters) - 1 - i) / len(s.submitters)
		wg.Go(func() { s.fail(batch(a.c.link, unmeasured(), part, bulk, a.write, a.c.read, a.check)) })
	}
	wg.Wait()
	return s.failure()
}

// claim reserves the right to n jobs, or to the remaining ones.
func (s *stock) claim(n int) int {
	left := s.claims.Add(-int64(n))
	return int(max(0, int64(n)+min(left, 0)))
}

// submitted counts all submitted jobs. No submitter may be running.
func (s *stock) submitted() (n uint64) {
	for _, a := range s.submitters {
		n += a.n
	}
	return n
}

// audit checks, untimed, that the server has the jobs that were not taken.
func (s *stock) audit(ph *phase) error {
	return ph.untimed(func() error { return s.control.awaitJobs(s.functions, s.submitted()-s.taken.Load()) })
}

// take makes the takers take n jobs. Nothing may be submitted afterwards.
func (s *stock) take(ph *phase, n uint64) error {
	var most uint64
	for _, a := range s.submitters {
		most = max(most, a.n)
	}
	s.marks = make([]atomic.Uint64, most*uint64(len(s.submitters))/64+1)
	s.claims.Store(int64(n))
	ph.count = 0 // the claims are the limit
	if err := ph.all(s.takers); err != nil {
		return err
	}
	return s.audit(ph)
}

// mark checks an assigned job and marks it as taken.
func (s *stock) mark(stamp uint64, function []byte) error {
	n := uint64(len(s.submitters))
	a := s.submitters[stamp%n]
	bit := uint64(1) << (stamp % 64)
	switch {
	case stamp/n >= a.n:
		return fmt.Errorf("job %d of %q was never submitted", stamp, function)
	case !bytes.Equal(a.function, function):
		return fmt.Errorf("job %d of %q was handed out as one of %q", stamp, a.function, function)
	case s.marks[stamp/64].Or(bit)&bit != 0:
		return fmt.Errorf("job %d of %q was handed out twice", stamp, function)
	}
	s.taken.Add(1)
	return nil
}

// A submitter submits background jobs of one function.
type submitter struct {
	c        *gconn
	stock    *stock
	function []byte
	next     uint64 // stamp of the next job
	n        uint64 // jobs created
	handle   []byte // of the last one
	write    func(i int)
	check    func(i int, m *gearman.Message) error
	grown    *milestones // nil: not watched
}

func newSubmitter(c *gconn, s *stock, i int) *submitter {
	a := &submitter{c: c, stock: s, function: s.functions[i%len(s.functions)], next: uint64(i)}
	step := uint64(len(s.submitters))
	a.write = func(int) { c.submit(gearman.SubmitJobBG, a.function, a.next); a.next += step }
	a.check = func(_ int, m *gearman.Message) error {
		if err := c.expectCreated(gearman.SubmitJobBG, m, a.handle); err != nil {
			return err
		}
		a.handle = append(a.handle[:0], m.Args[0]...)
		a.n++
		if a.grown != nil {
			a.grown.add(c.at)
		}
		return nil
	}
	return a
}

func (a *submitter) turn(l *lane) error {
	n := a.stock.claim(a.c.depth)
	if n == 0 {
		return errDone
	}
	return batch(a.c.link, l, n, n, a.write, a.c.read, a.check)
}

// taker returns the turn of a worker that takes depth jobs at once. It claims them first, so every
// GRAB_JOB finds one. It reports them in the write of its next turn, as worker libraries do.
func (s *stock) taker(c *gconn) turn {
	write := func(int) { c.request(gearman.GrabJobUniq) }
	check := func(_ int, m *gearman.Message) error {
		stamp, err := c.expectAssigned(m)
		if err != nil {
			return err
		}
		c.complete(m.Args[0], nil)
		return s.mark(stamp, m.Args[1])
	}
	return func(l *lane) error {
		n := s.claim(c.depth)
		if n > 0 {
			return batch(c.link, l, n, n, write, c.read, check)
		}
		if err := c.flush(); err != nil {
			return err
		}
		return errDone
	}
}

// A steps is a workload of two functions.
type steps struct {
	prepare func(ctx context.Context) error
	measure func(ph *phase) error
}

func (w *steps) setup(ctx context.Context) error { return w.prepare(ctx) }
func (w *steps) run(ph *phase) error             { return w.measure(ph) }

// newBackground has connections that submit jobs of one of tubes functions, depth in a turn. Nobody
// takes them, so the queue grows. The setup submits waiting jobs first.
func newBackground(e *env) workload {
	s := &stock{env: e}
	return &steps{func(ctx context.Context) error {
		if err := s.open(ctx, e.share(e.Load.Conns), 0); err != nil {
			return err
		}
		return s.fill(e.share(e.Load.Waiting))
	}, func(ph *phase) error {
		grown := new(milestones)
		for _, a := range s.submitters {
			a.grown = grown
		}
		if err := s.submit(ph, ph.count); err != nil {
			return err
		}
		e.growth = grown.growth(ph.started)
		return s.audit(ph)
	}}
}

// newGearDrain submits count jobs in its setup, and waiting ones that stay. It measures taking and
// completing count of them, depth at a time on each connection.
func newGearDrain(e *env) workload {
	s, conns, count := &stock{env: e}, e.share(e.Load.Conns), max(1, e.share(int(e.Load.Count)))
	return &steps{func(ctx context.Context) error {
		if err := s.open(ctx, min(conns, 4), conns); err != nil {
			return err
		}
		return s.fill(count + e.share(e.Load.Waiting))
	}, func(ph *phase) error { return s.take(ph, uint64(count)) }}
}

func newGearMemory(e *env) workload {
	s := &stock{env: e}
	open := func(ctx context.Context) error { return s.open(ctx, e.Load.Conns, e.Load.Conns) }
	return &memory{&steps{prepare: open}, func(ph *phase) (int64, error) {
		if err := s.submit(ph, e.Load.Count); err != nil {
			return 0, err
		}
		return int64(s.submitted()), s.audit(ph)
	}, func(ph *phase) error { return s.take(ph, s.submitted()) }}
}

// foreground has clients that submit depth jobs at once and wait for all of their WORK_COMPLETE.
// Workers take the jobs one at a time and return their body. The latency counts from the time at
// which the submission was due or sent to the arrival of the result. The clients and workers of a
// process have their own function. A worker that finds no job sleeps until the server wakes it.
type foreground struct {
	*env
	function []byte
	clients  []*client
	workers  []*gconn
	control  *gconn
}

func newForeground(e *env) workload {
	return &foreground{env: e, clients: make([]*client, e.share(e.Load.Conns)), workers: make([]*gconn, e.share(e.Load.Workers))}
}

func (w *foreground) setup(ctx context.Context) (err error) {
	w.function = []byte(w.tubeName("f", 0))
	if w.control, err = w.gear(ctx); err != nil {
		return err
	}
	if err := openAll(ctx, len(w.clients), w.gear, func(i int, c *gconn) error {
		w.clients[i] = &client{gconn: c, function: w.function, next: uint64(i), step: uint64(len(w.clients)), handles: make([][]byte, c.depth)}
		return nil
	}); err != nil {
		return err
	}
	can := func(ctx context.Context) (*gconn, error) { return w.worker(ctx, [][]byte{w.function}) }
	return openAll(ctx, len(w.workers), can, func(i int, c *gconn) error { w.workers[i] = c; return nil })
}

// stopStamps is the first stamp of the jobs that tell a worker to end. Each has another stamp,
// because a server merges jobs with the same unique id.
const stopStamps = 1 << 63

func (w *foreground) run(ph *phase) error {
	var working sync.WaitGroup
	for _, c := range w.workers {
		working.Go(func() { w.fail(c.work(w.function)) })
	}
	if err := ph.all(turnsOf(w.clients, (*client).turn)); err == nil {
		// Now the jobs that end the workers are the only ones.
		stop := func(i int) { w.control.submit(gearman.SubmitJobBG, w.function, stopStamps+uint64(i)) }
		created := func(_ int, m *gearman.Message) error { return w.control.expectCreated(gearman.SubmitJobBG, m, nil) }
		w.fail(batch(w.control.link, unmeasured(), len(w.workers), bulk, stop, w.control.read, created))
	}
	working.Wait()
	if err := w.failure(); err != nil {
		return err
	}
	return ph.untimed(func() error { return w.control.awaitJobs([][]byte{w.function}, 0) })
}

// A client submits foreground jobs.
type client struct {
	*gconn
	function   []byte
	next, step uint64
	handles    [][]byte // jobs of one turn; an empty handle is done
}

func (a *client) turn(l *lane) error {
	first := a.next
	for range a.handles {
		a.submit(gearman.SubmitJob, a.function, a.next)
		a.next += a.step
	}
	due, err := l.begin(len(a.handles))
	if err != nil {
		return err
	}
	if err := a.ask(); err != nil {
		return err
	}
	var last []byte
	for created, done := 0, 0; done < len(a.handles); {
		m, err := a.read()
		switch {
		case err != nil:
			return err
		case m.Type == gearman.WorkComplete:
			i := slices.IndexFunc(a.handles[:created], func(h []byte) bool { return bytes.Equal(h, m.Args[0]) })
			if i < 0 {
				return a.wrong(gearman.SubmitJob, "one result of each job that was created for this client", m)
			}
			if err := a.expectBody(first + uint64(i)*a.step); err != nil {
				return err
			}
			a.handles[i] = a.handles[i][:0]
			done++
			l.answered(due, a.at)
		case created == len(a.handles):
			return a.wrong(gearman.SubmitJob, "WORK_COMPLETE", m)
		default:
			if err := a.expectCreated(gearman.SubmitJob, m, last); err != nil {
				return err
			}
			a.handles[created] = append(a.handles[created][:0], m.Args[0]...)
			last = a.handles[created]
			created++
		}
	}
	return nil
}

// work does jobs until it gets a stop job.
func (c *gconn) work(function []byte) error {
	for {
		c.request(gearman.GrabJobUniq) // behind the report of the last job, as worker libraries do
		if err := c.ask(); err != nil {
			return err
		}
		m, err := c.read()
		for err == nil && m.Type == gearman.Noop { // a wake-up may be late
			m, err = c.read()
		}
		if err == nil && m.Type == gearman.NoJob {
			c.request(gearman.PreSleep)
			if err := c.ask(); err != nil {
				return err
			}
			if m, err = c.read(); err == nil {
				err = c.expect(gearman.PreSleep, gearman.Noop, m)
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		stamp, err := c.expectAssigned(m)
		if err != nil {
			return err
		}
		if !bytes.Equal(m.Args[1], function) {
			return c.wrong(gearman.GrabJobUniq, "a job of "+string(function), m)
		}
		c.complete(m.Args[0], c.data)
		if stamp >= stopStamps {
			return c.flush()
		}
	}
}
