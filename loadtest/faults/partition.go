package main

import (
	"context"
	"fmt"
	"time"

	"polystalk/loadtest/faults/nodes"
)

var partitionFaults = []fault{
	{"isolate", 2, 5, func(ctx context.Context, r *run) (string, error) { return cut(ctx, r, true, true) }},
	{"one-way-out", 2, 3, func(ctx context.Context, r *run) (string, error) { return cut(ctx, r, true, false) }},
	{"one-way-in", 2, 3, func(ctx context.Context, r *run) (string, error) { return cut(ctx, r, false, true) }},
	{"flap", 2, 2, flap},
	{"reset", 2, 2, resetOne},
	{"split", 3, 2, split},
}

// cut cuts what one node sends to the others, or what it gets, or both.
func cut(ctx context.Context, r *run, out, in bool) (string, error) {
	n, others, part, err := r.one(ctx)
	if err != nil {
		return "", err
	}
	for _, o := range others {
		if out {
			r.fleet.Wires.Cut(n, o)
		}
		if in {
			r.fleet.Wires.Cut(o, n)
		}
	}
	r.pause(ctx, r.o.timeout, 3*time.Second)
	forget := r.rng.IntN(2) == 0
	r.fleet.Wires.Mend(forget)
	return fmt.Sprintf("%s %s, forget %v", part, n.Name, forget), nil
}

// split cuts two nodes from each other that both reach a third.
func split(ctx context.Context, r *run) (string, error) {
	leader, others, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	r.fleet.Wires.Cut(leader, others[0])
	r.fleet.Wires.Cut(others[0], leader)
	r.pause(ctx, r.o.timeout, 3*time.Second)
	forget := r.rng.IntN(2) == 0
	r.fleet.Wires.Mend(forget)
	return fmt.Sprintf("leader %s from %s, forget %v", leader.Name, others[0].Name, forget), nil
}

// flap is a wire that is there and away in turns.
func flap(ctx context.Context, r *run) (string, error) {
	n, others, part, err := r.one(ctx)
	if err != nil {
		return "", err
	}
	times := 3 + r.rng.IntN(8)
	for range times {
		r.each(others, func(o *nodes.Node) {
			r.fleet.Wires.Cut(n, o)
			r.fleet.Wires.Cut(o, n)
		})
		r.pause(ctx, 20*time.Millisecond, r.o.timeout)
		r.fleet.Wires.Mend(r.rng.IntN(2) == 0)
		r.pause(ctx, 20*time.Millisecond, r.o.timeout)
	}
	return fmt.Sprintf("%s %s, %d times", part, n.Name, times), nil
}

// resetOne breaks all connections of one node.
func resetOne(ctx context.Context, r *run) (string, error) {
	n, _, part, err := r.one(ctx)
	if err == nil {
		r.fleet.Wires.Reset(n)
	}
	return part, err
}

func (r *run) each(all []*nodes.Node, do func(*nodes.Node)) {
	for _, n := range all {
		do(n)
	}
}
