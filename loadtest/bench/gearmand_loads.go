package bench

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"polystalk/codec/gearman"
)

// One operation is one echo, or one job that is submitted, taken or completed: each workload says
// which. Gearman does not answer every request.
var gearmandWorkloads = map[string]spec{
	"background": {help: "submit background jobs that nobody takes, with unique ids, into -tubes functions (default 1)",
		defaults: Load{Tubes: 1}, traits: onceCounted, setup: setupBackground},
	"foreground": {help: "-conns clients submit and wait, -workers workers do it (default a quarter): latency to WORK_COMPLETE",
		traits: workers, setup: setupForeground},
	"drain": {help: "workers take and complete -count jobs that were submitted before (default 200000)",
		defaults: Load{Count: 200_000, Tubes: 1}, traits: once | unpaced, setup: setupGearDrain},
	"echo": {help: "ECHO_REQ with a body that must come back", setup: setupEcho},
	"memory": {help: "resident memory of -count waiting jobs (default 1000000), and after their drain",
		defaults: Load{Count: 1_000_000, Conns: 4, Depth: 64, Tubes: 1}, traits: once | unpaced, setup: setupGearMemory},
}

// setupEcho has connections that send depth requests in a turn, then read the replies and check that
// each returns the body that was sent; a stamp makes each body different. The bodies of a turn must
// be smaller than what a server buffers for a client that does not read.
func setupEcho(ctx context.Context, e *env) (runner, error) {
	return e.uniform(ctx, func(_ int, c *Conn) (turn, error) {
		var sent, heard uint64
		write := func(int) { sent++; c.stampBody(sent); c.request(gearman.EchoReq, c.body) }
		check := func(int) error {
			heard++
			if err := c.expectPacket(gearman.EchoReq, gearman.EchoRes); err != nil {
				return err
			}
			return c.expectBody(heard)
		}
		return func(l *lane) error { return c.batch(l, c.depth, c.depth, write, check) }, nil
	})
}

// A stock records which background jobs were submitted and which were taken. Every job must be
// assigned once, with its unique id, body and function. The stamps of jobs count up from 0; the job
// with the stamp n belongs to the function n modulo the number of functions.
type stock struct {
	*env
	functions [][]byte
	submits   []turn
	fills     []func(n int) error // submits n jobs in bulk
	takes     []turn
	control   *Conn

	next    atomic.Uint64   // the next stamp
	created atomic.Uint64   // jobs that the server acknowledged
	claims  atomic.Int64    // jobs that may still be submitted, or taken
	marks   []atomic.Uint64 // a bit per stamp: taken
	taken   atomic.Uint64
	grown   milestones // of submissions
}

// newStock connects submitters and takers, and a control.
func newStock(ctx context.Context, e *env, submitters, takers int) (s *stock, err error) {
	s = &stock{env: e, submits: make([]turn, submitters), fills: make([]func(int) error, submitters), takes: make([]turn, takers)}
	for i := range e.Load.Tubes {
		s.functions = append(s.functions, []byte(s.tubeName("f", i)))
	}
	if s.control, err = e.open(ctx); err != nil {
		return s, err
	}
	return s, e.openAll(ctx, submitters+takers, func(i int, c *Conn) error {
		if i < submitters {
			s.submits[i], s.fills[i] = s.submitter(c)
			return nil
		}
		s.takes[i-submitters] = s.taker(c)
		return c.can(s.functions)
	})
}

// submitter returns the functions of a connection that submits jobs.
func (s *stock) submitter(c *Conn) (turn, func(n int) error) {
	var last []byte // handle
	write := func(int) {
		stamp := s.next.Add(1) - 1
		c.submit(gearman.SubmitJobBG, s.function(stamp), stamp)
	}
	check := func(int) error {
		if err := c.expectCreated(gearman.SubmitJobBG, last); err != nil {
			return err
		}
		last = append(last[:0], c.Msg.Args[0]...)
		s.created.Add(1)
		s.grown.add(c.at)
		return nil
	}
	return func(l *lane) error {
		n := s.claim(c.depth)
		if n == 0 {
			return errDone
		}
		return c.batch(l, n, n, write, check)
	}, func(n int) error { return c.batch(unmeasured(), n, bulk, write, check) }
}

func (s *stock) function(stamp uint64) []byte { return s.functions[stamp%uint64(len(s.functions))] }

// submit makes the submitters submit n jobs together, or until the phase is over if n is 0. They
// share n: with fixed parts, a slow submitter would be alone at the end.
func (s *stock) submit(ph *phase, n int64) error {
	s.claims.Store(math.MaxInt64)
	if n > 0 && s.Load.Rate == 0 {
		s.claims.Store(n)
		ph.count = 0
	}
	return ph.all(s.submits)
}

// fill submits n jobs without measuring.
func (s *stock) fill(n int) error {
	var wg sync.WaitGroup
	for i, fill := range s.fills {
		part := (n + len(s.fills) - 1 - i) / len(s.fills)
		wg.Go(func() { s.fail(fill(part)) })
	}
	wg.Wait()
	return s.failure()
}

// claim reserves the right to n jobs, or to the remaining ones.
func (s *stock) claim(n int) int {
	left := s.claims.Add(-int64(n))
	return int(max(0, int64(n)+min(left, 0)))
}

// audit checks, untimed, that the server has the jobs that were not taken.
func (s *stock) audit(ph *phase) error {
	return ph.untimed(func() error { return s.control.awaitJobs(s.functions, s.created.Load()-s.taken.Load()) })
}

// take makes the takers take n jobs. Nothing may be submitted afterwards.
func (s *stock) take(ph *phase, n uint64) error {
	s.marks = make([]atomic.Uint64, s.created.Load()/64+1)
	s.claims.Store(int64(n))
	ph.count = 0 // the claims are the limit
	if err := ph.all(s.takes); err != nil {
		return err
	}
	return s.audit(ph)
}

// mark checks an assigned job and marks it as taken.
func (s *stock) mark(stamp uint64, function []byte) error {
	bit := uint64(1) << (stamp % 64)
	switch {
	case stamp >= s.created.Load():
		return fmt.Errorf("job %d of %q was never submitted", stamp, function)
	case !bytes.Equal(s.function(stamp), function):
		return fmt.Errorf("job %d of %q was handed out as one of %q", stamp, s.function(stamp), function)
	case s.marks[stamp/64].Or(bit)&bit != 0:
		return fmt.Errorf("job %d of %q was handed out twice", stamp, function)
	}
	s.taken.Add(1)
	return nil
}

// taker returns the turn of a worker that takes depth jobs at once. It claims them first, so every
// GRAB_JOB finds one. It reports them in the write of its next turn, as worker libraries do.
func (s *stock) taker(c *Conn) turn {
	write := func(int) { c.request(gearman.GrabJobUniq) }
	check := func(int) error {
		stamp, err := c.expectAssigned()
		if err != nil {
			return err
		}
		c.complete(nil)
		return s.mark(stamp, c.Msg.Args[1])
	}
	return func(l *lane) error {
		n := s.claim(c.depth)
		if n > 0 {
			return c.batch(l, n, n, write, check)
		}
		if err := c.Flush(); err != nil {
			return err
		}
		return errDone
	}
}

// setupBackground has connections that submit jobs, depth in a turn. Nobody takes them, so the queue
// grows. Waiting jobs are submitted first.
func setupBackground(ctx context.Context, e *env) (runner, error) {
	s, err := newStock(ctx, e, e.Load.Conns, 0)
	if err == nil {
		err = s.fill(e.Load.Waiting)
	}
	return func(ph *phase) error {
		s.grown = milestones{}
		if err := s.submit(ph, ph.count); err != nil {
			return err
		}
		e.growth = s.grown.growth(ph.started)
		return s.audit(ph)
	}, err
}

// setupGearDrain submits count jobs, and waiting ones that stay. The run takes and completes count
// of them, depth at a time on each connection.
func setupGearDrain(ctx context.Context, e *env) (runner, error) {
	s, err := newStock(ctx, e, min(e.Load.Conns, 4), e.Load.Conns)
	if err == nil {
		err = s.fill(int(e.Load.Count) + e.Load.Waiting)
	}
	return func(ph *phase) error { return s.take(ph, uint64(e.Load.Count)) }, err
}

func setupGearMemory(ctx context.Context, e *env) (runner, error) {
	s, err := newStock(ctx, e, e.Load.Conns, e.Load.Conns)
	return memoryRunner(func(ph *phase) (int64, error) {
		if err := s.submit(ph, e.Load.Count); err != nil {
			return 0, err
		}
		return int64(s.created.Load()), s.audit(ph)
	}, func(ph *phase) error { return s.take(ph, s.created.Load()) }), err
}

// stopStamps is the first stamp of the jobs that tell a worker to end. Each has another stamp,
// because a server merges jobs with the same unique id.
const stopStamps = 1 << 63

// setupForeground has clients that submit depth jobs at once and wait for all of their WORK_COMPLETE.
// Workers take the jobs one at a time and return their body. The latency counts from the time at
// which the submission was due or sent to the arrival of the result. A worker that finds no job
// sleeps until the server wakes it.
func setupForeground(ctx context.Context, e *env) (runner, error) {
	function := []byte(e.tubeName("f", 0))
	clients, workers := make([]turn, e.Load.Conns), make([]*Conn, e.Load.Workers)
	control, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	return func(ph *phase) error {
			var working sync.WaitGroup
			for _, c := range workers {
				working.Go(func() { e.fail(c.work(function)) })
			}
			if err := ph.all(clients); err == nil {
				// Now the jobs that end the workers are the only ones.
				stop := func(i int) { control.submit(gearman.SubmitJobBG, function, stopStamps+uint64(i)) }
				created := func(int) error { return control.expectCreated(gearman.SubmitJobBG, nil) }
				e.fail(control.batch(unmeasured(), len(workers), bulk, stop, created))
			}
			working.Wait()
			if err := e.failure(); err != nil {
				return err
			}
			return ph.untimed(func() error { return control.awaitJobs([][]byte{function}, 0) })
		}, e.openAll(ctx, len(clients)+len(workers), func(i int, c *Conn) error {
			if i < len(clients) {
				clients[i] = (&client{Conn: c, function: function, next: uint64(i), step: uint64(len(clients)), handles: make([][]byte, c.depth)}).turn
				return nil
			}
			workers[i-len(clients)] = c
			return c.can([][]byte{function})
		})
}

// A client submits foreground jobs.
type client struct {
	*Conn
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
		err := a.ReadPacket()
		switch {
		case err != nil:
			return err
		case a.Msg.Type == gearman.WorkComplete:
			i := slices.IndexFunc(a.handles[:created], func(h []byte) bool { return bytes.Equal(h, a.Msg.Args[0]) })
			if i < 0 {
				return a.wrongPacket(gearman.SubmitJob, "one result of each job that was created for this client")
			}
			if err := a.expectBody(first + uint64(i)*a.step); err != nil {
				return err
			}
			a.handles[i] = a.handles[i][:0]
			done++
			l.answered(due, a.at)
		case created == len(a.handles):
			return a.wrongPacket(gearman.SubmitJob, "WORK_COMPLETE")
		default:
			if err := a.expectCreated(gearman.SubmitJob, last); err != nil {
				return err
			}
			a.handles[created] = append(a.handles[created][:0], a.Msg.Args[0]...)
			last = a.handles[created]
			created++
		}
	}
	return nil
}

// work does jobs until it gets a stop job.
func (c *Conn) work(function []byte) error {
	for {
		c.request(gearman.GrabJobUniq) // behind the report of the last job, as worker libraries do
		err := c.exchange()
		for err == nil && c.Msg.Type == gearman.Noop { // a wake-up may be late
			err = c.ReadPacket()
		}
		if err == nil && c.Msg.Type == gearman.NoJob {
			c.request(gearman.PreSleep)
			if err = c.exchange(); err == nil {
				err = c.expectPacket(gearman.PreSleep, gearman.Noop)
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		stamp, err := c.expectAssigned()
		if err != nil {
			return err
		}
		if !bytes.Equal(c.Msg.Args[1], function) {
			return c.wrongPacket(gearman.GrabJobUniq, "a job of "+string(function))
		}
		c.complete(c.Data)
		if stamp >= stopStamps {
			return c.Flush()
		}
	}
}
