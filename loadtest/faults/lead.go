package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

var leadFaults = []fault{
	{"kill-leader", 2, 8, killLeader},
	{"kill-follower", 2, 3, killFollower},
	{"kill-two", 3, 3, killTwo},
	{"kill-all", 2, 1, killAll},
	{"kill-next", 3, 3, killNext},
	{"stop-leader", 2, 4, stopLeader},
	{"stop-follower", 2, 2, stopFollower},
	{"absence", 3, 1, absence},
	{"transfer", 2, 4, transfer},
	{"rolling", 2, 1, rolling},
}

func killLeader(ctx context.Context, r *run) (string, error) {
	n, _, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	n.Kill()
	return n.Name, r.startAgain(ctx, n)
}

func killFollower(ctx context.Context, r *run) (string, error) {
	_, others, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	others[0].Kill()
	return others[0].Name, r.startAgain(ctx, others[0])
}

// killTwo takes the leader and another at once: of three, no majority is left.
func killTwo(ctx context.Context, r *run) (string, error) {
	n, others, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	n.Kill()
	others[0].Kill()
	if r.rng.IntN(2) == 0 {
		return n.Name + ", then " + others[0].Name, r.startAgain(ctx, n, others[0])
	}
	return others[0].Name + ", then " + n.Name, r.startAgain(ctx, others[0], n)
}

// killAll is a power cut.
func killAll(ctx context.Context, r *run) (string, error) {
	all := r.fleet.All()
	r.rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, n := range all {
		n.Kill()
	}
	return "", r.startAgain(ctx, all...)
}

// killNext kills the leader, and soon whoever comes next while it begins to lead.
func killNext(ctx context.Context, r *run) (string, error) {
	first, _, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	first.Kill()
	r.pause(ctx, 0, r.o.timeout)
	if err := first.Start(); err != nil {
		return first.Name, err
	}
	r.pause(ctx, 0, 3*r.o.timeout)
	second, _, err := r.fleet.Leader(ctx)
	if err != nil {
		second = r.any()
	}
	second.Kill()
	return first.Name + ", then " + second.Name, r.startAgain(ctx, second)
}

func stopLeader(ctx context.Context, r *run) (string, error) {
	n, _, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	n.Signal(syscall.SIGSTOP)
	sleep(ctx, 3*time.Second)
	n.Signal(syscall.SIGCONT)
	return n.Name, nil
}

func stopFollower(ctx context.Context, r *run) (string, error) {
	_, others, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	others[0].Signal(syscall.SIGSTOP)
	sleep(ctx, 3*time.Second)
	others[0].Signal(syscall.SIGCONT)
	return others[0].Name, nil
}

// absence is a follower that is away for so long that the others have given up what it
// needs, and it has to be sent their journal.
func absence(ctx context.Context, r *run) (string, error) {
	_, others, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	n := others[0]
	n.Kill()
	sleep(ctx, 7*time.Second)
	if err := n.Start(); err != nil || r.rng.IntN(2) == 0 {
		return n.Name, err
	}
	r.pause(ctx, 0, 400*time.Millisecond) // it is killed while it is sent what it lacks
	n.Kill()
	return n.Name + ", killed again", n.Start()
}

// transfer has another lead.
func transfer(ctx context.Context, r *run) (string, error) {
	n, others, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	return n.Name + " to " + others[0].Name, n.Transfer(ctx, others[0])
}

// rolling restarts each node in order, the leader last, with the next of the programs.
func rolling(ctx context.Context, r *run) (string, error) {
	leader, others, err := r.parts(ctx)
	if err != nil {
		return "", err
	}
	r.program++
	next := r.o.programs[r.program%len(r.o.programs)]
	for _, n := range append(others, leader) {
		if err := n.Terminate(ctx, 30*time.Second); err != nil {
			return n.Name, err
		}
		n.Program = next
		if err := n.Start(); err != nil {
			return n.Name, err
		}
		if err := r.serves(ctx, n); err != nil {
			return n.Name, err
		}
		if err := r.whole(ctx); err != nil {
			return n.Name, err
		}
	}
	return fmt.Sprintf("program %d", r.program%len(r.o.programs)+1), nil
}
