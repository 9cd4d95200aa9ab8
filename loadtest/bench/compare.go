package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Run is the outcome of one run of a load against a server. Times are of the measured phase. The
// JSON names have the units.
type Run struct {
	Load      string  `json:"load"`
	Server    string  `json:"server"`
	Round     int     `json:"round"` // from 1
	Ops       int64   `json:"ops"`
	Seconds   float64 `json:"seconds"`
	OpsRate   float64 `json:"ops_per_second"`
	Unsent    int64   `json:"unsent"`               // arrivals that were due but never sent, because the server was too slow
	CPU       float64 `json:"server_cpu_us_per_op"` // user and system; 0: not known
	Busy      float64 `json:"server_cores_busy"`    // server CPU over wall time
	LoadCPU   float64 `json:"load_cpu_us_per_op"`
	LoadBusy  float64 `json:"load_cores_busy"`
	Latency   Latency `json:"latency"`          // of commands, unless the workload defines another
	RSSBefore int64   `json:"rss_before_bytes"` // before the load connected
	RSSAfter  int64   `json:"rss_after_bytes"`  // at the end of the measured phase
	Memory    Memory  `json:"memory,omitzero"`
	Growth    growth  `json:"growth,omitzero"`
}

// add combines the reports of all processes. cpu is the server's CPU time meanwhile.
func (r *Run) add(reports []*report, cpu time.Duration) error {
	var rec Recorder
	var wall, load time.Duration
	for _, rep := range reports {
		r.Ops += rep.Ops
		r.Unsent += rep.Unsent
		wall = max(wall, rep.Wall)
		load += rep.LoadCPU
		cpu -= rep.ExcludedCPU
		r.Memory = cmp.Or(r.Memory, rep.Memory)
		r.Growth.Early += rep.Growth.Early
		r.Growth.Late += rep.Growth.Late
		if err := rec.merge(rep.Latency); err != nil {
			return err
		}
	}
	if r.Ops == 0 || wall <= 0 {
		return fmt.Errorf("load %q: no operation was answered in %v", r.Load, wall)
	}
	ops := float64(r.Ops)
	r.Seconds = wall.Seconds()
	r.OpsRate = ops / r.Seconds
	r.CPU, r.LoadCPU = cpu.Seconds()*1e6/ops, load.Seconds()*1e6/ops
	r.Busy, r.LoadBusy = cpu.Seconds()/r.Seconds, load.Seconds()/r.Seconds
	r.Latency = rec.Take()
	return nil
}

// A comparison runs every load against every target, in several rounds.
type comparison struct {
	protocol *Protocol
	loads    []Load
	targets  []Target // the first one is the baseline of all ratios
	rounds   int
	progress io.Writer
	spawner  Spawner
}

// run interleaves the runs: in each round every load meets every target, each in a fresh process,
// so a slow minute of the machine affects all of them. The first target changes with each round.
// After an error run also returns the runs before it.
func (c *comparison) run(ctx context.Context) ([]Run, error) {
	var runs []Run
	for round := range c.rounds {
		for _, l := range c.loads {
			for i := range c.targets {
				t := &c.targets[(i+round)%len(c.targets)]
				skip := t.Constant && !c.protocol.workloads[l.Workload].is(constant) // the floor keeps no jobs
				if skip || l.Rounds > 0 && round >= l.Rounds || slices.Contains(l.Skip, t.Name) {
					continue
				}
				r, err := c.one(ctx, l, t)
				if err != nil {
					return runs, fmt.Errorf("load %q on %s, round %d: %w", l.Name, t.Name, round+1, err)
				}
				r.Round, r.Server = round+1, t.Name
				runs = append(runs, *r)
				fmt.Fprintf(c.progress, "round %d  %s  %s  %.0f ops/s  cpu %.3f µs/op (server busy %.0f%%)  p50 %.0f  p99 %.0f  p99.9 %.0f  max %.0f µs",
					r.Round, l.Name, t.Name, r.OpsRate, r.CPU, 100*r.Busy, r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max)
				if r.Unsent > 0 {
					fmt.Fprintf(c.progress, "  TOO SLOW: %d arrivals were due and never sent", r.Unsent)
				}
				fmt.Fprintln(c.progress)
			}
		}
	}
	return runs, nil
}

func (c *comparison) one(ctx context.Context, l Load, t *Target) (_ *Run, err error) {
	p := Plan{Load: l, Addr: t.addr, ServerPID: t.pid}
	if t.addr == "" {
		s, err := t.start(ctx, c.spawner, c.protocol, l)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		p = Plan{Load: l, Addr: s.addr, ServerPID: s.cmd.Process.Pid, Constant: t.Constant, Throwaway: true}
	} else if t.Version == "" {
		if err := t.answers(ctx, c.protocol, p.Addr); err != nil {
			return nil, err
		}
	}
	r, err := c.measure(ctx, p)
	if ctx.Err() != nil { // killed load processes report that as their failure
		err = context.Cause(ctx)
	}
	return r, err
}

// A process is a load process. It runs worker; both sides exchange lines of JSON.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	enc    *json.Encoder // of in
	dec    *json.Decoder // of its output
	stderr tail
}

// measure runs p.Load once. Without a ServerPID it omits what needs the server's process.
func (c *comparison) measure(ctx context.Context, p Plan) (r *Run, err error) {
	r = &Run{Load: p.Load.Name}
	usage := func(rss *int64) (cpu time.Duration, err error) {
		if p.ServerPID != 0 {
			if cpu, err = CPU(p.ServerPID); err == nil {
				*rss, err = RSS(p.ServerPID)
			}
		}
		return cpu, err
	}
	if _, err := usage(&r.RSSBefore); err != nil {
		return nil, err
	}
	p.Run = strconv.FormatInt(int64(os.Getpid()), 36) + strconv.FormatInt(time.Now().UnixMilli()&0xfffffff, 36)
	var all []*process
	defer func() {
		for _, w := range all {
			w.cmd.Process.Kill() // without an error it has ended
			w.cmd.Wait()
		}
	}()
	for p.Process = range p.Load.Processes {
		w, err := c.startProcess(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	if _, err := next(all); err != nil { // ready and warm
		return nil, err
	}
	before, err := usage(new(int64))
	if err != nil {
		return nil, err
	}
	proceed(all)
	reports, err := next(all)
	if err != nil {
		return nil, err
	}
	after, err := usage(&r.RSSAfter)
	if err != nil {
		return nil, err
	}
	if err := r.add(reports, after-before); err != nil {
		return nil, err
	}
	proceed(all)
	for i, w := range all {
		var m message
		if err := w.dec.Decode(&m); err == nil {
			return nil, fmt.Errorf("load process %d: %s", i, m.Error)
		}
	}
	return r, nil
}

func (c *comparison) startProcess(ctx context.Context, p Plan) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &process{cmd: exec.CommandContext(ctx, self, "worker")}
	w.cmd.Stderr = &w.stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.enc, w.dec = json.NewEncoder(w.in), json.NewDecoder(bufio.NewReader(out))
	if err := c.spawner.Start(w.cmd, p.Load.LoadCPUs); err != nil {
		return nil, err
	}
	w.enc.Encode(p) // if the process has ended, next returns the reason
	return w, nil
}

// proceed lets all processes begin the next stage.
func proceed(all []*process) {
	for _, w := range all {
		w.enc.Encode(true)
	}
}

// next reads the next message of each process.
func next(all []*process) ([]*report, error) {
	var reports []*report
	for i, w := range all {
		var m message
		if err := w.dec.Decode(&m); err != nil {
			return nil, fmt.Errorf("load process %d ended without a message (%w); its output: %s", i, err, &w.stderr)
		}
		if m.Error != "" {
			return nil, fmt.Errorf("load process %d: %s", i, strings.TrimSpace(m.Error))
		}
		reports = append(reports, m.Report)
	}
	return reports, nil
}
