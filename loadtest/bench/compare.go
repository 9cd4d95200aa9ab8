package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// run interleaves the runs: in each round every load meets every target, each in a fresh process,
// so a slow minute of the machine affects all of them. The first target changes with each round.
// After an error run also returns the runs before it.
func (s *session) run(ctx context.Context) ([]Run, error) {
	var runs []Run
	for round := range s.rounds {
		for _, l := range s.loads {
			for i := range s.targets {
				t := &s.targets[(i+round)%len(s.targets)]
				skip := t.Constant && !s.protocol.workloads[l.Workload].is(constant) // the floor keeps no jobs
				if skip || l.Rounds > 0 && round >= l.Rounds || slices.Contains(l.Skip, t.Name) {
					continue
				}
				r, err := s.one(ctx, l, t)
				if err != nil {
					return runs, fmt.Errorf("load %q on %s, round %d: %w", l.Name, t.Name, round+1, err)
				}
				r.Round, r.Server = round+1, t.Name
				runs = append(runs, *r)
				fmt.Fprintf(s.progress, "round %d  %s  %s  %.0f ops/s  cpu %.3f µs/op (server busy %.0f%%)  p50 %.0f  p99 %.0f  p99.9 %.0f  max %.0f µs",
					r.Round, l.Name, t.Name, r.OpsRate, r.CPU, 100*r.Busy, r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max)
				if r.Unsent > 0 {
					fmt.Fprintf(s.progress, "  TOO SLOW: %d arrivals were due and never sent", r.Unsent)
				}
				fmt.Fprintln(s.progress)
			}
		}
	}
	return runs, nil
}

func (s *session) one(ctx context.Context, l Load, t *Target) (_ *Run, err error) {
	speaks := cmp.Or(t.protocol, s.protocol)
	l.Protocol = speaks.name
	p := plan{Load: l, Addr: t.addr, ServerPID: t.pid}
	if t.addr == "" {
		v, err := t.start(ctx, s.spawner, speaks, l)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, v.stop()) }()
		p = plan{Load: l, Addr: v.addr, ServerPID: v.Process.Process.Pid, Constant: t.Constant, Throwaway: true}
	} else if t.Version == "" {
		if err := t.answers(ctx, speaks, p.Addr); err != nil {
			return nil, err
		}
	}
	r, err := drivePinned(ctx, s.spawner, p)
	if ctx.Err() != nil { // a killed load process reports that as its failure
		err = context.Cause(ctx)
	}
	return r, err
}
