// Faults kills, stops and cuts off servers while clients use them, and judges by the answers
// that the clients got whether anything was lost, done twice or altered.
//
//	go run ./loadtest/faults -program bin/polystalkd -rounds 100
//	    one server with a journal
//	go run ./loadtest/faults -program bin/polystalkd -nodes 3 -rounds 100
//	    a cluster of three
//	go run ./loadtest/faults cluster -program bin/polystalkd -port 11300 -dir /tmp/cluster
//	    starts a cluster and does nothing to it, for the load tester to compare
//
//	run        a run: rounds of faults; report is what it prints
//	faults     the faults
//	fleet      all nodes and what is between them; node is one server; cluster: its members
//	crew       the clients: producer, worker, and drain for the end; conn is a connection
//	history    what clients were told, and whether it can be true; holder is one connection,
//	           jobs has the records and the model of a job's reservations
//
// What is done when is drawn from the seed, which is printed; what it meets depends on the
// machine. So a seed repeats a run approximately.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are what a run is made of.
type options struct {
	programs []string
	nodes    int
	rounds   int
	puts     int64
	only     []string
	seed     uint64
	dir      string
	calm     time.Duration
	patience time.Duration
	args     string
	disk     string
	stock    int64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := dispatch(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "cluster" {
		return serveCluster(ctx, args[1:])
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	return session(ctx, o)
}

// parseOptions reads the command line.
func parseOptions(args []string) (*options, error) {
	o := new(options)
	var programs, only string
	fs := flag.NewFlagSet("faults", flag.ContinueOnError)
	fs.StringVar(&programs, "program", "bin/polystalkd", "the server's `program`; several, separated by commas, are used in turn, and a rolling restart changes between them")
	fs.IntVar(&o.nodes, "nodes", 1, "number of servers; 1 is a single server with -b")
	fs.IntVar(&o.rounds, "rounds", 100, "number of faults")
	fs.Int64Var(&o.puts, "puts", 0, "continue with faults until this many puts are acknowledged")
	fs.StringVar(&only, "only", "", "the `names` of the faults to be played, separated by commas; name*N is played N times as often")
	fs.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of what is drawn")
	fs.StringVar(&o.dir, "dir", "", "`directory` of journals and logs (default: one that is removed if nothing was found)")
	fs.DurationVar(&o.calm, "calm", time.Second, "the longest `time` between a server that serves again and the next fault")
	fs.DurationVar(&o.patience, "patience", time.Second, "the `time` after which a client without an answer tries another server")
	fs.StringVar(&o.args, "args", "", "more `flags` for the servers")
	fs.StringVar(&o.disk, "disk", "", "give each server a disk in memory of this `size`, as mount takes it: 200m; needs root")
	fs.Int64Var(&o.stock, "stock", 20_000, "jobs that wait, at most")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag", fs.Arg(0))
	}
	if o.nodes < 1 || o.rounds < 0 {
		return nil, errors.New("-nodes is 1 or more, -rounds 0 or more")
	}
	var err error
	if o.programs, err = findPrograms(programs); err != nil {
		return nil, err
	}
	o.only, err = o.findFaults(only)
	return o, err
}

// findPrograms reads a list of paths.
func findPrograms(list string) ([]string, error) {
	all := strings.Split(list, ",")
	for i, p := range all {
		abs, err := filepath.Abs(p)
		if err == nil {
			_, err = os.Stat(abs)
		}
		if err != nil {
			return nil, fmt.Errorf("-program: %w; make build leaves one in bin", err)
		}
		all[i] = abs
	}
	return all, nil
}

// findFaults reads names; an empty list has all faults that suit the number of nodes. A name
// is repeated as often as it is to be drawn.
func (o *options) findFaults(list string) ([]string, error) {
	var names []string
	if list == "" {
		for _, f := range faults {
			if o.nodes >= f.nodes {
				names = append(names, slices.Repeat([]string{f.name}, f.often)...)
			}
		}
		return names, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		name, times := item, 1
		if before, after, ok := strings.Cut(item, "*"); ok {
			name = before
			if _, err := fmt.Sscan(after, &times); err != nil || times < 1 {
				return nil, fmt.Errorf("-only: %q does not have a number of times", item)
			}
		}
		f, err := faultNamed(name)
		if err != nil {
			return nil, err
		}
		if o.nodes < f.nodes {
			return nil, fmt.Errorf("-only: %s needs %d servers", name, f.nodes)
		}
		names = append(names, slices.Repeat([]string{name}, times)...)
	}
	return names, nil
}

// session is a run and its report. It fails if anything was found.
func session(ctx context.Context, o *options) (err error) {
	made := o.dir == ""
	if made {
		o.dir, err = os.MkdirTemp("", "faults-")
	} else {
		err = os.MkdirAll(o.dir, 0o700)
	}
	if err != nil {
		return err
	}
	fmt.Printf("seed %d, logs in %s\n", o.seed, o.dir)
	r, err := play(ctx, o)
	if r != nil {
		r.print(os.Stdout)
		if !r.clean() && err == nil {
			err = fmt.Errorf("the servers are at fault: see %s", o.dir)
		}
	}
	if err == nil && made {
		return os.RemoveAll(o.dir)
	}
	return err
}
