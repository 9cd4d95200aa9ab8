package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

var diskFaults = []fault{
	{"eio", 1, 0, failSync},
	{"full", 1, 0, fill},
}

// failSync is a disk whose flush fails, once. The server must end, and what it has
// acknowledged must be there all the same. It takes strace.
func failSync(ctx context.Context, r *run) (string, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return "", err
	}
	n := r.any()
	n.Kill()
	at := 5 + r.rng.IntN(200)
	n.Wrapper = []string{strace, "-D", "-f", "-qq", "-o", os.DevNull, "-e", "trace=fdatasync", "-e", fmt.Sprintf("inject=fdatasync:error=EIO:when=%d", at)}
	err = n.Start()
	n.Wrapper = nil
	if err != nil {
		return n.Name, err
	}
	n.Expect()
	what := fmt.Sprintf("%s, flush %d", n.Name, at)
	select {
	case <-n.Ended():
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
		what += ", which did not come"
	}
	n.Kill()
	return what, n.Start()
}

// fill is a disk that somebody else has filled, for a while. It takes -disk.
func fill(ctx context.Context, r *run) (string, error) {
	if r.o.disk == "" {
		return "", fmt.Errorf("the machine's disk is not to be filled: give each server one of its own, by -disk 200m")
	}
	n := r.any()
	if err := n.Fill(); err != nil {
		return n.Name, err
	}
	r.pause(ctx, time.Second, 4*time.Second)
	return n.Name, n.Drain()
}
