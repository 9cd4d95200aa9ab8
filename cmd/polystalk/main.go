// Polystalk is the operators' program for the server polystalkd. It inspects and operates queues by
// polystalkd's API or beanstalkd's protocol. It also inspects, checks and repairs journal
// directories.
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
	// net/http would log unexpected data of a server.
	log.SetOutput(io.Discard)
	screen := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	width, _, _ := term.GetSize(int(os.Stdout.Fd())) // 0 if it is no terminal
	a := &cli.App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		Screens: cli.Screens{In: screen(os.Stdin), Out: screen(os.Stdout), Err: screen(os.Stderr), Width: width},
	}
	os.Exit(cli.Run(ctx, a, os.Args[1:]))
}
