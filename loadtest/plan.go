package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Load is one workload with its knobs: all that decides which commands
// reach a server and when. A zero knob means "the default of this workload";
// resolve fills it in.
type Load struct {
	Name      string        // label in reports, unique in a run
	Protocol  string        // a key of protocols
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

// A knob is one settable field of a Load: the same names serve as flags and
// in a load's one-line form.
type knob struct {
	name, help string
	set        func(l *Load, v string) error
}

var knobs = []knob{
	{"conns", "connections over all processes (default 50)", intKnob(1, 60000, func(l *Load) *int { return &l.Conns })},
	{"depth", "commands in flight per connection (default 1)", intKnob(1, 100000, func(l *Load) *int { return &l.Depth })},
	{"body", "bytes of a body (default 64)", intKnob(1, 1<<30, func(l *Load) *int { return &l.Body })},
	{"tubes", "number of tubes, or functions, as the workload defines it", intKnob(1, 10_000_000, func(l *Load) *int { return &l.Tubes })},
	{"held", "reservations held at once (workload held, default 40000)", intKnob(1, 10_000_000, func(l *Load) *int { return &l.Held })},
	{"workers", "worker connections (Gearman workload foreground, default a quarter of -conns)", intKnob(1, 60000, func(l *Load) *int { return &l.Workers })},
	{"waiting", "jobs that wait already when the workload begins and are left there (Gearman workloads background and drain)", intKnob(1, 100_000_000, func(l *Load) *int { return &l.Waiting })},
	{"reconnect", "turns between new connections (workload laravel, default 10)", intKnob(1, math.MaxInt32, func(l *Load) *int { return &l.Reconnect })},
	{"processes", "load processes (default 1)", intKnob(1, 256, func(l *Load) *int { return &l.Processes })},
	{"count", "stop after this many operations; of drain and memory, the number of jobs", func(l *Load, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a whole number of 1 or more", v)
		}
		l.Count = n
		return nil
	}},
	{"duration", "length of the measured phase (default 2s)", timeKnob(func(l *Load) *time.Duration { return &l.Duration })},
	{"warmup", "unmeasured load before it (default 300ms)", timeKnob(func(l *Load) *time.Duration { return &l.Warmup })},
	{"settle", "wait after a drain before memory is read (workload memory, default 10s)", timeKnob(func(l *Load) *time.Duration { return &l.Settle })},
	{"rate", "open loop: arrivals per second over all connections (default: closed loop)", rateKnob(func(l *Load) *float64 { return &l.Rate })},
	{"light-rate", "commands per second sent beside the full server, open loop (workload memory)", rateKnob(func(l *Load) *float64 { return &l.LightRate })},
	{"arrivals", "spacing of open-loop arrivals: uniform or poisson (default uniform)", func(l *Load, v string) error {
		if v != "uniform" && v != "poisson" {
			return fmt.Errorf("%q is neither uniform nor poisson", v)
		}
		l.Arrivals = v
		return nil
	}},
	{"rounds-max", "rounds of this load, if fewer than -rounds", intKnob(1, math.MaxInt32, func(l *Load) *int { return &l.Rounds })},
	{"skip", "names of servers, with commas, that this load does not run on", func(l *Load, v string) error {
		l.Skip = strings.Split(v, ",")
		return nil
	}},
	{"server-cpus", "cores for the server, such as 0 or 0,1 or 0-3; all: not pinned", cpuKnob(func(l *Load) *[]int { return &l.ServerCPUs })},
	{"load-cpus", "cores for the load processes; all: not pinned", cpuKnob(func(l *Load) *[]int { return &l.LoadCPUs })},
}

func intKnob(lo, hi int, field func(*Load) *int) func(*Load, string) error {
	return func(l *Load, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < lo || n > hi {
			return fmt.Errorf("%q is not a whole number from %d to %d", v, lo, hi)
		}
		*field(l) = n
		return nil
	}
}

// timeKnob keeps an explicit zero apart from "not set" as one nanosecond.
func timeKnob(field func(*Load) *time.Duration) func(*Load, string) error {
	return func(l *Load, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration such as 500ms or 10s", v)
		}
		*field(l) = max(d, 1)
		return nil
	}
}

func rateKnob(field func(*Load) *float64) func(*Load, string) error {
	return func(l *Load, v string) error {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f > 0) || f > 1e9 {
			return fmt.Errorf("%q is not a rate per second from above 0 to 1e9", v)
		}
		*field(l) = f
		return nil
	}
}

func cpuKnob(field func(*Load) *[]int) func(*Load, string) error {
	return func(l *Load, v string) error {
		cpus, err := parseCPUs(v)
		if err == nil {
			*field(l) = cpus
		}
		return err
	}
}

// parseCPUs reads a list in the form of taskset: 0,2-3. "all" is an empty,
// non-nil list.
func parseCPUs(s string) ([]int, error) {
	cpus := []int{}
	if s == "all" {
		return cpus, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err1 := strconv.Atoi(from)
		b, err2 := a, error(nil)
		if isRange {
			b, err2 = strconv.Atoi(to)
		}
		if err1 != nil || err2 != nil || a < 0 || b < a || b > 1023 {
			return nil, fmt.Errorf("%q is not a list of cores such as 0,2-3 or all", s)
		}
		for c := a; c <= b; c++ {
			cpus = append(cpus, c)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// parseLoad reads a load's one-line form, "workload key=value ...", over the
// knobs given as flags. The key name sets the label.
func parseLoad(line string, base Load) (Load, error) {
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
		i := slices.IndexFunc(knobs, func(k knob) bool { return k.name == key })
		if i < 0 {
			return Load{}, fmt.Errorf("load %q: there is no knob %q; the knobs are name %s", line, key, knobNames())
		}
		if err := knobs[i].set(&l, v); err != nil {
			return Load{}, fmt.Errorf("load %q: %s: %w", line, key, err)
		}
		label = append(label, f)
	}
	if l.Name == "" {
		l.Name = strings.Join(label, " ")
	}
	return l.resolve()
}

func knobNames() string {
	names := make([]string, len(knobs))
	for i, k := range knobs {
		names[i] = k.name
	}
	return strings.Join(names, " ")
}

// resolve fills in defaults and refuses what cannot run.
func (l Load) resolve() (Load, error) {
	l.Protocol = cmp.Or(l.Protocol, beanstalkdProtocol)
	proto, err := protocolNamed(l.Protocol)
	if err != nil {
		return l, err
	}
	spec, ok := proto.workloads[l.Workload]
	if !ok {
		return l, fmt.Errorf("there is no workload %q for %s; the workloads are %s", l.Workload, l.Protocol, sortedNames(proto.workloads))
	}
	d := spec.defaults
	l.Name = cmp.Or(l.Name, l.Workload)
	l.Conns = cmp.Or(l.Conns, d.Conns, 50)
	l.Depth = cmp.Or(l.Depth, d.Depth, 1)
	l.Body = cmp.Or(l.Body, d.Body, 64)
	l.Tubes = cmp.Or(l.Tubes, d.Tubes)
	l.Held = cmp.Or(l.Held, d.Held)
	l.Reconnect = cmp.Or(l.Reconnect, d.Reconnect)
	l.Count = cmp.Or(l.Count, d.Count)
	l.Processes = cmp.Or(l.Processes, 1)
	if spec.workers {
		l.Workers = cmp.Or(l.Workers, max(l.Processes, l.Conns/4))
	}
	l.Arrivals = cmp.Or(l.Arrivals, "uniform")
	l.Settle = cmp.Or(l.Settle, 10*time.Second)
	l.Duration = cmp.Or(l.Duration, 2*time.Second)
	l.Warmup = cmp.Or(l.Warmup, 300*time.Millisecond)
	if l.endless() {
		l.Warmup = 0
	}
	switch {
	case l.Processes > l.Conns:
		return l, fmt.Errorf("load %q: %d processes cannot share %d connections", l.Name, l.Processes, l.Conns)
	case spec.alone && l.Processes > 1:
		return l, fmt.Errorf("load %q: workload %s runs in one process only", l.Name, l.Workload)
	case spec.pairs && l.Conns < 2*l.Processes:
		return l, fmt.Errorf("load %q: workload %s needs a producer and a consumer, so 2 connections or more per process", l.Name, l.Workload)
	case l.Rate > 0 && spec.unpaced:
		return l, fmt.Errorf("load %q: workload %s has no open loop; leave out the rate", l.Name, l.Workload)
	case spec.check != nil:
		if err := spec.check(l); err != nil {
			return l, fmt.Errorf("load %q: %w", l.Name, err)
		}
	}
	return l, nil
}

func (l *Load) protocol() *protocol { return protocols[cmp.Or(l.Protocol, beanstalkdProtocol)] }

func (l *Load) spec() spec { return l.protocol().workloads[l.Workload] }

// endless loads are over when their jobs are: there is neither a time limit nor
// a warm-up, which would change what is measured.
func (l *Load) endless() bool {
	s := l.spec()
	return s.once || s.counted && l.Count > 0
}

// A plan is what one load process is told.
type plan struct {
	Load      Load
	Addr      string // host:port or unix:PATH
	Process   int    // 0 … Load.Processes-1
	Run       string // goes into tube names, so that no two runs meet
	ServerPID int    // 0: not known, and what needs it refuses to run
	Constant  bool   // the server answers constants: check kind and length only
	Throwaway bool   // the server ends with the run: leave its jobs where they are
}

// share returns this process's part of n, remainders going to the first ones.
func (p plan) share(n int) int {
	return (n + p.Load.Processes - 1 - p.Process) / p.Load.Processes
}
