package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
)

// A Stage is how far a load process has come.
type Stage string

const (
	Prepared  Stage = "setup"    // connected, tubes made
	Warm      Stage = "warm"     // the unmeasured load is done
	Measured  Stage = "measured" // the measured one, too; with the report
	Ended     Stage = "end"      // everything is torn down
	Advancing Stage = "progress" // several times before Measured; with the operations so far
	Failed    Stage = "failed"   // instead of any of them; with the error
)

// A Message is what a load process tells of its stage.
type Message struct {
	Stage  Stage   `json:"stage"`
	Error  string  `json:"error,omitempty"`
	Ops    int64   `json:"ops,omitempty"`
	Report *Report `json:"report,omitempty"`
}

// A Report is what one process measured.
type Report struct {
	Ops         int64         `json:"ops"`
	Wall        time.Duration `json:"wall"`         // without what was excluded
	Unsent      int64         `json:"unsent"`       // arrivals of an open loop that were due and not sent
	Excluded    time.Duration `json:"excluded"`     // wall time that does not count
	ExcludedCPU time.Duration `json:"excluded_cpu"` // server CPU that does not count
	LoadCPU     time.Duration `json:"load_cpu"`     // CPU of this load process
	Commands    []byte        `json:"commands"`     // encoded histogram
	Delivery    []byte        `json:"delivery,omitempty"`
	Memory      *Memory       `json:"memory,omitempty"`
	Growth      *Growth       `json:"growth,omitempty"`
}

// Grace is how long after the end of a phase the last replies may come before
// the run fails: a lost reply must not look like a slow one for ever.
const Grace = 20 * time.Second

// Run runs one process's part of a load in the protocol proto. tell is called at
// the end of every stage and may hold up the next one; calls do not overlap.
func Run(ctx context.Context, proto *Protocol, p Plan, tell func(Message) error) error {
	e := newEnv(p)
	defer context.AfterFunc(ctx, func() { e.Fail(context.Cause(ctx)) })()
	w := proto.Spec(p.Load).Build(e)
	// On a failure close what is open; after a clean end nothing is.
	defer e.Fail(errors.New("run is over"))

	if err := w.Setup(ctx); err != nil {
		return fmt.Errorf("setup: %w", firstOf(e, err))
	}
	if err := tell(Message{Stage: Prepared}); err != nil {
		return err
	}
	if p.Load.Warmup > 1 {
		ph := newPhase(ctx, e)
		if _, err := ph.measure(w, proto.Endless(p.Load), p.Load.Warmup, nil); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	if err := tell(Message{Stage: Warm}); err != nil {
		return err
	}
	ph := newPhase(ctx, e)
	if p.Load.Count > 0 {
		ph.Count = max(1, p.Load.Count/int64(p.Load.Processes))
	}
	rep, err := ph.measure(w, proto.Endless(p.Load), p.Load.Duration, tell)
	if err != nil {
		return err
	}
	if err := tell(Message{Stage: Measured, Report: rep}); err != nil {
		return err
	}
	if err := w.Teardown(ctx); err != nil {
		return fmt.Errorf("teardown: %w", firstOf(e, err))
	}
	return tell(Message{Stage: Ended})
}

// firstOf prefers the failure that closed the connections to its consequences.
func firstOf(e *Env, err error) error {
	if first := e.Failure(); first != nil {
		return first
	}
	return err
}

// measure runs w for d, or until the phase has its count if that is sooner; if
// it is endless, until w ends by itself. tell, if there is one, hears of the
// progress.
func (ph *Phase) measure(w Workload, endless bool, d time.Duration, tell func(Message) error) (*Report, error) {
	e := ph.env
	cpu, err := proc.CPU(os.Getpid())
	if err != nil {
		return nil, err
	}
	ph.Started = drive.Now()
	ph.Deadline = ph.Started + int64(d)
	if endless {
		ph.Deadline = math.MaxInt64
	} else {
		watch := time.AfterFunc(2*d+Grace, func() {
			e.Fail(fmt.Errorf("replies are still missing %v after the end of the phase", d+Grace))
		})
		defer watch.Stop()
	}
	if err := firstOf(e, ph.watch(w, tell)); err != nil {
		return nil, err
	}
	wall := time.Duration(drive.Now()-ph.Started) - ph.excludedWall
	after, err := proc.CPU(os.Getpid())
	if err != nil {
		return nil, err
	}
	rep := &Report{Ops: ph.ops(), Unsent: ph.unsent(), Wall: wall, Excluded: ph.excludedWall, ExcludedCPU: ph.excludedCPU,
		LoadCPU: after.Total - cpu.Total, Memory: e.Memory, Growth: e.Growth}
	if rep.Commands, err = latency.Encode(ph.Commands.Histogram()); err != nil {
		return nil, err
	}
	if rep.Delivery, err = latency.Encode(ph.Delivery.Histogram()); err != nil {
		return nil, err
	}
	return rep, nil
}

// watch runs w, and tells how far it is four times a second.
func (ph *Phase) watch(w Workload, tell func(Message) error) error {
	done := make(chan error, 1)
	go func() { done <- w.Run(ph) }()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if tell == nil {
				continue
			}
			if err := tell(Message{Stage: Advancing, Ops: ph.ops()}); err != nil {
				ph.env.Fail(err)
			}
		}
	}
}
