// Faults kills, stops and cuts off servers that clients use, for as many rounds as is
// said, and judges by what the clients were told whether anything was lost, done twice or
// altered.
//
//	go run ./loadtest/faults -program bin/polystalkd -rounds 100
//	    one server with a journal
//	go run ./loadtest/faults -program bin/polystalkd -nodes 3 -rounds 100
//	    a cluster of three
//	go run ./loadtest/faults cluster -program bin/polystalkd -port 11300 -dir /tmp/cluster
//	    starts a cluster and does nothing to it, for the load tester to compare
//
// The parts, each a package of its own, and main has the faults and what a run does:
//
//	history   what clients were told, and whether it can be true
//	client    the clients
//	nodes     the servers and what lies between them
//
// What is done when is drawn from the seed, which is printed; what it meets is up to the
// machine. So a seed says what kind of run it was, and repeats it nearly.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"polystalk/loadtest/faults/client"
)

// options are what a run is made of.
type options struct {
	programs []string
	nodes    int
	rounds   int
	puts     int64 // more rounds follow until so many are acknowledged
	limit    time.Duration
	only     []string
	seed     uint64
	dir      string
	gearman  bool
	calm     time.Duration
	patience time.Duration
	timeout  time.Duration
	args     []string
	segment  int64
	disk     string
	json     string
	clients  client.Clients
	depth    int
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
	var programs, only, more string
	fs := flag.NewFlagSet("faults", flag.ContinueOnError)
	fs.StringVar(&programs, "program", "bin/polystalkd", "the server's `program`; several, with commas, are the servers' in turn, and what a rolling restart changes between")
	fs.IntVar(&o.nodes, "nodes", 1, "how many; 1 is a server by itself with -b")
	fs.IntVar(&o.rounds, "rounds", 100, "faults")
	fs.Int64Var(&o.puts, "puts", 0, "go on with faults until so many puts are acknowledged")
	fs.DurationVar(&o.limit, "limit", time.Hour, "begin no fault after this `time`")
	fs.StringVar(&only, "only", "", "the `names` of the faults to be played, with commas; name*N has one played N times as often")
	fs.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of what is drawn")
	fs.StringVar(&o.dir, "dir", "", "`directory` of journals and logs (default one that is removed if nothing was found)")
	fs.BoolVar(&o.gearman, "gearman", true, "have clients of Gearman, too")
	fs.DurationVar(&o.calm, "calm", time.Second, "the longest `time` between a server that serves again and the next fault")
	fs.DurationVar(&o.patience, "patience", time.Second, "the `time` after which a client that has no answer tries another server")
	fs.DurationVar(&o.timeout, "timeout", 500*time.Millisecond, "election `timeout` of a cluster")
	fs.Int64Var(&o.segment, "segment", 4<<20, "`bytes` of a segment of a journal")
	fs.StringVar(&more, "args", "", "more `flags` for the servers")
	fs.StringVar(&o.disk, "disk", "", "give each server a disk of that `size`, of memory, as mount has it: 200m; takes root")
	fs.StringVar(&o.json, "json", "", "write everything to `file`")
	fs.IntVar(&o.clients.Singles, "singles", 4, "producers of one put at a time")
	fs.IntVar(&o.clients.Producers, "producers", 2, "producers of many")
	fs.IntVar(&o.clients.Workers, "workers", 6, "workers")
	fs.IntVar(&o.clients.Kickers, "kickers", 1, "clients that kick")
	fs.IntVar(&o.clients.Submitters, "submitters", 1, "Gearman's clients")
	fs.IntVar(&o.clients.Grabbers, "grabbers", 2, "Gearman's workers")
	fs.IntVar(&o.depth, "depth", 30, "commands in one write, at most")
	fs.Int64Var(&o.stock, "stock", 20_000, "jobs that wait, at most")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag", fs.Arg(0))
	}
	if o.nodes < 1 || o.rounds < 0 || o.clients.Singles < 1 || o.depth < 1 {
		return nil, errors.New("-nodes, -singles and -depth are 1 or more, -rounds 0 or more")
	}
	var err error
	if o.programs, err = findPrograms(programs); err != nil {
		return nil, err
	}
	o.args = append([]string{"-s", strconv.FormatInt(o.segment, 10)}, strings.Fields(more)...)
	if o.only, err = o.findFaults(only); err != nil {
		return nil, err
	}
	return o, nil
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

// findFaults reads names, or has all that suit so many nodes: each as often as it is to
// be drawn.
func (o *options) findFaults(list string) ([]string, error) {
	var names []string
	if list == "" {
		for _, f := range faults {
			if f.suits(o) && f.often > 0 {
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
				return nil, fmt.Errorf("-only: %q says no number of times", item)
			}
		}
		f, err := faultNamed(name)
		if err != nil {
			return nil, err
		}
		if !f.suits(o) {
			return nil, fmt.Errorf("-only: %s needs %d servers", name, f.nodes)
		}
		names = append(names, slices.Repeat([]string{name}, times)...)
	}
	return names, nil
}

// session is a run and its report. What was found makes it fail.
func session(ctx context.Context, o *options) (err error) {
	made := o.dir == ""
	if made {
		if o.dir, err = os.MkdirTemp("", "faults-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	fmt.Printf("seed %d, logs in %s\n", o.seed, o.dir)
	r, err := play(ctx, o)
	if r != nil {
		r.print(os.Stdout)
		if o.json != "" {
			b, bad := json.MarshalIndent(r, "", "\t")
			err = errors.Join(err, bad, os.WriteFile(o.json, append(b, '\n'), 0o644))
		}
		if !r.clean() && err == nil {
			err = fmt.Errorf("the servers are at fault: see %s", o.dir)
		}
	}
	if err == nil && made {
		return os.RemoveAll(o.dir)
	}
	return err
}
