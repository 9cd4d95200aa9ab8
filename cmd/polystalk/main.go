// Polystalk is the operators' program beside the server polystalkd: it inspects and operates
// queues, by polystalkd's API or beanstalkd's protocol, and inspects, checks and repairs the
// directories of journals.
//
//	main → cli (the verbs) → client (asks a server, shows the answer)
//	                       ├► top (a screen of tubes or connections)
//	                       └► journal (directories)
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"polystalk/cmd/polystalk/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	// A write to a closed pipe then fails like any other write.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	// net/http logs what a server sends unasked.
	log.SetOutput(io.Discard)
	screen := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	a := &cli.App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		Screens: cli.Screens{In: screen(os.Stdin), Out: screen(os.Stdout), Err: screen(os.Stderr)},
	}
	os.Exit(cli.Run(ctx, a, os.Args[1:]))
}
