package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"polystalk/loadtest/beanstalkd"
	"polystalk/loadtest/compare"
	"polystalk/loadtest/proc"
	"polystalk/loadtest/report"
	"polystalk/loadtest/workload"
)

// options are what a session does.
type options struct {
	compare.Comparison
	asserts []compare.Assertion
	goals   bool
	files   report.Files
	command string // the arguments, for people to repeat them
}

// flags are what the command line says, before it is understood.
type flags struct {
	protocol, addr, only string
	pid                  int
	quiet, floor, bench  bool
	base                 workload.Load // the knobs, for all loads
	loads                []string
	asserts, servers     []string
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	f, o := flags{}, &options{}
	fs := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	fs.SetOutput(stderr)
	f.define(fs, o)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag; workloads go after -load, servers after -compare", fs.Arg(0))
	}
	if o.Rounds < 1 {
		return nil, errors.New("-rounds is 1 or more")
	}
	if o.files.Chart != "" {
		if err := report.CheckChartName(o.files.Chart); err != nil {
			return nil, err
		}
	}
	var err error
	if o.Protocol, err = protocols.Named(f.protocol); err != nil {
		return nil, err
	}
	if err := f.findTargets(o); err != nil {
		return nil, err
	}
	for _, s := range f.asserts {
		a, err := compare.ParseAssertion(s)
		if err != nil {
			return nil, err
		}
		o.asserts = append(o.asserts, a)
	}
	if err := f.findLoads(o); err != nil {
		return nil, err
	}
	o.Show = report.NewDisplay(os.Stderr, f.quiet)
	o.command = quoted(args)
	return o, nil
}

// define declares all flags; those that need no more thought go to o.
func (f *flags) define(fs *flag.FlagSet, o *options) {
	fs.StringVar(&f.protocol, "protocol", beanstalkd.Protocol.Name, "what the servers speak, beanstalkd or gearman: its `name`")
	fs.StringVar(&f.addr, "addr", "", "`address` of a running server, host:port or unix:PATH, if nothing is compared (default the protocol's port on 127.0.0.1)")
	fs.IntVar(&f.pid, "pid", 0, "process `id` of that server, for its CPU and memory")
	fs.BoolVar(&f.quiet, "quiet", false, "no progress")
	fs.BoolVar(&f.floor, "floor", false, "also run a server that only parses and answers constants (cycle, put, big-bodies)")
	fs.BoolVar(&f.bench, "bench", false, "the loads by which polystalkd is judged: with beanstalkd, those of the published table")
	fs.StringVar(&f.only, "only", "", "of the loads, run those whose name this regular `expression` matches")
	fs.IntVar(&o.Rounds, "rounds", 3, "interleaved rounds")
	fs.BoolVar(&o.goals, "goals", false, "with -bench: judge polystalkd's goals, without failing on a miss")
	fs.StringVar(&o.files.JSON, "json", "", "write everything to `file`, - for standard output")
	fs.StringVar(&o.files.CSV, "csv", "", "write one line per run to `file`")
	fs.StringVar(&o.files.Markdown, "markdown", "", "write the table with machine, versions and commands to `file`")
	fs.StringVar(&o.files.Chart, "chart", "", "draw CPU and throughput relative to the baseline to `file`.svg or .png")
	repeated := func(list *[]string) func(string) error {
		return func(s string) error { *list = append(*list, s); return nil }
	}
	fs.Func("assert", "fail unless a `bound` holds, such as 'cpu<=0.85' or 'cycle: cpu/floor<=1.08'; may be repeated", repeated(&f.asserts))
	fs.Func("load", "a `workload` with its own knobs, 'cycle depth=16 name=c16', over those given as flags; may be repeated", repeated(&f.loads))
	fs.Func("workload", "the same as -load with a `name` alone", repeated(&f.loads))
	fs.Func("compare", "a server's command `line`, [name=]command with {port} and {dir}; repeat it, the first is the baseline", repeated(&f.servers))
	for _, k := range workload.Knobs {
		fs.Func(k.Name, k.Help, func(v string) error { return k.Set(&f.base, v) })
	}
	fs.Usage = func() { usage(fs) }
}

// findTargets names the servers: those to be started, or the one that runs.
func (f *flags) findTargets(o *options) error {
	for _, s := range f.servers {
		t, err := compare.ParseTarget(s, o.Protocol)
		if err != nil {
			return err
		}
		o.Targets = append(o.Targets, t)
	}
	if f.floor {
		if o.Protocol != beanstalkd.Protocol {
			return fmt.Errorf("-floor: the server that answers constants does not speak %s", o.Protocol.Name)
		}
		t, err := compare.Floor()
		if err != nil {
			return err
		}
		o.Targets = append(o.Targets, t)
	}
	if len(o.Targets) == 0 {
		o.Targets = []compare.Target{compare.Running(cmp.Or(f.addr, o.Protocol.Addr), f.pid)}
	} else {
		defaultCPUs(&f.base, proc.AllowedCPUs())
	}
	compare.UniqueNames(o.Targets)
	return nil
}

// findLoads reads the loads, over the knobs that all have in common.
func (f *flags) findLoads(o *options) error {
	lines := f.loads
	if f.bench {
		lines = append(slices.Clone(o.Protocol.Bench), lines...)
	}
	if len(lines) == 0 {
		lines = []string{o.Protocol.First}
	}
	wanted, err := regexp.Compile(f.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	for _, line := range lines {
		l, err := o.Protocol.ParseLoad(line, f.base)
		if err != nil {
			return err
		}
		if !wanted.MatchString(l.Name) {
			continue
		}
		if slices.ContainsFunc(o.Loads, func(m workload.Load) bool { return m.Name == l.Name }) {
			return fmt.Errorf("two loads are called %q; give one another name=", l.Name)
		}
		o.Loads = append(o.Loads, l)
	}
	if len(o.Loads) == 0 {
		return fmt.Errorf("-only %q matches the name of no load", f.only)
	}
	return nil
}

// defaultCPUs puts the server on the first core and the load on the second.
func defaultCPUs(l *workload.Load, cpus []int) {
	if len(cpus) < 2 {
		return
	}
	if l.ServerCPUs == nil {
		l.ServerCPUs = cpus[:1]
	}
	if l.LoadCPUs == nil {
		l.LoadCPUs = cpus[1:2]
	}
}

func usage(fs *flag.FlagSet) {
	w := fs.Output()
	fmt.Fprint(w, "usage: loadtest [flags]\n       loadtest floor [flags]    a server that answers constants\n")
	for _, protocol := range slices.Sorted(maps.Keys(protocols)) {
		fmt.Fprintf(w, "\nworkloads with -protocol %s (one operation is one %s):\n", protocol, protocols[protocol].Unit)
		workloads := protocols[protocol].Workloads
		for _, name := range slices.Sorted(maps.Keys(workloads)) {
			fmt.Fprintf(w, "  %-12s %s\n", name, workloads[name].Help)
		}
	}
	fmt.Fprintln(w, "\nflags:")
	fs.PrintDefaults()
}

// quoted renders arguments for a shell, for people to repeat the command.
func quoted(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsAny(a, " '\"$<>|&;(){}*?#~`\\!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out[i] = a
	}
	return strings.Join(out, " ")
}
