package workload

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
)

// A Phase is one timed stretch of a workload in one process. Times are those of
// drive.Now.
type Phase struct {
	Ctx      context.Context
	Started  int64
	Deadline int64
	Count    int64 // commands over all lanes; 0: by the deadline alone
	Commands *latency.Recorder
	Delivery *latency.Recorder

	env     *Env
	lanesMu sync.Mutex
	lanes   []*drive.Lane

	excludedCPU, excludedWall time.Duration // do not count
}

func newPhase(ctx context.Context, e *Env) *Phase {
	return &Phase{Ctx: ctx, Commands: new(latency.Recorder), Delivery: new(latency.Recorder), env: e}
}

// UnmeasuredPhase is one without an end, whose figures nobody reads: for what a
// Setup or Teardown does with actors.
func UnmeasuredPhase(ctx context.Context, e *Env) *Phase {
	ph := newPhase(ctx, e)
	ph.Deadline = math.MaxInt64
	return ph
}

// UnmeasuredLane is a lane for work that is not part of a phase.
func UnmeasuredLane() *drive.Lane {
	return &drive.Lane{Commands: new(latency.Recorder), Delivery: new(latency.Recorder)}
}

// Lane returns lane i of n paced lanes; paced is false for consumers, whose
// commands follow from others'. The caller ends it.
func (ph *Phase) Lane(i, n int, paced bool) (*drive.Lane, error) {
	load := &ph.env.Plan.Load
	l := &drive.Lane{Commands: ph.Commands, Delivery: ph.Delivery, Deadline: ph.Deadline}
	if ph.Count > 0 {
		l.Budget = max(1, ph.Count/int64(n))
	}
	if paced && load.Rate > 0 {
		// Lanes of all processes share the rate; this process's are every Processes-th.
		if err := l.OpenLoop(ph.Started, load.Rate, i*load.Processes+ph.env.Plan.Process, n*load.Processes, load.Arrivals == "poisson"); err != nil {
			return nil, err
		}
	}
	ph.lanesMu.Lock()
	ph.lanes = append(ph.lanes, l)
	ph.lanesMu.Unlock()
	return l, nil
}

// ops returns the commands answered so far; safe while the phase runs.
func (ph *Phase) ops() int64 {
	ph.lanesMu.Lock()
	defer ph.lanesMu.Unlock()
	var n int64
	for _, l := range ph.lanes {
		n += l.Ops()
	}
	return n
}

// unsent adds up what open-loop lanes did not send. For use after the phase.
func (ph *Phase) unsent() int64 {
	var n int64
	for _, l := range ph.lanes {
		n += l.Unsent()
	}
	return n
}

// RunActors gives every actor a goroutine and turns until the phase is over.
func RunActors[A Actor](ph *Phase, actors []A) error {
	var wg sync.WaitGroup
	for i, a := range actors {
		l, err := ph.Lane(i, len(actors), true)
		if err != nil {
			ph.env.Fail(err)
			break
		}
		wg.Go(func() { ph.env.Fail(ph.Turns(a, l)) })
	}
	wg.Wait()
	return ph.env.Failure()
}

// ErrDone is returned by a turn that finds nothing left to do.
var ErrDone = errors.New("nothing left to do")

// Turns lets a take turns until the phase is over, and ends l.
func (ph *Phase) Turns(a Actor, l *drive.Lane) error {
	defer l.End()
	for l.More() && ph.Ctx.Err() == nil {
		if err := a.Turn(l); errors.Is(err, ErrDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Exclude runs f outside the measurement: its time and the server's CPU are
// taken off. It is exact only while nothing else drives the server, so it is
// for workloads with one connection.
func (ph *Phase) Exclude(f func() error) error {
	pid := ph.env.Plan.ServerPID
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

// Untimed runs f, whose time does not count; what the server does in it does.
func (ph *Phase) Untimed(f func() error) error {
	t := drive.Now()
	err := f()
	ph.excludedWall += time.Duration(drive.Now() - t)
	return err
}

// Excluded is the wall time so far that does not count.
func (ph *Phase) Excluded() time.Duration { return ph.excludedWall }

// Rest waits; the time does not count, what the server does in it does.
func (ph *Phase) Rest(d time.Duration) error {
	ph.excludedWall += d
	select {
	case <-time.After(d):
		return nil
	case <-ph.env.Done():
		return ph.env.Failure()
	}
}
