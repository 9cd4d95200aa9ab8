package gearmand

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"polystalk/codec/gearman"
	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// fillDepth is how many jobs are in flight on a connection where speed is all
// that counts: outside the measurement.
const fillDepth = 256

// A stock is the background jobs of this process: which were submitted,
// and which were taken since. Every job must come out once, with the unique id
// and the body that it went in with, as a job of its function.
//
// Of n submitters the i-th stamps its jobs i, i+n, i+2n, …
type stock struct {
	env
	functions  [][]byte
	submitters []*submitter
	control    *conn

	claims atomic.Int64    // jobs that may still be submitted, or taken
	marks  []atomic.Uint64 // a bit per stamp: taken
	taken  atomic.Uint64
}

// open connects n submitters, and a control.
func (s *stock) open(ctx context.Context, n int) error {
	s.functions = make([][]byte, s.Plan.Load.Tubes)
	for i := range s.functions {
		s.functions[i] = []byte(s.TubeName("f", i))
	}
	s.submitters = make([]*submitter, n)
	var err error
	if s.control, err = s.connect(ctx); err != nil {
		return err
	}
	_, err = workload.OpenAll(ctx, n, s.connect, func(i int, c *conn) error {
		s.submitters[i] = newSubmitter(c, s, i)
		return nil
	})
	return err
}

// fill submits n jobs as fast as it goes.
func (s *stock) fill(n int) error {
	var wg sync.WaitGroup
	for i, a := range s.submitters {
		part := (n + len(s.submitters) - 1 - i) / len(s.submitters)
		wg.Go(func() { s.Fail(a.c.batch(workload.UnmeasuredLane(), part, fillDepth, a.write, a.check)) })
	}
	wg.Wait()
	return s.Failure()
}

// submit runs the submitters. A count is theirs together: with a part for each, a
// slow one would be alone at the end, and the last rate not that of all.
func (s *stock) submit(ph *workload.Phase) error {
	s.claims.Store(math.MaxInt64)
	if ph.Count > 0 && s.Plan.Load.Rate == 0 {
		s.claims.Store(ph.Count)
		ph.Count = 0
	}
	return workload.RunActors(ph, s.submitters)
}

// claim reserves the right to n jobs, or to what is left.
func (s *stock) claim(n int) int {
	left := s.claims.Add(-int64(n))
	return int(max(0, int64(n)+min(left, 0)))
}

// submitted counts all jobs ever submitted. For use while nobody submits.
func (s *stock) submitted() uint64 {
	var n uint64
	for _, a := range s.submitters {
		n += a.n
	}
	return n
}

// functionOf is the function of the job of that stamp, if it was submitted.
func (s *stock) functionOf(stamp uint64) ([]byte, bool) {
	n := uint64(len(s.submitters))
	a := s.submitters[stamp%n]
	return a.function, stamp/n < a.n
}

// tally makes ready to mark what is taken. Nothing is submitted after that.
func (s *stock) tally() {
	var most uint64
	for _, a := range s.submitters {
		most = max(most, a.n)
	}
	if s.marks == nil {
		s.marks = make([]atomic.Uint64, most*uint64(len(s.submitters))/64+1)
	}
}

// take marks a job as taken.
func (s *stock) take(stamp uint64, function []byte) error {
	wanted, ok := s.functionOf(stamp)
	if !ok {
		return fmt.Errorf("job %d of %q was never submitted", stamp, function)
	}
	if string(wanted) != string(function) {
		return fmt.Errorf("job %d of %q came as one of %q", stamp, wanted, function)
	}
	bit := uint64(1) << (stamp % 64)
	if s.marks[stamp/64].Or(bit)&bit != 0 {
		return fmt.Errorf("job %d of %q was given out twice", stamp, function)
	}
	s.taken.Add(1)
	return nil
}

// audit checks that the server has the jobs that were not taken. The time of that
// is taken off the measurement.
func (s *stock) audit(ph *workload.Phase) error {
	return ph.Untimed(func() error { return s.control.awaitJobs(s.functions, s.submitted()-s.taken.Load()) })
}

// everyone lets takers take n jobs.
func (s *stock) everyone(ph *workload.Phase, takers []*taker, n uint64) error {
	s.tally()
	s.claims.Store(int64(n))
	ph.Count = 0 // the claims are the bound
	if err := workload.RunActors(ph, takers); err != nil {
		return err
	}
	for _, a := range takers {
		if err := a.c.Flush(); err != nil {
			return err
		}
	}
	return s.audit(ph)
}

// clear takes what is left, and leaves no trace on a server that goes on.
func (s *stock) clear(ctx context.Context) error {
	if s.Plan.Throwaway {
		return s.QuitAll()
	}
	if left := s.submitted() - s.taken.Load(); left > 0 {
		a, err := s.worker(ctx)
		if err != nil {
			return err
		}
		a.c.depth = fillDepth
		ph := workload.UnmeasuredPhase(ctx, s.Env)
		if err := s.everyone(ph, []*taker{a}, left); err != nil {
			return err
		}
	}
	control := s.control
	if err := s.QuitAllBut(control); err != nil {
		return err
	}
	if err := control.drop(s.functions); err != nil {
		return err
	}
	return s.Quit(control)
}

// worker connects a taker of all functions.
func (s *stock) worker(ctx context.Context) (*taker, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range s.functions {
		c.request(gearman.CanDo, f)
	}
	return &taker{c: c, stock: s}, c.Flush()
}

// A submitter submits background jobs of one function.
type submitter struct {
	c        *conn
	stock    *stock
	function []byte
	next     uint64 // stamp of the next job
	n        uint64 // jobs created
	handle   []byte // of the last one
	write    func(i int)
	check    func(i int, m *gearman.Message) error
	grown    *workload.Milestones // nil: not watched
}

func newSubmitter(c *conn, s *stock, i int) *submitter {
	a := &submitter{c: c, stock: s, function: s.functions[i%len(s.functions)], next: uint64(i)}
	step := uint64(len(s.submitters))
	a.write = func(int) { c.submit(gearman.SubmitJobBG, a.function, a.next); a.next += step }
	a.check = func(_ int, m *gearman.Message) error {
		if err := c.created(gearman.SubmitJobBG, m, a.handle); err != nil {
			return err
		}
		a.handle = append(a.handle[:0], m.Args[0]...)
		a.n++
		if a.grown != nil {
			a.grown.Add(c.At)
		}
		return nil
	}
	return a
}

func (a *submitter) Turn(l *drive.Lane) error {
	n := a.stock.claim(a.c.depth)
	if n == 0 {
		return workload.ErrDone
	}
	return a.c.batch(l, n, n, a.write, a.check)
}

// A taker is a worker that takes depth jobs a turn. It claims them first,
// so that there is one for every GRAB. What it took is reported in the write of
// the next turn, as worker libraries do.
type taker struct {
	c     *conn
	stock *stock
}

func (a *taker) Turn(l *drive.Lane) error {
	c := a.c
	n := a.stock.claim(c.depth)
	if n == 0 {
		return workload.ErrDone
	}
	grab := func(int) { c.request(gearman.GrabJobUniq) }
	return c.batch(l, n, n, grab, a.check)
}

func (a *taker) check(_ int, m *gearman.Message) error {
	stamp, err := a.c.assigned(m)
	if err != nil {
		return err
	}
	if err := a.stock.take(stamp, m.Args[1]); err != nil {
		return err
	}
	a.c.complete(m.Args[0], nil)
	return nil
}
