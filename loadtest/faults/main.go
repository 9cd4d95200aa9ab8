// Faults kills, stops and disconnects servers while clients use them. From the answers to the
// clients it judges whether anything was lost, done twice or altered.
//
//	go run ./loadtest/faults -program bin/polystalkd -rounds 100
//	    one server with a journal
//	go run ./loadtest/faults -program bin/polystalkd -nodes 3 -rounds 100
//	    a cluster of three
//
//	run        a run: rounds of faults; main has the command line and the report
//	faults     the faults
//	fleet      all nodes and what is between them; node is one server
//	attempts   the tube with a policy
//	crew       the clients: producer, worker, and drain for the end; conn is a connection
//	history    what clients were told, and whether it can be true; holder is one connection,
//	           jobs has the records and the model of a job
//
// The seed, which is printed, decides the faults and their times; the effects depend on the
// machine. So a seed repeats a run approximately.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// options are the options of a run.
type options struct {
	programs []string
	nodes    int
	rounds   int
	puts     int64
	attempts int      // of the policy; 0: there is none
	only     []string // names of faults; repetition makes one more frequent
	seed     uint64
	dir      string // of journals and logs
	disk     string

	calm     time.Duration // maximum time between recovery and the next fault
	patience time.Duration // timeout after which a client tries another server
	stock    int64         // maximum of waiting jobs
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	o, err := parseOptions(os.Args[1:])
	if err == nil {
		err = session(ctx, o)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// parseOptions reads the command line.
func parseOptions(args []string) (*options, error) {
	o := &options{calm: time.Second, patience: time.Second, stock: 20_000}
	var programs, only string
	fs := flag.NewFlagSet("faults", flag.ContinueOnError)
	fs.StringVar(&programs, "program", "bin/polystalkd", "the server's `program`; several, separated by commas, are used in turn, and a rolling restart changes between them")
	fs.IntVar(&o.nodes, "nodes", 1, "number of servers; 1 is a single server with -b")
	fs.IntVar(&o.rounds, "rounds", 100, "number of faults")
	fs.Int64Var(&o.puts, "puts", 0, "continue with faults until this many puts are acknowledged")
	fs.IntVar(&o.attempts, "attempts", 3, "bury the jobs of one tube after `N` failed attempts, by a policy; 0 for programs without policies")
	fs.StringVar(&only, "only", "", "the `names` of the faults to be played, separated by commas")
	fs.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the random choices")
	fs.StringVar(&o.disk, "disk", "", "give each server a disk in memory of this `size`, in mount's format: 200m; needs root")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag", fs.Arg(0))
	}
	if o.nodes < 1 || o.rounds < 0 || o.attempts < 0 {
		return nil, errors.New("-nodes must be 1 or more, -rounds and -attempts 0 or more")
	}
	for path := range strings.SplitSeq(programs, ",") {
		abs, err := filepath.Abs(path)
		if err == nil {
			_, err = os.Stat(abs)
		}
		if err != nil {
			return nil, fmt.Errorf("-program: %w; make build leaves one in bin", err)
		}
		o.programs = append(o.programs, abs)
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	for _, f := range faults {
		if only == "" && o.nodes >= f.nodes {
			o.only = append(o.only, slices.Repeat([]string{f.name}, f.often)...)
		}
	}
	for _, name := range o.only {
		f, err := faultNamed(name)
		if err == nil && o.nodes < f.nodes {
			err = fmt.Errorf("%s needs %d servers", name, f.nodes)
		}
		if err != nil {
			return nil, fmt.Errorf("-only: %w", err)
		}
	}
	return o, nil
}

// session runs a run and reports it. It fails if there are violations or other errors; then the
// logs stay.
func session(ctx context.Context, o *options) (err error) {
	if o.dir, err = os.MkdirTemp("", "faults-"); err != nil {
		return err
	}
	fmt.Printf("seed %d, logs in %s\n", o.seed, o.dir)
	r, err := play(ctx, o)
	if r != nil {
		r.print(os.Stdout)
		if !r.clean() && err == nil {
			err = fmt.Errorf("the run found errors: see %s", o.dir)
		}
	}
	if err == nil {
		return os.RemoveAll(o.dir)
	}
	return err
}

// clean reports whether the run reached its end without a finding.
func (r *run) clean() bool {
	return r.ended && len(r.h.violations()) == 0 && len(r.crew.wrong) == 0 && len(r.accidents) == 0
}

func (r *run) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nfault\tcount\tmedian pause, s\tworst pause, s\t\n")
	row := func(name string, p []float64) {
		if p = slices.Sorted(slices.Values(p)); len(p) > 0 {
			fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t\n", name, len(p), p[len(p)/2], p[len(p)-1])
		}
	}
	var all []float64
	for _, name := range slices.Sorted(maps.Keys(r.pauses)) {
		row(name, r.pauses[name])
		all = append(all, r.pauses[name]...)
	}
	row("all", all)
	row("planned (transfer, rolling)", slices.Concat(r.pauses["transfer"], r.pauses["rolling"]))
	t.Flush()
	c := r.h.countsNow()
	fmt.Fprintf(w, "\nseed %d: %d puts in %.0f s: %d acknowledged, %d refused, %d in doubt; %d connections\n", r.o.seed, c.put, r.took.Seconds(), c.acknowledged, c.refused, c.put-c.acknowledged-c.refused, r.crew.dialed)
	fmt.Fprintf(w, "%d reserved, %d deleted, %d released, %d buried, %d kicked; in doubt %d deletes, %d changes\n", c.reserved, c.deleted, c.released, c.buried, c.kicked, c.deletesInDoubt, c.otherChangesInDoubt)
	if r.o.attempts > 0 {
		fmt.Fprintf(w, "%d jobs of the tube with %d attempts had more, at most %d\n", len(r.h.tries), r.o.attempts, r.h.most)
	}
	if r.ended {
		fmt.Fprintf(w, "%d were there at the end; of the puts in doubt %d took effect\n", r.seen, r.appeared)
	} else {
		fmt.Fprintln(w, "the run did not reach its end: losses are unknown")
	}
	found := r.h.violations()
	for _, rule := range rules {
		fmt.Fprintf(w, "%d %s, ", found[rule], rule)
	}
	fmt.Fprintf(w, "%d wrong answers, %d accidents\n", len(r.crew.wrong), len(r.accidents))
	for _, text := range slices.Concat(r.violations, r.crew.wrong, r.accidents) {
		fmt.Fprintln(w, " ", text)
	}
}
