package bench

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Load is a workload with its settings, which decide which commands a server gets and when.
// parseLoad fills in settings that are zero.
type Load struct {
	Name      string // label in reports, unique in a session
	Protocol  string
	Workload  string // a key of the protocol's workloads
	Conns     int
	Depth     int
	Body      int
	Tubes     int
	Held      int
	Workers   int
	Waiting   int
	Reconnect int
	Count     int64
	Duration  time.Duration
	Warmup    time.Duration
	Rate      float64
	Settle    time.Duration
	Durable   bool
	Rounds    int
	Skip      []string // names of servers

	ServerCPUs []int // cores of the server; empty: all
	LoadCPUs   []int // cores of the load processes; empty: all

	line string // as given
}

// newLoad returns a Load with the defaults that all workloads share.
func newLoad() Load {
	return Load{Duration: 2 * time.Second, Warmup: 300 * time.Millisecond, Settle: 10 * time.Second}
}

// flags adds a flag for each setting of l. A load's one-line form has the same names.
func (l *Load) flags(fs *flag.FlagSet) {
	fs.IntVar(&l.Conns, "conns", l.Conns, "connections (default 50)")
	fs.IntVar(&l.Depth, "depth", l.Depth, "commands in flight per connection (default 1)")
	fs.IntVar(&l.Body, "body", l.Body, "bytes of a body (default 64)")
	fs.IntVar(&l.Tubes, "tubes", l.Tubes, "number of tubes or functions, as the workload defines it")
	fs.IntVar(&l.Held, "held", l.Held, "reservations held at once (workload held; default 40000)")
	fs.IntVar(&l.Workers, "workers", l.Workers, "worker connections (Gearman workload foreground; default a quarter of -conns)")
	fs.IntVar(&l.Waiting, "waiting", l.Waiting, "extra jobs that wait from before the workload until after it (Gearman workloads background and drain)")
	fs.IntVar(&l.Reconnect, "reconnect", l.Reconnect, "turns between new connections (workload laravel; default 10)")
	fs.Int64Var(&l.Count, "count", l.Count, "stop after this many operations; for drain and memory, the number of jobs")
	fs.DurationVar(&l.Duration, "duration", l.Duration, "length of the measured phase")
	fs.DurationVar(&l.Warmup, "warmup", l.Warmup, "length of the load before it that is not measured")
	fs.DurationVar(&l.Settle, "settle", l.Settle, "wait after a drain before memory is read (workload memory)")
	fs.Float64Var(&l.Rate, "rate", l.Rate, "open loop: arrivals per second over all connections (default: closed loop)")
	fs.BoolVar(&l.Durable, "durable", l.Durable, "ask the server to store jobs on its disk, if the client decides it (workload job; NATS and RabbitMQ)")
	fs.IntVar(&l.Rounds, "rounds-max", l.Rounds, "rounds of this load, if fewer than -rounds")
	fs.Func("skip", "names of `servers` that this load does not run on, separated by commas", func(v string) error {
		l.Skip = strings.Split(v, ",")
		return nil
	})
	cpus := func(to *[]int) func(string) error {
		return func(v string) (err error) { *to, err = parseCPUs(v); return err }
	}
	fs.Func("server-cpus", "`cores` for the server, such as 0 or 0,1 or 0-3; all: not pinned", cpus(&l.ServerCPUs))
	fs.Func("load-cpus", "`cores` for the load processes; all: not pinned", cpus(&l.LoadCPUs))
}

// parseCPUs reads a list in the form of taskset: 0,2-3. "all" is an empty, non-nil list.
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

// parseLoad reads a load's one-line form, "workload key=value ...", over the settings of
// base, and fills in the workload's defaults. The key name sets the label.
func (p *protocol) parseLoad(line string, base Load) (Load, error) {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return Load{}, errors.New("a load needs the name of a workload, such as 'cycle conns=50 depth=16'")
	}
	l := base
	l.Workload, l.line = fields[0], line
	fs := flag.NewFlagSet(line, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	l.flags(fs)
	var label strings.Builder
	label.WriteString(fields[0])
	for _, f := range fields[1:] {
		key, v, ok := strings.Cut(f, "=")
		if !ok {
			return Load{}, fmt.Errorf("load %q: %q is not of the form key=value", line, f)
		}
		if key == "name" {
			l.Name = v
			continue
		}
		if fs.Lookup(key) == nil {
			var names []string
			fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
			return Load{}, fmt.Errorf("load %q: there is no setting %q; the settings are name %s", line, key, strings.Join(names, " "))
		}
		if err := fs.Set(key, v); err != nil {
			return Load{}, fmt.Errorf("load %q: %s: %q: %w", line, key, v, err)
		}
		label.WriteString(" " + f)
	}
	l.Name = cmp.Or(l.Name, label.String())
	l.Protocol = p.name
	s, ok := p.workloads[l.Workload]
	if !ok {
		return l, fmt.Errorf("there is no workload %q for %s; the workloads are %s", l.Workload, p.name, strings.Join(sortedKeys(p.workloads), " "))
	}
	d := s.defaults
	l.Conns = cmp.Or(l.Conns, d.Conns, 50)
	l.Depth = cmp.Or(l.Depth, d.Depth, 1)
	l.Body = cmp.Or(l.Body, d.Body, 64)
	l.Tubes = cmp.Or(l.Tubes, d.Tubes)
	l.Held = cmp.Or(l.Held, d.Held)
	l.Reconnect = cmp.Or(l.Reconnect, d.Reconnect)
	l.Count = cmp.Or(l.Count, d.Count)
	if s.is(workers) {
		l.Workers = cmp.Or(l.Workers, max(1, l.Conns/4))
	}
	if p.endless(l) {
		l.Warmup = 0
	}
	if err := l.check(s); err != nil {
		return l, fmt.Errorf("load %q: %w", l.Name, err)
	}
	return l, nil
}

// check returns why l cannot run.
func (l *Load) check(s spec) error {
	least := min(l.Conns, l.Depth, l.Body)
	rest := min(l.Tubes, l.Held, l.Workers, l.Waiting, l.Reconnect, l.Rounds, int(l.Count), int(l.Duration), int(l.Warmup), int(l.Settle))
	switch {
	case least < 1 || rest < 0 || l.Conns > 60000 || l.Body > 1<<30 || l.Rate < 0 || l.Rate > 1e9:
		return errors.New("a setting is out of range: numbers are positive, conns at most 60000, body at most 1 GiB")
	case s.is(pairs) && l.Conns < 2:
		return fmt.Errorf("workload %s needs a producer and a consumer: 2 connections or more", l.Workload)
	case s.is(unpaced) && l.Rate > 0:
		return fmt.Errorf("workload %s has no open loop; leave out the rate", l.Workload)
	case s.is(single) && l.Depth != 1:
		return fmt.Errorf("workload %s has one command in flight: depth is 1", l.Workload)
	case s.is(stamped) && l.Body < StampLen:
		return fmt.Errorf("workload %s stamps its bodies: %d bytes or more", l.Workload, StampLen)
	}
	return nil
}
