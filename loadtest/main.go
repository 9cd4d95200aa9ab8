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
// packages it imports the Gearman codec alone. Its own import each other like
// this, and main, which has the flags and what a session does, imports them all:
//
//	report ──► compare ──► measure ──► workload ──► drive ──► latency
//	beanstalkd, gearmand ─────────────────┘
//	floor                  the server that answers constants
//	proc                   processes, their cores, CPU and memory
//
// What kills servers instead of measuring them is a program of its own, loadtest/faults.
//
// To add a workload or a protocol see package workload; a metric, the table in
// compare; a form of report, package report.
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

	"polystalk/loadtest/beanstalkd"
	"polystalk/loadtest/floor"
	"polystalk/loadtest/gearmand"
	"polystalk/loadtest/measure"
	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
)

// protocols are those that servers may speak.
var protocols = workload.Protocols{
	beanstalkd.Protocol.Name: beanstalkd.Protocol,
	gearmand.Protocol.Name:   gearmand.Protocol,
}

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
			return measure.Worker(ctx, protocols, os.Stdin, os.Stdout)
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
