package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A fault is one thing that is done to the servers, from its beginning to its end: when play
// returns, all nodes run and nothing is cut.
type fault struct {
	name  string
	nodes int // that it needs
	often int // how often it is drawn, relative to the others; 0: only if it is named
	// play plays the fault. what says for the log what it was done to.
	play func(ctx context.Context, r *run) (what string, err error)
}

var faults = []fault{
	{"kill", 1, 6, func(ctx context.Context, r *run) (string, error) { return r.kill(ctx, r.any()) }},
	{"term", 1, 2, terminate},
	{"stop", 1, 2, func(ctx context.Context, r *run) (string, error) { return r.stop(ctx, r.any()) }},
	{"crash-loop", 1, 2, crashLoop},
	{"amnesia", 1, 0, amnesia},
	{"eio", 1, 0, failFlush},
	{"full", 1, 0, fillDisk},

	{"kill-leader", 2, 8, onRoles(func(ctx context.Context, r *run, leader *node, _ []*node) (string, error) { return r.kill(ctx, leader) })},
	{"kill-follower", 2, 3, onRoles(func(ctx context.Context, r *run, _ *node, others []*node) (string, error) {
		return r.kill(ctx, others[0])
	})},
	{"kill-two", 3, 3, onRoles(killTwo)},
	{"kill-all", 2, 1, func(ctx context.Context, r *run) (string, error) { return r.kill(ctx, r.shuffled(r.fleet.all())...) }},
	{"kill-next", 3, 3, onRoles(killNext)},
	{"stop-leader", 2, 4, onRoles(func(ctx context.Context, r *run, leader *node, _ []*node) (string, error) { return r.stop(ctx, leader) })},
	{"stop-follower", 2, 2, onRoles(func(ctx context.Context, r *run, _ *node, others []*node) (string, error) {
		return r.stop(ctx, others[0])
	})},
	{"absence", 3, 1, onRoles(absence)},
	{"transfer", 2, 4, onRoles(transfer)},
	{"rolling", 2, 1, onRoles(rolling)},

	{"isolate", 2, 5, func(ctx context.Context, r *run) (string, error) { return r.cut(ctx, true, true) }},
	{"one-way-out", 2, 3, func(ctx context.Context, r *run) (string, error) { return r.cut(ctx, true, false) }},
	{"one-way-in", 2, 3, func(ctx context.Context, r *run) (string, error) { return r.cut(ctx, false, true) }},
	{"flap", 2, 2, flap},
	{"reset", 2, 2, reset},
	{"split", 3, 2, onRoles(split)},

	{"wiped", 3, 2, func(ctx context.Context, r *run) (string, error) { return r.join(ctx, 0) }},
	{"join-killed", 3, 2, func(ctx context.Context, r *run) (string, error) { return r.join(ctx, 1+r.rng.IntN(3)) }},
	{"replaced", 3, 2, onRoles(replace)},
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

// any returns one of the nodes.
func (r *run) any() *node {
	all := r.fleet.all()
	return all[r.rng.IntN(len(all))]
}

func (r *run) shuffled(all []*node) []*node {
	r.rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

// roles waits for a leader, and returns it and the others in any order.
func (r *run) roles(ctx context.Context) (leader *node, others []*node, err error) {
	for limit := time.Now().Add(recovery); ; sleep(ctx, 10*time.Millisecond) {
		leader, _, err = r.fleet.leader(ctx)
		if err == nil {
			return leader, r.shuffled(slices.DeleteFunc(r.fleet.all(), func(n *node) bool { return n == leader })), nil
		}
		if ctx.Err() != nil || time.Now().After(limit) {
			return nil, nil, err
		}
	}
}

// onRoles makes a fault of a function that needs the leader.
func onRoles(play func(ctx context.Context, r *run, leader *node, others []*node) (string, error)) func(context.Context, *run) (string, error) {
	return func(ctx context.Context, r *run) (string, error) {
		leader, others, err := r.roles(ctx)
		if err != nil {
			return "", err
		}
		return play(ctx, r, leader, others)
	}
}

// one returns the leader or another node, and the rest.
func (r *run) one(ctx context.Context) (n *node, others []*node, role string, err error) {
	leader, others, err := r.roles(ctx)
	if err != nil || len(others) == 0 || r.rng.IntN(2) == 0 {
		return leader, others, "leader", err
	}
	n, others[0] = others[0], leader
	return n, others, "follower", nil
}

// kill kills nodes at once, and starts each after a while.
func (r *run) kill(ctx context.Context, all ...*node) (string, error) {
	var names []string
	for _, n := range all {
		n.kill()
		names = append(names, n.name)
	}
	for _, n := range all {
		r.wait(ctx, 0, 700*time.Millisecond)
		if err := n.start(); err != nil {
			return n.name, err
		}
	}
	return strings.Join(names, ", then "), nil
}

// stop stops a process for longer than any timeout.
func (r *run) stop(ctx context.Context, n *node) (string, error) {
	n.signal(syscall.SIGSTOP)
	sleep(ctx, 3*time.Second)
	n.signal(syscall.SIGCONT)
	return n.name, nil
}

// terminate is an orderly restart.
func terminate(ctx context.Context, r *run) (string, error) {
	n := r.any()
	if err := n.terminate(ctx); err != nil {
		return n.name, err
	}
	return n.name, n.start()
}

// crashLoop kills a process again and again while it starts.
func crashLoop(ctx context.Context, r *run) (string, error) {
	n := r.any()
	times := 1 + r.rng.IntN(4)
	n.kill()
	for range times {
		if err := n.start(); err != nil {
			return n.name, err
		}
		r.wait(ctx, 0, 100*time.Millisecond)
		n.kill()
	}
	return fmt.Sprintf("%s, %d times", n.name, times), n.start()
}

// amnesia loses a directory while its server is down. A single server has lost everything
// then: this shows that a loss is found.
func amnesia(_ context.Context, r *run) (string, error) {
	n := r.any()
	n.kill()
	if err := n.wipe(); err != nil {
		return n.name, err
	}
	return n.name, n.start()
}

// failFlush makes a flush of the disk fail, once. The server must end, and what it has
// acknowledged must be there nevertheless. It needs strace.
func failFlush(ctx context.Context, r *run) (string, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return "", err
	}
	n := r.any()
	n.kill()
	at := 5 + r.rng.IntN(200)
	n.wrapper = []string{strace, "-D", "-f", "-qq", "-o", os.DevNull, "-e", "trace=fdatasync", "-e", fmt.Sprintf("inject=fdatasync:error=EIO:when=%d", at)}
	err = n.start()
	n.wrapper = nil
	if err != nil {
		return n.name, err
	}
	n.expect()
	what := fmt.Sprintf("%s, flush %d", n.name, at)
	select {
	case <-n.ended:
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
		what += ", which was not reached"
	}
	n.kill()
	return what, n.start()
}

// fillDisk fills a disk for a while.
func fillDisk(ctx context.Context, r *run) (string, error) {
	if r.fleet.disk == "" {
		return "", fmt.Errorf("the machine's disk is not filled: give each server its own with -disk 200m")
	}
	n := r.any()
	if err := n.fillDisk(); err != nil {
		return n.name, err
	}
	r.wait(ctx, time.Second, 4*time.Second)
	return n.name, n.freeDisk()
}

// killTwo kills the leader and another at once: of three, no majority is left.
func killTwo(ctx context.Context, r *run, leader *node, others []*node) (string, error) {
	return r.kill(ctx, r.shuffled([]*node{leader, others[0]})...)
}

// killNext kills the leader, and soon its successor while it begins to lead.
func killNext(ctx context.Context, r *run, first *node, _ []*node) (string, error) {
	first.kill()
	r.wait(ctx, 0, timeout)
	if err := first.start(); err != nil {
		return first.name, err
	}
	r.wait(ctx, 0, 3*timeout)
	second, _, err := r.fleet.leader(ctx)
	if err != nil {
		second = r.any()
	}
	what, err := r.kill(ctx, second)
	return first.name + ", then " + what, err
}

// absence is a follower that is away until the others have dropped the entries that it needs:
// it must be sent their journal.
func absence(ctx context.Context, r *run, _ *node, others []*node) (string, error) {
	n := others[0]
	n.kill()
	sleep(ctx, 7*time.Second)
	if err := n.start(); err != nil || r.rng.IntN(2) == 0 {
		return n.name, err
	}
	r.wait(ctx, 0, 400*time.Millisecond) // it is killed while it receives the journal
	n.kill()
	return n.name + ", killed again", n.start()
}

// transfer makes another node lead.
func transfer(ctx context.Context, _ *run, leader *node, others []*node) (string, error) {
	return leader.name + " to " + others[0].name, leader.transfer(ctx, others[0])
}

// rolling restarts each node in order, the leader last, with the next of the programs.
func rolling(ctx context.Context, r *run, leader *node, others []*node) (string, error) {
	r.program++
	next := r.fleet.programs[r.program%len(r.fleet.programs)]
	for _, n := range append(others, leader) {
		if err := n.terminate(ctx); err != nil {
			return n.name, err
		}
		n.program = next
		if err := n.start(); err != nil {
			return n.name, err
		}
		if err := r.serves(ctx, n); err != nil {
			return n.name, err
		}
		if err := r.complete(ctx); err != nil {
			return n.name, err
		}
	}
	return fmt.Sprintf("program %d", r.program%len(r.fleet.programs)+1), nil
}

// cut cuts what one node sends to the others, or what it gets, or both.
func (r *run) cut(ctx context.Context, out, in bool) (string, error) {
	n, others, role, err := r.one(ctx)
	if err != nil {
		return "", err
	}
	for _, o := range others {
		if out {
			r.fleet.cut(n, o)
		}
		if in {
			r.fleet.cut(o, n)
		}
	}
	return role + " " + n.name + r.mend(ctx), nil
}

// mend ends cuts after a while.
func (r *run) mend(ctx context.Context) string {
	r.wait(ctx, timeout, 3*time.Second)
	forget := r.rng.IntN(2) == 0
	r.fleet.mend(forget)
	return fmt.Sprintf(", forget %v", forget)
}

// split cuts two nodes from each other that both reach a third.
func split(ctx context.Context, r *run, leader *node, others []*node) (string, error) {
	r.fleet.cut(leader, others[0])
	r.fleet.cut(others[0], leader)
	return "leader " + leader.name + " from " + others[0].name + r.mend(ctx), nil
}

// flap cuts one node again and again.
func flap(ctx context.Context, r *run) (string, error) {
	n, others, role, err := r.one(ctx)
	if err != nil {
		return "", err
	}
	times := 3 + r.rng.IntN(8)
	for range times {
		for _, o := range others {
			r.fleet.cut(n, o)
			r.fleet.cut(o, n)
		}
		r.wait(ctx, 20*time.Millisecond, timeout)
		r.fleet.mend(r.rng.IntN(2) == 0)
		r.wait(ctx, 20*time.Millisecond, timeout)
	}
	return fmt.Sprintf("%s %s, %d times", role, n.name, times), nil
}

// reset breaks all connections of one node.
func reset(ctx context.Context, r *run) (string, error) {
	n, _, role, err := r.one(ctx)
	if err == nil {
		r.fleet.reset(n)
	}
	return role, err
}

// join removes a follower, and lets it join with an empty disk. Meanwhile it, or the leader
// that sends it the journal, is killed some times, and started with the same flags.
func (r *run) join(ctx context.Context, kills int) (string, error) {
	leader, others, err := r.roles(ctx)
	if err != nil {
		return "", err
	}
	n := others[0]
	n.kill()
	if err := leader.remove(ctx, n); err != nil {
		return n.name, err
	}
	if err := n.wipe(); err != nil {
		return n.name, err
	}
	n.member = false
	if err := n.start(); err != nil {
		return n.name, err
	}
	var what strings.Builder
	what.WriteString(n.name)
	for range kills {
		r.wait(ctx, 0, 400*time.Millisecond)
		killed := n
		if r.rng.IntN(3) == 0 {
			killed = leader
		}
		what.WriteString(", " + killed.name + " killed")
		killed.kill()
		if err := killed.start(); err != nil {
			return what.String(), err
		}
	}
	if err := r.complete(ctx); err != nil {
		return what.String(), err
	}
	n.member = true
	return what.String(), nil
}

// replace lets a new node join, and removes another once it votes, all of them running.
func replace(ctx context.Context, r *run, _ *node, others []*node) (string, error) {
	old := others[0]
	n, err := r.fleet.add(old.program)
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("%s by %s", old.name, n.name)
	if err := n.start(); err != nil {
		return what, err
	}
	if err := r.complete(ctx); err != nil {
		return what, err
	}
	n.member = true
	leader, _, err := r.roles(ctx)
	if err != nil {
		return what, err
	}
	if leader == old {
		return what + ", which leads and stays", nil
	}
	old.expect() // a node may end when it hears that it was removed
	if err := leader.remove(ctx, old); err != nil {
		return what, err
	}
	return what, r.fleet.drop(old)
}
