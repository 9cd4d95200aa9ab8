package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
)

// A load process and its coordinator talk in JSON lines. The process reports
// every stage that it has finished and waits for a line before the next one,
// so that several processes start together and the coordinator can read the
// server's clocks in between:
//
//	plan   → setup      connected, tubes made
//	go     → warm       unmeasured load done
//	go     → measured   with the report
//	go     → end        everything torn down
//
// During the measured stage it also reports progress.
type message struct {
	Stage  string  `json:"stage"`
	Error  string  `json:"error,omitempty"`
	Ops    int64   `json:"ops,omitempty"`
	Report *report `json:"report,omitempty"`
}

// A report is what one process measured.
type report struct {
	Ops         int64         `json:"ops"`
	Wall        time.Duration `json:"wall"`         // without what was excluded
	Unsent      int64         `json:"unsent"`       // arrivals of an open loop that were due and not sent
	Excluded    time.Duration `json:"excluded"`     // wall time that does not count
	ExcludedCPU time.Duration `json:"excluded_cpu"` // server CPU that does not count
	LoadCPU     time.Duration `json:"load_cpu"`     // CPU of this load process
	Commands    []byte        `json:"commands"`     // encoded histogram
	Delivery    []byte        `json:"delivery,omitempty"`
	Memory      *memory       `json:"memory,omitempty"`
	Growth      *growth       `json:"growth,omitempty"`
}

// grace is how long after the end of a phase the last replies may come before
// the run fails: a lost reply must not look like a slow one for ever.
const grace = 20 * time.Second

// workerMain is a load process: plan on the first line of in, then the stages.
func workerMain(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	enc := json.NewEncoder(out)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("load process: no plan: %w", err)
	}
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("load process: bad plan: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	step := make(chan struct{})
	go func() { // the coordinator's end of the pipe closes if it dies
		for {
			if _, err := lines.ReadBytes('\n'); err != nil {
				cancel(errors.New("the coordinator has gone"))
				return
			}
			step <- struct{}{}
		}
	}()
	err = runPlan(ctx, p, func(m message) error {
		if err := enc.Encode(m); err != nil || m.Stage == "progress" || m.Stage == "end" {
			return err
		}
		select {
		case <-step:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		enc.Encode(message{Stage: "failed", Error: err.Error()})
	}
	return err
}

// runPlan runs one process's part of a load. tell is called at the end of
// every stage and may hold it up; calls do not overlap.
func runPlan(ctx context.Context, p plan, tell func(message) error) error {
	e := newEnv(p)
	defer context.AfterFunc(ctx, func() { e.fail(context.Cause(ctx)) })()
	w := p.Load.spec().build(e)
	// On a failure close what is open; after a clean end nothing is.
	defer e.fail(errors.New("run is over"))

	if err := w.setup(ctx); err != nil {
		return fmt.Errorf("setup: %w", firstOf(e, err))
	}
	if err := tell(message{Stage: "setup"}); err != nil {
		return err
	}
	if p.Load.Warmup > 1 {
		if _, err := runPhase(ctx, e, w, p.Load.Warmup, 0, nil); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	if err := tell(message{Stage: "warm"}); err != nil {
		return err
	}
	rep, err := runPhase(ctx, e, w, p.Load.Duration, p.Load.Count, tell)
	if err != nil {
		return err
	}
	if err := tell(message{Stage: "measured", Report: rep}); err != nil {
		return err
	}
	if err := w.teardown(ctx); err != nil {
		return fmt.Errorf("teardown: %w", firstOf(e, err))
	}
	return tell(message{Stage: "end"})
}

// firstOf prefers the failure that closed the connections to its consequences.
func firstOf(e *env, err error) error {
	if first := e.failure(); first != nil {
		return first
	}
	return err
}

// runPhase runs w for d, or count commands over all processes if that is
// sooner. With progress it reports four times a second.
func runPhase(ctx context.Context, e *env, w workload, d time.Duration, count int64, progress func(message) error) (*report, error) {
	load := &e.plan.Load
	ph := &phase{env: e, ctx: ctx, commands: new(latency.Recorder), delivery: new(latency.Recorder)}
	if count > 0 {
		ph.count = max(1, count/int64(load.Processes))
	}
	cpu, err := proc.CPU(os.Getpid())
	if err != nil {
		return nil, err
	}
	ph.started = drive.Now()
	ph.deadline = ph.started + int64(d)
	if load.endless() {
		ph.deadline = math.MaxInt64
	} else {
		watch := time.AfterFunc(2*d+grace, func() {
			e.fail(fmt.Errorf("replies are still missing %v after the end of the phase", d+grace))
		})
		defer watch.Stop()
	}
	done := make(chan error, 1)
	go func() { done <- w.run(ph) }()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case err = <-done:
			running = false
		case <-tick.C:
			if progress != nil {
				if err := progress(message{Stage: "progress", Ops: ph.ops()}); err != nil {
					e.fail(err)
				}
			}
		}
	}
	if err = firstOf(e, err); err != nil {
		return nil, err
	}
	wall := time.Duration(drive.Now()-ph.started) - ph.excludedWall
	after, err := proc.CPU(os.Getpid())
	if err != nil {
		return nil, err
	}
	rep := &report{Ops: ph.ops(), Unsent: ph.unsent(), Wall: wall, Excluded: ph.excludedWall, ExcludedCPU: ph.excludedCPU,
		LoadCPU: after.Total - cpu.Total, Memory: e.mem, Growth: e.growth}
	if rep.Commands, err = latency.Encode(ph.commands.Histogram()); err != nil {
		return nil, err
	}
	if rep.Delivery, err = latency.Encode(ph.delivery.Histogram()); err != nil {
		return nil, err
	}
	return rep, nil
}
