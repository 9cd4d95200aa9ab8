package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"polystalk/loadtest/faults/nodes"
)

// A fault is one thing that is done to the servers, from its beginning to its end: when
// play returns all nodes run and nothing lies between them.
type fault struct {
	name  string
	nodes int // that it takes
	often int // how often it is drawn beside the others; 0: only if it is named
	// play does it. what says to whom, for who reads along.
	play func(ctx context.Context, r *run) (what string, err error)
}

// suits reports whether there are nodes enough.
func (f fault) suits(o *options) bool { return o.nodes >= f.nodes }

// faults are all that there are.
var faults = []fault{
	{"kill", 1, 6, killAny},
	{"term", 1, 2, terminateAny},
	{"stop", 1, 2, stopAny},
	{"crash-loop", 1, 2, crashLoop},
	{"amnesia", 1, 0, forget},
}

func faultNamed(name string) (fault, error) {
	var known []string
	for _, f := range faults {
		if f.name == name {
			return f, nil
		}
		known = append(known, f.name)
	}
	return fault{}, fmt.Errorf("there is no fault %q: there are %s", name, strings.Join(known, ", "))
}

// any is any of the nodes.
func (r *run) any() *nodes.Node { return r.fleet.Nodes[r.rng.IntN(len(r.fleet.Nodes))] }

// killAny is a process that ends at any point.
func killAny(ctx context.Context, r *run) (string, error) {
	n := r.any()
	n.Kill()
	r.pause(ctx, 0, 500*time.Millisecond)
	return n.Name, n.Start()
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
