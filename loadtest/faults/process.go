package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

var processFaults = []fault{
	{"kill", 1, 6, killAny},
	{"term", 1, 2, terminateAny},
	{"stop", 1, 2, stopAny},
	{"crash-loop", 1, 2, crashLoop},
	{"amnesia", 1, 0, forget},
}

// killAny is a process that ends at any point.
func killAny(ctx context.Context, r *run) (string, error) {
	n := r.any()
	n.Kill()
	return n.Name, r.startAgain(ctx, n)
}

// terminateAny is an orderly restart.
func terminateAny(ctx context.Context, r *run) (string, error) {
	n := r.any()
	if err := n.Terminate(ctx, 30*time.Second); err != nil {
		return n.Name, err
	}
	return n.Name, n.Start()
}

// stopAny is a machine that stands still for longer than any timeout.
func stopAny(ctx context.Context, r *run) (string, error) {
	n := r.any()
	n.Signal(syscall.SIGSTOP)
	sleep(ctx, 3*time.Second)
	n.Signal(syscall.SIGCONT)
	return n.Name, nil
}

// crashLoop is a process that ends again and again while it starts.
func crashLoop(ctx context.Context, r *run) (string, error) {
	n := r.any()
	times := 1 + r.rng.IntN(4)
	n.Kill()
	for range times {
		if err := n.Start(); err != nil {
			return n.Name, err
		}
		r.pause(ctx, 0, 100*time.Millisecond)
		n.Kill()
	}
	return fmt.Sprintf("%s, %d times", n.Name, times), n.Start()
}

// forget is a directory that is lost while its server is down. One that is alone has lost
// everything then, so it shows that a loss is found.
func forget(_ context.Context, r *run) (string, error) {
	n := r.any()
	n.Kill()
	if err := n.Wipe(); err != nil {
		return n.Name, err
	}
	return n.Name, n.Start()
}
