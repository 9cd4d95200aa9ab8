package workload

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Knob is one settable field of a Load: the same names serve as flags and
// in a load's one-line form.
type Knob struct {
	Name, Help string
	Set        func(l *Load, v string) error // v is not trusted; the error says what was wanted
}

// Knobs are all there are, in the order of the help.
var Knobs = []Knob{
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

func knobNames() string {
	names := make([]string, len(Knobs))
	for i, k := range Knobs {
		names[i] = k.Name
	}
	return strings.Join(names, " ")
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
