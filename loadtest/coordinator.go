package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
)

// A run is the outcome of one load against one server, once. Times are those
// of the measured phase; the unit stands in each field's JSON name.
type run struct {
	Load     string  `json:"load"`
	Server   string  `json:"server"`
	Round    int     `json:"round"` // from 1
	Ops      int64   `json:"ops"`
	Seconds  float64 `json:"seconds"`
	OpsRate  float64 `json:"ops_per_second"`
	Unsent   int64   `json:"unsent"`               // arrivals due and never sent: the rate was too high for the server
	CPU      float64 `json:"server_cpu_us_per_op"` // user and system; 0: not known
	CPUUser  float64 `json:"server_user_us_per_op"`
	CPUSys   float64 `json:"server_system_us_per_op"`
	Busy     float64 `json:"server_cores_busy"` // server CPU over wall time
	LoadCPU  float64 `json:"load_cpu_us_per_op"`
	LoadBusy float64 `json:"load_cores_busy"`
	// Latency is of commands, or from put to reservation where the workload is about that.
	Latency   latency.Summary `json:"latency"`
	Commands  latency.Summary `json:"command_latency"`
	RSSBefore int64           `json:"rss_before_bytes"` // before the load connected
	RSSAfter  int64           `json:"rss_after_bytes"`  // at the end of the measured phase
	Memory    *memory         `json:"memory,omitempty"`
	Growth    *growth         `json:"growth,omitempty"`
}

// A worker is one load process as the coordinator sees it.
type worker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr *proc.Tail
}

// measure runs l once against the server at addr. pid 0 leaves out what needs
// the server's process. progress gets operations answered so far.
func measure(ctx context.Context, sp *proc.Spawner, l Load, p plan, progress func(ops int64, since time.Duration)) (_ *run, err error) {
	defer func() { // processes that were ended report that as their failure
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	r := &run{Load: l.Name}
	if p.ServerPID != 0 {
		if r.RSSBefore, err = proc.RSS(p.ServerPID); err != nil {
			return nil, err
		}
	}
	p.Run = strconv.FormatInt(int64(os.Getpid()), 36) + strconv.FormatInt(time.Now().UnixMilli()&0xfffffff, 36)
	workers := make([]*worker, l.Processes)
	for i := range workers {
		p.Load, p.Process = l, i
		if workers[i], err = startWorker(ctx, sp, p); err != nil {
			return nil, err
		}
		defer workers[i].kill()
	}
	if _, err := await(workers, "setup", nil); err != nil {
		return nil, err
	}
	if err := proceed(workers); err != nil {
		return nil, err
	}
	if _, err := await(workers, "warm", nil); err != nil {
		return nil, err
	}
	var before, after proc.CPUTime
	if p.ServerPID != 0 {
		if before, err = proc.CPU(p.ServerPID); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	if err := proceed(workers); err != nil {
		return nil, err
	}
	reports, err := await(workers, "measured", func(ops int64) { progress(ops, time.Since(start)) })
	if err != nil {
		return nil, err
	}
	if p.ServerPID != 0 {
		if after, err = proc.CPU(p.ServerPID); err != nil {
			return nil, err
		}
		if r.RSSAfter, err = proc.RSS(p.ServerPID); err != nil {
			return nil, err
		}
	}
	if err := r.add(reports, after.Since(before)); err != nil {
		return nil, err
	}
	if err := proceed(workers); err != nil {
		return nil, err
	}
	if _, err := await(workers, "end", nil); err != nil {
		return nil, err
	}
	for _, w := range workers {
		w.in.Close()
		if err := w.cmd.Wait(); err != nil {
			return nil, fmt.Errorf("load process: %w", err)
		}
	}
	return r, nil
}

// add puts the processes' reports together.
func (r *run) add(reports []*report, cpu proc.CPUTime) error {
	var commands, delivery *latency.Histogram
	var wall, load time.Duration
	var err error
	for _, rep := range reports {
		r.Ops += rep.Ops
		r.Unsent += rep.Unsent
		wall = max(wall, rep.Wall)
		load += rep.LoadCPU
		cpu.Total -= rep.ExcludedCPU
		if rep.ExcludedCPU > 0 { // the split is too coarse to be corrected
			cpu.User, cpu.System = 0, 0
		}
		if rep.Memory != nil {
			r.Memory = rep.Memory
		}
		r.Growth = r.Growth.plus(rep.Growth)
		if commands, err = latency.Merge(commands, rep.Commands); err != nil {
			return err
		}
		if delivery, err = latency.Merge(delivery, rep.Delivery); err != nil {
			return err
		}
	}
	if r.Ops == 0 || wall <= 0 {
		return fmt.Errorf("load %q: no operation was answered in %v", r.Load, wall)
	}
	ops := float64(r.Ops)
	us := func(d time.Duration) float64 { return float64(d) / 1e3 / ops }
	r.Seconds = wall.Seconds()
	r.OpsRate = ops / r.Seconds
	r.CPU, r.CPUUser, r.CPUSys = us(cpu.Total), us(cpu.User), us(cpu.System)
	r.LoadCPU = us(load)
	r.Busy, r.LoadBusy = cpu.Total.Seconds()/r.Seconds, load.Seconds()/r.Seconds
	r.Commands = latency.Summarize(commands)
	r.Latency = r.Commands
	if delivery != nil {
		r.Latency = latency.Summarize(delivery)
	}
	return nil
}

func startWorker(ctx context.Context, sp *proc.Spawner, p plan) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.CommandContext(ctx, self, "worker"), stderr: &proc.Tail{}}
	w.cmd.Stderr = w.stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = json.NewDecoder(bufio.NewReader(out))
	if err := sp.Start(w.cmd, p.Load.LoadCPUs); err != nil {
		return nil, err
	}
	return w, json.NewEncoder(w.in).Encode(p)
}

// kill ends a process that has not ended by itself.
func (w *worker) kill() {
	if w.cmd.ProcessState == nil {
		w.cmd.Process.Kill()
		w.cmd.Wait()
	}
}

func proceed(workers []*worker) error {
	for _, w := range workers {
		if _, err := io.WriteString(w.in, "go\n"); err != nil {
			return fmt.Errorf("load process: %w", err)
		}
	}
	return nil
}

// await reads every process's messages until each has reached stage. The
// first failure ends the wait.
func await(workers []*worker, stage string, progress func(ops int64)) ([]*report, error) {
	type from struct {
		i   int
		m   message
		err error
	}
	messages := make(chan from, 1)
	quit := make(chan struct{})
	defer close(quit)
	for i, w := range workers {
		go func() {
			for {
				var f from
				f.i = i
				f.err = w.out.Decode(&f.m)
				select {
				case messages <- f:
				case <-quit:
					return
				}
				if f.err != nil || f.m.Stage != "progress" {
					return
				}
			}
		}()
	}
	reports := make([]*report, len(workers))
	ops := make([]int64, len(workers))
	for missing := len(workers); missing > 0; {
		f := <-messages
		switch {
		case f.err != nil:
			return nil, fmt.Errorf("load process %d ended without a word (%w); its output: %s", f.i, f.err, workers[f.i].stderr)
		case f.m.Stage == "failed":
			return nil, fmt.Errorf("load process %d: %s", f.i, strings.TrimSpace(f.m.Error))
		case f.m.Stage == stage:
			reports[f.i] = f.m.Report
			missing--
		case f.m.Stage == "progress" && progress != nil:
			ops[f.i] = f.m.Ops
			var sum int64
			for _, n := range ops {
				sum += n
			}
			progress(sum)
		case f.m.Stage != "progress":
			return nil, fmt.Errorf("load process %d: expected stage %q, got %q", f.i, stage, f.m.Stage)
		}
	}
	return reports, nil
}
