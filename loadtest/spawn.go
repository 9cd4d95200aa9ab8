package main

import (
	"fmt"
	"os/exec"
	"runtime"
)

// A spawner starts processes on given cores: a child inherits the affinity of
// the thread that forks it, so no helper program and no gap between start and
// pinning. It owns one thread for its whole life, because that thread's
// affinity is changed and because a child's death signal is tied to it.
type spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd  *exec.Cmd
	cpus []int
	err  chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	all := allowedCPUs()
	go func() {
		runtime.LockOSThread()
		for r := range s.requests {
			r.err <- startOn(r.cmd, r.cpus, all)
		}
	}()
	return s
}

// start starts cmd on cpus; none means all that this process may use.
func (s *spawner) start(cmd *exec.Cmd, cpus []int) error {
	r := spawnRequest{cmd: cmd, cpus: cpus, err: make(chan error)}
	s.requests <- r
	return <-r.err
}

func startOn(cmd *exec.Cmd, cpus, all []int) error {
	if len(cpus) == 0 {
		cpus = all
	}
	if len(cpus) > 0 {
		if err := setAffinity(0, cpus); err != nil {
			return err
		}
	}
	tieToParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return nil
}
