// Loadtest drives any server that speaks the beanstalkd protocol, checks its
// replies, and measures what it costs. See README.md in this directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"polystalk/loadtest/floor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run0(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		os.Exit(1)
	}
}

func run0(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "worker":
			return workerMain(ctx, os.Stdin, os.Stdout)
		case "floor":
			return floorMain(ctx, args[1:])
		}
	}
	return runMain(ctx, args)
}

// floorMain is the server that answers constants.
func floorMain(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("loadtest floor", flag.ContinueOnError)
	o := floor.Options{}
	fs.StringVar(&o.Addr, "addr", "127.0.0.1:11300", "listen `address`")
	fs.IntVar(&o.Loops, "loops", max(1, len(allowedCPUs())), "event loops")
	fs.IntVar(&o.Body, "body", 64, "`bytes` of the body of every reserved job")
	if err := fs.Parse(args); err != nil {
		return err
	}
	// As in polystalkd: a saturated loop would otherwise delay other goroutines.
	runtime.GOMAXPROCS(o.Loops + 1)
	return floor.Run(ctx, o)
}

func runMain(ctx context.Context, args []string) error {
	var (
		fs        = flag.NewFlagSet("loadtest", flag.ContinueOnError)
		base      Load
		lines     []string
		targets   []target
		rounds    = fs.Int("rounds", 3, "interleaved rounds of a comparison")
		quiet     = fs.Bool("quiet", false, "no progress")
		withFloor = fs.Bool("floor", false, "compare with a server that only parses and answers constants, too")
	)
	for _, k := range knobs {
		fs.Func(k.name, k.help, func(v string) error { return k.set(&base, v) })
	}
	fs.Func("load", "a `workload` with its knobs, such as 'cycle conns=50 depth=16'; may be repeated", func(s string) error {
		lines = append(lines, s)
		return nil
	})
	fs.Func("compare", "a server's `command line`, [name=]command with {port} and {dir}; repeat it, the first is the baseline", func(s string) error {
		t, err := parseTarget(s)
		targets = append(targets, t)
		return err
	})
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *withFloor {
		t, err := floorTarget()
		if err != nil {
			return err
		}
		targets = append(targets, t)
	}
	uniqueNames(targets)
	if cpus := allowedCPUs(); len(cpus) > 1 {
		if base.ServerCPUs == nil {
			base.ServerCPUs = cpus[:1]
		}
		if base.LoadCPUs == nil {
			base.LoadCPUs = cpus[1:2]
		}
	}
	var loads []Load
	for _, line := range lines {
		l, err := parseLoad(line, base)
		if err != nil {
			return err
		}
		loads = append(loads, l)
	}
	c := &comparison{Loads: loads, Targets: targets, Rounds: *rounds, Show: newDisplay(os.Stderr, *quiet)}
	started := time.Now()
	runs, err := c.run(ctx, newSpawner())
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d runs in %v\n", len(runs), time.Since(started).Round(time.Second))
	return writeTable(os.Stdout, summarizeRuns(runs, targets[0].Name))
}
