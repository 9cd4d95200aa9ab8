package workload

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Load is one workload with its knobs: all that decides which commands
// reach a server and when. A zero knob means "the default of this workload";
// ParseLoad fills it in.
type Load struct {
	Name      string        // label in reports, unique in a run
	Protocol  string        // the name of one
	Workload  string        // a key of that protocol's workloads
	Conns     int           // connections over all processes
	Depth     int           // commands in flight on one connection, at most
	Body      int           // bytes of a job's body
	Tubes     int           // tubes, idle tubes or watched tubes: see the workload
	Held      int           // reservations held at once (held)
	Workers   int           // worker connections beside the clients' (Gearman: foreground)
	Waiting   int           // jobs that wait already when it begins (Gearman: background, drain)
	Reconnect int           // turns between two new connections (laravel)
	Count     int64         // stop after so many operations (jobs: drain, memory); 0: by duration
	Duration  time.Duration // length of the measured phase
	Warmup    time.Duration // the same load before it, not measured
	Rate      float64       // open loop: arrivals per second over all connections; 0: closed loop
	Arrivals  string        // spacing of arrivals: uniform or poisson
	Processes int           // load processes
	Settle    time.Duration // wait before memory is read after a drain (memory)
	LightRate float64       // commands per second beside the full server (memory); 0: none
	Rounds    int           // rounds of this load, if fewer than those of the comparison; 0: all
	Skip      []string      // names of servers that this load does not run on

	ServerCPUs []int // cores the server is pinned to; empty: all
	LoadCPUs   []int // cores the load processes are pinned to; empty: all
}

// ParseLoad reads a load's one-line form, "workload key=value ...", over the
// knobs of base, those given as flags, and fills in the defaults. The key name
// sets the label.
func (p *Protocol) ParseLoad(line string, base Load) (Load, error) {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return Load{}, errors.New("a load needs the name of a workload, such as 'cycle conns=50 depth=16'")
	}
	l := base
	l.Workload = fields[0]
	label := []string{fields[0]}
	for _, f := range fields[1:] {
		key, v, ok := strings.Cut(f, "=")
		if !ok {
			return Load{}, fmt.Errorf("load %q: %q is not of the form key=value", line, f)
		}
		if key == "name" {
			l.Name = v
			continue
		}
		i := slices.IndexFunc(Knobs, func(k Knob) bool { return k.Name == key })
		if i < 0 {
			return Load{}, fmt.Errorf("load %q: there is no knob %q; the knobs are name %s", line, key, knobNames())
		}
		if err := Knobs[i].Set(&l, v); err != nil {
			return Load{}, fmt.Errorf("load %q: %s: %w", line, key, err)
		}
		label = append(label, f)
	}
	if l.Name == "" {
		l.Name = strings.Join(label, " ")
	}
	return p.resolve(l)
}

// resolve fills in the defaults, and refuses what cannot run.
func (p *Protocol) resolve(l Load) (Load, error) {
	l.Protocol = p.Name
	spec, ok := p.Workloads[l.Workload]
	if !ok {
		return l, fmt.Errorf("there is no workload %q for %s; the workloads are %s", l.Workload, l.Protocol, sortedNames(p.Workloads))
	}
	d := spec.Defaults
	l.Name = cmp.Or(l.Name, l.Workload)
	l.Conns = cmp.Or(l.Conns, d.Conns, 50)
	l.Depth = cmp.Or(l.Depth, d.Depth, 1)
	l.Body = cmp.Or(l.Body, d.Body, 64)
	l.Tubes = cmp.Or(l.Tubes, d.Tubes)
	l.Held = cmp.Or(l.Held, d.Held)
	l.Reconnect = cmp.Or(l.Reconnect, d.Reconnect)
	l.Count = cmp.Or(l.Count, d.Count)
	l.Processes = cmp.Or(l.Processes, 1)
	if spec.Is(Workers) {
		l.Workers = cmp.Or(l.Workers, max(l.Processes, l.Conns/4))
	}
	l.Arrivals = cmp.Or(l.Arrivals, "uniform")
	l.Settle = cmp.Or(l.Settle, 10*time.Second)
	l.Duration = cmp.Or(l.Duration, 2*time.Second)
	l.Warmup = cmp.Or(l.Warmup, 300*time.Millisecond)
	if p.Endless(l) {
		l.Warmup = 0
	}
	return l, refusal(l, spec)
}

// refusal says why a load cannot run, or nil.
func refusal(l Load, spec Spec) error {
	switch {
	case l.Processes > l.Conns:
		return fmt.Errorf("load %q: %d processes cannot share %d connections", l.Name, l.Processes, l.Conns)
	case spec.Is(Alone) && l.Processes > 1:
		return fmt.Errorf("load %q: workload %s runs in one process only", l.Name, l.Workload)
	case spec.Is(Pairs) && l.Conns < 2*l.Processes:
		return fmt.Errorf("load %q: workload %s needs a producer and a consumer, so 2 connections or more per process", l.Name, l.Workload)
	case l.Rate > 0 && spec.Is(Unpaced):
		return fmt.Errorf("load %q: workload %s has no open loop; leave out the rate", l.Name, l.Workload)
	case spec.Check != nil:
		if err := spec.Check(l); err != nil {
			return fmt.Errorf("load %q: %w", l.Name, err)
		}
	}
	return nil
}

// A Plan is what one load process is told.
type Plan struct {
	Load      Load
	Addr      string // host:port or unix:PATH
	Process   int    // 0 … Load.Processes-1
	Run       string // goes into tube names, so that no two runs meet
	ServerPID int    // 0: not known, and what needs it refuses to run
	Constant  bool   // the server answers constants: check kind and length only
	Throwaway bool   // the server ends with the run: leave its jobs where they are
}

// Share returns this process's part of n, remainders going to the first ones.
func (p Plan) Share(n int) int {
	return (n + p.Load.Processes - 1 - p.Process) / p.Load.Processes
}
