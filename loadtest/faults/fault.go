package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// faults are all that there are: what is done to one server (process.go, disk.go), to one
// of a cluster because of its part in it (lead.go), to what lies between them
// (partition.go), and to who belongs to it (members.go).
var faults = slices.Concat(processFaults, diskFaults, leadFaults, partitionFaults, memberFaults)

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
func (r *run) any() *nodes.Node {
	all := r.fleet.All()
	return all[r.rng.IntN(len(all))]
}

// parts waits for a leader, and returns it and the others in any order.
func (r *run) parts(ctx context.Context) (leader *nodes.Node, others []*nodes.Node, err error) {
	for limit := time.Now().Add(recovery); ; sleep(ctx, 10*time.Millisecond) {
		leader, _, err = r.fleet.Leader(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil || time.Now().After(limit) {
			return nil, nil, err
		}
	}
	others = slices.DeleteFunc(r.fleet.All(), func(n *nodes.Node) bool { return n == leader })
	r.rng.Shuffle(len(others), func(i, k int) { others[i], others[k] = others[k], others[i] })
	return leader, others, nil
}

// one is the leader or another, by a throw.
func (r *run) one(ctx context.Context) (n *nodes.Node, others []*nodes.Node, part string, err error) {
	leader, others, err := r.parts(ctx)
	if err != nil || len(others) == 0 || r.rng.IntN(2) == 0 {
		return leader, others, "leader", err
	}
	n = others[0]
	others[0] = leader
	return n, others, "follower", nil
}

// startAgain starts nodes that do not run, each after a while.
func (r *run) startAgain(ctx context.Context, all ...*nodes.Node) error {
	for _, n := range all {
		r.pause(ctx, 0, 700*time.Millisecond)
		if err := n.Start(); err != nil {
			return err
		}
	}
	return nil
}
