// Polystalk is the operators' program beside the server polystalkd: it looks at queues and
// operates them, by polystalkd's API or beanstalkd's protocol, and at the directory of a
// journal, checks it, and rescues what can be read of a damaged one.
//
//	main → command (the tree) → target (which server) → api or wire (ask it) → output (show it)
//	                          ├► top (asks again and again, and shows a screen)
//	                          └► journal (directories)
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"polystalk/cmd/polystalk/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Who asks a second time does not want to wait.
	context.AfterFunc(ctx, stop)
	// A write to a closed pipe then fails like any other write, and the command decides.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	// net/http would log what a server sends unasked.
	log.SetOutput(io.Discard)
	screen := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	a := &command.App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		Screens: command.Screens{In: screen(os.Stdin), Out: screen(os.Stdout), Err: screen(os.Stderr)},
	}
	os.Exit(command.Run(ctx, a, os.Args[1:]))
}
