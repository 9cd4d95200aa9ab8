package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"polystalk/codec/admin"
	"polystalk/loadtest/faults/nodes"
)

var memberFaults = []fault{
	{"wiped", 3, 2, wipe},
	{"join-killed", 3, 2, killJoining},
	{"replaced", 3, 2, replace},
}

// wipe is a follower whose disk is lost: it is removed, and comes back with an empty one.
func wipe(ctx context.Context, r *run) (string, error) {
	_, n, err := r.joining(ctx)
	if err != nil {
		return "", err
	}
	if err := r.whole(ctx); err != nil {
		return n.Name, err
	}
	n.Member = true
	return n.Name, nil
}

// killJoining kills a node while it joins, or the leader that sends it the journal. What
// ended is started again with the same flags, as a supervisor does.
func killJoining(ctx context.Context, r *run) (string, error) {
	leader, n, err := r.joining(ctx)
	if err != nil {
		return "", err
	}
	var what strings.Builder
	what.WriteString(n.Name)
	for range 1 + r.rng.IntN(3) {
		r.pause(ctx, 0, 400*time.Millisecond)
		killed := n
		if r.rng.IntN(3) == 0 {
			killed = leader
		}
		what.WriteString(", " + killed.Name + " killed")
		killed.Kill()
		if err := killed.Start(); err != nil {
			return what.String(), err
		}
	}
	if err := r.whole(ctx); err != nil {
		return what.String(), err
	}
	n.Member = true
	return what.String(), nil
}

// joining removes a follower, and has it join with an empty disk.
func (r *run) joining(ctx context.Context) (leader, n *nodes.Node, err error) {
	leader, others, err := r.parts(ctx)
	if err != nil {
		return nil, nil, err
	}
	n = others[0]
	n.Kill()
	if err := leader.Remove(ctx, n); err != nil {
		return nil, nil, err
	}
	if err := n.Wipe(); err != nil {
		return nil, nil, err
	}
	n.Member = false
	return leader, n, n.Start()
}

// replace has a new node join, and removes another once it votes, all of them running.
func replace(ctx context.Context, r *run) (string, error) {
	_, others, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	old := others[0]
	n, err := r.fleet.Add(old.Program)
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("%s by %s", old.Name, n.Name)
	if err := n.Start(); err != nil {
		return what, err
	}
	if err := r.whole(ctx); err != nil {
		return what, err
	}
	n.Member = true
	leader, _, err := r.parts(ctx)
	if err != nil {
		return what, err
	}
	if leader == old {
		return what + ", which leads and stays", nil
	}
	old.Expect() // a node may end when it hears that it was removed
	if err := leader.Remove(ctx, old); err != nil {
		return what, err
	}
	return what, r.fleet.Drop(old)
}

// whole returns once all nodes are members that vote, as the leader sees them.
func (r *run) whole(ctx context.Context) error {
	var why error
	for limit := time.Now().Add(recovery); ; sleep(ctx, 20*time.Millisecond) {
		_, c, err := r.fleet.Leader(ctx)
		if why = err; err == nil {
			why = r.missing(c)
		}
		switch {
		case why == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(limit):
			return fmt.Errorf("the cluster is not whole after %v: %w", recovery, why)
		}
	}
}

// missing says which node does not vote or is not reached.
func (r *run) missing(c admin.Cluster) error {
	known := make(map[string]admin.ClusterMember)
	for _, m := range c.Members {
		known[m.Name] = m
	}
	for _, n := range r.fleet.All() {
		switch m, ok := known[n.Name]; {
		case !ok:
			return fmt.Errorf("%s is no member", n.Name)
		case m.Kind != admin.MemberVotes:
			return fmt.Errorf("%s is %s", n.Name, m.Kind)
		case !m.Leads && !m.Connected:
			return fmt.Errorf("%s is not connected: %s", n.Name, m.Trouble)
		}
	}
	return nil
}
