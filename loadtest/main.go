// Loadtest drives any server that speaks the beanstalkd or the Gearman protocol,
// checks its replies, and measures what they cost.
//
//	go run ./loadtest -workload cycle -depth 16
//	    against the server that runs on 127.0.0.1:11300
//	go run ./loadtest -compare beanstalkd -compare 'polystalkd -l 127.0.0.1 -p {port}' -floor \
//	    -load 'cycle conns=50' -load 'cycle conns=50 depth=16' -rounds 5 -assert 'cpu<=0.85'
//	    starts the servers in turn and compares them
//	go run ./loadtest -protocol gearman -compare 'gearmand=/usr/sbin/gearmand -t 4' \
//	    -compare 'polystalkd -l 127.0.0.1 -p 0 --gearman-listen 127.0.0.1:{port}' \
//	    -load 'foreground conns=64 workers=16' -load 'background conns=8 depth=100 count=1000000'
//	    the same for Gearman
//
// In a comparison every server runs pinned to some cores and the load to
// others, a fresh process for every run; rounds are interleaved, and what
// counts are the ratios between servers within a round. The first server is
// the baseline. One operation is one command answered, or one Gearman job or
// echo. A wrong reply ends the session with an error.
//
// The load tester knows nothing of any server's inside: of the job server's
// packages it imports the Gearman codec alone. It depends on HdrHistogram for latencies, on gonum
// plot for the chart, and, in its constant server only, on gnet.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"polystalk/loadtest/floor"
	"polystalk/loadtest/proc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "worker": // a load process, started by this program itself
			return workerMain(ctx, os.Stdin, os.Stdout)
		case "floor":
			return floorMain(ctx, args[1:])
		}
	}
	o, err := parseOptions(args, os.Stderr)
	if err != nil {
		return err
	}
	return session(ctx, o, os.Stdout)
}

// floorMain is the server that answers constants.
func floorMain(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("loadtest floor", flag.ContinueOnError)
	o := floor.Options{}
	fs.StringVar(&o.Addr, "addr", "127.0.0.1:11300", "listen `address`")
	fs.IntVar(&o.Loops, "loops", max(1, len(proc.AllowedCPUs())), "event loops")
	fs.IntVar(&o.Body, "body", 64, "`bytes` of the body of every reserved job")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.Loops < 1 || o.Body < 0 {
		return errors.New("floor: -loops is 1 or more, -body 0 or more")
	}
	// One more than loops: a saturated loop would otherwise delay other goroutines.
	runtime.GOMAXPROCS(o.Loops + 1)
	return floor.Run(ctx, o)
}

// options are what the command line says.
type options struct {
	comparison
	asserts                    []assertion
	goals                      bool
	json, csv, markdown, chart string
	command                    string
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	var (
		o         = &options{}
		fs        = flag.NewFlagSet("loadtest", flag.ContinueOnError)
		base      Load
		lines     []string
		asserts   []string
		servers   []string
		name      = fs.String("protocol", beanstalkdProtocol, "what the servers speak, beanstalkd or gearman: its `name`")
		addr      = fs.String("addr", "", "`address` of a running server, host:port or unix:PATH, if nothing is compared (default the protocol's port on 127.0.0.1)")
		pid       = fs.Int("pid", 0, "process `id` of that server, for its CPU and memory")
		quiet     = fs.Bool("quiet", false, "no progress")
		withFloor = fs.Bool("floor", false, "also run a server that only parses and answers constants (cycle, put, big-bodies)")
		bench     = fs.Bool("bench", false, "the loads by which polystalkd is judged: with beanstalkd, those of the published table")
	)
	only := fs.String("only", "", "of the loads, run those whose name this regular `expression` matches")
	fs.SetOutput(stderr)
	fs.IntVar(&o.Rounds, "rounds", 3, "interleaved rounds")
	fs.BoolVar(&o.goals, "goals", false, "with -bench: judge polystalkd's goals, without failing on a miss")
	fs.StringVar(&o.json, "json", "", "write everything to `file`, - for standard output")
	fs.StringVar(&o.csv, "csv", "", "write one line per run to `file`")
	fs.StringVar(&o.markdown, "markdown", "", "write the table with machine, versions and commands to `file`")
	fs.StringVar(&o.chart, "chart", "", "draw CPU and throughput relative to the baseline to `file`.svg or .png")
	repeated := func(list *[]string) func(string) error {
		return func(s string) error { *list = append(*list, s); return nil }
	}
	fs.Func("assert", "fail unless a `bound` holds, such as 'cpu<=0.85' or 'cycle: cpu/floor<=1.08'; may be repeated", repeated(&asserts))
	fs.Func("load", "a `workload` with its own knobs, 'cycle depth=16 name=c16', over those given as flags; may be repeated", repeated(&lines))
	fs.Func("workload", "the same as -load with a `name` alone", repeated(&lines))
	fs.Func("compare", "a server's command `line`, [name=]command with {port} and {dir}; repeat it, the first is the baseline", repeated(&servers))
	for _, k := range knobs {
		fs.Func(k.name, k.help, func(v string) error { return k.set(&base, v) })
	}
	fs.Usage = func() { usage(fs) }
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag; workloads go after -load, servers after -compare", fs.Arg(0))
	}
	if o.Rounds < 1 {
		return nil, errors.New("-rounds is 1 or more")
	}
	if o.chart != "" {
		if err := checkChartName(o.chart); err != nil {
			return nil, err
		}
	}
	proto, err := protocolNamed(*name)
	if err != nil {
		return nil, err
	}
	base.Protocol = *name
	for _, s := range servers {
		t, err := parseTarget(s, proto)
		if err != nil {
			return nil, err
		}
		o.Targets = append(o.Targets, t)
	}
	for _, s := range asserts {
		a, err := parseAssertion(s)
		if err != nil {
			return nil, err
		}
		o.asserts = append(o.asserts, a)
	}
	if *bench {
		lines = append(slices.Clone(proto.bench), lines...)
	}
	if len(lines) == 0 {
		lines = []string{proto.first}
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	if *withFloor {
		if *name != beanstalkdProtocol {
			return nil, fmt.Errorf("-floor: the server that answers constants does not speak %s", *name)
		}
		t, err := floorTarget()
		if err != nil {
			return nil, err
		}
		o.Targets = append(o.Targets, t)
	}
	if len(o.Targets) == 0 {
		*addr = cmp.Or(*addr, proto.addr)
		o.Targets = []target{{Name: *addr, Command: "running at " + *addr, addr: *addr, pid: *pid}}
	} else {
		defaultCPUs(&base, proc.AllowedCPUs())
	}
	uniqueNames(o.Targets)
	for _, line := range lines {
		l, err := parseLoad(line, base)
		if err != nil {
			return nil, err
		}
		if !wanted.MatchString(l.Name) {
			continue
		}
		if slices.ContainsFunc(o.Loads, func(m Load) bool { return m.Name == l.Name }) {
			return nil, fmt.Errorf("two loads are called %q; give one another name=", l.Name)
		}
		o.Loads = append(o.Loads, l)
	}
	if len(o.Loads) == 0 {
		return nil, fmt.Errorf("-only %q matches the name of no load", *only)
	}
	o.Show = newDisplay(os.Stderr, *quiet)
	o.command = quoted(args)
	return o, nil
}

// defaultCPUs puts the server on the first core and the load on the second.
func defaultCPUs(l *Load, cpus []int) {
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
		fmt.Fprintf(w, "\nworkloads with -protocol %s (one operation is one %s):\n", protocol, protocols[protocol].unit)
		workloads := protocols[protocol].workloads
		for _, name := range slices.Sorted(maps.Keys(workloads)) {
			fmt.Fprintf(w, "  %-12s %s\n", name, workloads[name].help)
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

// session runs what o asks for and writes all reports. What was measured
// before a failure is still written to the table.
func session(ctx context.Context, o *options, stdout io.Writer) error {
	started := time.Now()
	runs, err := o.run(ctx, proc.NewSpawner())
	baseline := o.Targets[0].Name
	sums := summarizeRuns(runs, baseline)
	if len(sums) > 0 && o.json != "-" && o.csv != "-" && o.markdown != "-" {
		if err := writeTable(stdout, sums); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	d := &document{Started: started, Took: time.Since(started).Round(time.Second).String(), Machine: thisMachine(),
		Command: o.command, Servers: o.Targets, Loads: o.Loads, Summary: sums, Runs: runs}
	var asserted []verdict
	for _, a := range o.asserts {
		asserted = append(asserted, a.judge(runs, o.Targets)...)
	}
	d.Verdicts = asserted
	if o.goals {
		for _, g := range o.Loads[0].protocol().goals {
			a, err := parseAssertion(g)
			if err != nil {
				return err
			}
			d.Verdicts = append(d.Verdicts, a.judge(runs, o.Targets)...)
		}
	}
	for _, v := range d.Verdicts {
		fmt.Fprintln(os.Stderr, v)
	}
	return errors.Join(o.write(d), failures(asserted))
}

func (o *options) write(d *document) error {
	var errs []error
	if o.json != "" {
		errs = append(errs, writeFile(o.json, d.writeJSON))
	}
	if o.csv != "" {
		errs = append(errs, writeFile(o.csv, d.writeCSV))
	}
	if o.chart != "" {
		errs = append(errs, writeFile(o.chart, func(w io.Writer) error { return writeChart(w, o.chart, d.Summary, d.Servers) }))
	}
	if o.markdown != "" {
		link := ""
		if o.chart != "" {
			rel, err := filepath.Rel(filepath.Dir(o.markdown), o.chart)
			errs = append(errs, err)
			link = filepath.ToSlash(rel)
		}
		errs = append(errs, writeFile(o.markdown, func(w io.Writer) error { return d.writeMarkdown(w, link) }))
	}
	return errors.Join(errs...)
}
