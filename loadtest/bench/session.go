package bench

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A session is the task of one command line: it runs every load against every target, in several
// rounds.
type session struct {
	protocol *protocol
	loads    []Load
	targets  []Target // the first one is the baseline of all ratios
	rounds   int
	progress io.Writer
	spawner  Spawner
	asserts  []assertion
	goals    []assertion // like asserts, but a miss does not fail the session
	files    files
}

// Session runs the load tester with its command line. After a failure it still writes the table
// with the measurements so far.
func Session(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parseSession(args, stderr)
	if err != nil {
		return err
	}
	started := time.Now()
	runs, err := s.run(ctx)
	sums := summarizeRuns(runs, s.targets[0].Name)
	if len(sums) > 0 && s.files.json != "-" && s.files.markdown != "-" {
		err = errors.Join(err, writeTable(stdout, sums))
	}
	if err != nil {
		return err
	}
	d := &document{Started: started, Took: time.Since(started).Round(time.Second).String(), Machine: thisMachine(),
		Command: quoted(args), Servers: s.targets, Loads: s.loads, Summary: sums, Runs: runs, protocol: s.protocol}
	var failed error
	for i, a := range slices.Concat(s.asserts, s.goals) {
		verdicts := a.judge(runs, s.targets)
		d.Verdicts = append(d.Verdicts, verdicts...)
		if i < len(s.asserts) {
			failed = errors.Join(failed, failures(verdicts))
		}
	}
	for _, v := range d.Verdicts {
		fmt.Fprintln(stderr, v)
	}
	return errors.Join(s.files.write(d), failed)
}

// parseSession reads the command line.
func parseSession(args []string, stderr io.Writer) (*session, error) {
	s := &session{progress: stderr, spawner: NewSpawner()}
	var protocol, addr string
	var pid int
	var quiet, floor, bench, goals bool
	var loads, servers []string
	base := newLoad()
	fs := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&protocol, "protocol", beanstalkd.name, "`name` of the protocol: "+strings.Join(sortedKeys(protocols), " or "))
	fs.StringVar(&addr, "addr", "", "`address` of a running server, [tls:]host:port, without -compare (default: the protocol's port on 127.0.0.1)")
	fs.IntVar(&pid, "pid", 0, "process `id` of that server, for its CPU and memory")
	fs.BoolVar(&quiet, "quiet", false, "no progress")
	fs.BoolVar(&floor, "floor", false, "also run a server that parses and answers constants (cycle, put, connect, big-bodies)")
	fs.BoolVar(&bench, "bench", false, "run the loads of the published table, which judge polystalkd")
	fs.IntVar(&s.rounds, "rounds", 3, "interleaved rounds")
	fs.BoolVar(&goals, "goals", false, "with -bench: judge polystalkd's goals, without failing on a miss")
	fs.StringVar(&s.files.json, "json", "", "write the complete results, with every run, as JSON to `file`; - for standard output")
	fs.StringVar(&s.files.markdown, "markdown", "", "write the table with machine, versions and commands to `file`")
	fs.StringVar(&s.files.chart, "chart", "", "draw CPU and throughput relative to the baseline to `file`.svg")
	list := func(to *[]string) func(string) error {
		return func(v string) error { *to = append(*to, v); return nil }
	}
	fs.Func("assert", "fail unless a `bound` holds, such as 'cpu<=0.85' or 'cycle: cpu/floor<=1.08'; may be repeated", func(v string) error {
		a, err := parseAssertion(v)
		s.asserts = append(s.asserts, a)
		return err
	})
	fs.Func("load", "a `workload` with its own settings, 'cycle depth=16 name=c16', over the flags; may be repeated", list(&loads))
	fs.Func("compare", "a server's command `line`, [name=][protocol:][tls:]command with {port} and {dir}; may be repeated, the first is the baseline; protocol is redis, nats or amqp", list(&servers))
	base.flags(fs)
	fs.Usage = func() { printUsage(fs) }
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	s.protocol = protocols[protocol]
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("%q is not a flag; give workloads with -load, servers with -compare", fs.Arg(0))
	case s.rounds < 1:
		return nil, errors.New("-rounds must be 1 or more")
	case s.files.chart != "" && !strings.HasSuffix(s.files.chart, ".svg"):
		return nil, fmt.Errorf("-chart %s: the name must end in .svg", s.files.chart)
	case s.protocol == nil:
		return nil, fmt.Errorf("there is no protocol %q; the protocols are %s", protocol, strings.Join(sortedKeys(protocols), " "))
	case floor && s.protocol != beanstalkd:
		return nil, fmt.Errorf("-floor: the server that answers constants does not speak %s", protocol)
	}
	if quiet {
		s.progress = io.Discard
	}
	for _, line := range servers {
		t, err := parseTarget(line, s.protocol)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.targets, func(o Target) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("two servers are called %q: give one another name, as in -compare name=command", t.Name)
		}
		s.targets = append(s.targets, t)
	}
	if floor { // this program itself
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		s.targets = append(s.targets, Target{Name: "floor", Command: "loadtest floor", Constant: true, args: []string{self, "floor", "127.0.0.1:{port}", "{body}"}})
	}
	if len(s.targets) == 0 {
		addr = cmp.Or(addr, s.protocol.addr)
		s.targets = []Target{{Name: addr, Command: "running at " + addr, addr: addr, pid: pid}}
	} else if cpus := allowedCPUs(); len(cpus) > 1 { // the server on the first core, the load on the second
		if base.ServerCPUs == nil {
			base.ServerCPUs = cpus[:1]
		}
		if base.LoadCPUs == nil {
			base.LoadCPUs = cpus[1:2]
		}
	}
	for i := 0; goals && i < len(s.protocol.goals); i++ {
		a, err := parseAssertion(s.protocol.goals[i])
		if err != nil {
			return nil, err
		}
		s.goals = append(s.goals, a)
	}
	if bench {
		loads = append(slices.Clone(s.protocol.bench), loads...)
	}
	if len(loads) == 0 {
		loads = []string{s.protocol.first}
	}
	for _, line := range loads {
		l, err := s.protocol.parseLoad(line, base)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.loads, func(m Load) bool { return m.Name == l.Name }) {
			return nil, fmt.Errorf("two loads are called %q; give one another name=", l.Name)
		}
		for _, t := range s.targets {
			if t.protocol != nil && l.Workload != "job" {
				return nil, fmt.Errorf("-load %s: server %s speaks %s, which has only the load job", l.Name, t.Name, t.protocol.name)
			}
		}
		s.loads = append(s.loads, l)
	}
	return s, nil
}

func printUsage(fs *flag.FlagSet) {
	w := fs.Output()
	fmt.Fprint(w, "usage: loadtest [flags]\n")
	for _, name := range sortedKeys(protocols) {
		fmt.Fprintf(w, "\nworkloads with -protocol %s (one operation is one %s):\n", name, protocols[name].unit)
		for _, workload := range sortedKeys(protocols[name].workloads) {
			fmt.Fprintf(w, "  %-12s %s\n", workload, protocols[name].workloads[workload].help)
		}
	}
	fmt.Fprintln(w, "\nflags:")
	fs.PrintDefaults()
}

// quoted quotes arguments for a shell.
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

// Main runs the load tester, one of its load processes, or the server that answers constants.
func Main(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "worker" {
		return worker(ctx)
	}
	if len(args) == 3 && args[0] == "floor" {
		body, err := strconv.Atoi(args[2])
		return errors.Join(err, serveFloor(ctx, args[1], body))
	}
	return Session(ctx, args, os.Stdout, os.Stderr)
}
