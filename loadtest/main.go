// Loadtest drives any server that speaks the beanstalkd or the Gearman protocol, checks its
// replies, and measures their cost.
//
//	go run ./loadtest -load 'cycle depth=16'
//	    against the server that runs on 127.0.0.1:11300
//	go run ./loadtest -compare beanstalkd -compare 'polystalkd -l 127.0.0.1 -p {port}' -floor \
//	    -load 'cycle conns=50' -load 'cycle conns=50 depth=16' -rounds 5 -assert 'cpu<=0.85'
//	    starts the servers in turn and compares them
//	go run ./loadtest -protocol gearman -compare 'gearmand=/usr/sbin/gearmand -t 4' \
//	    -compare 'polystalkd -l 127.0.0.1 -p 0 --gearman-listen 127.0.0.1:{port}' \
//	    -load 'foreground conns=64 workers=16' -load 'background conns=8 depth=100 count=1000000'
//	    the same for Gearman
//
// Package bench does all of it. loadtest/faults kills servers instead of measuring them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"polystalk/loadtest/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench.Main(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		os.Exit(1)
	}
}
