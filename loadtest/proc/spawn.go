package proc

import (
	"fmt"
	"os/exec"
	"runtime"
)

// A Spawner starts processes on given cores: a child inherits the affinity of
// the thread that forks it, so no helper program and no gap between start and
// pinning. It owns one thread for its whole life, because that thread's
// affinity is changed and because a child's death signal is tied to it.
type Spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd  *exec.Cmd
	cpus []int
	err  chan error
}

// NewSpawner starts the thread from which processes are started. It ends with
// this process.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan spawnRequest)}
	all := AllowedCPUs()
	go func() {
		runtime.LockOSThread()
		for r := range s.requests {
			r.err <- startOn(r.cmd, r.cpus, all)
		}
	}()
	return s
}

// Start starts cmd on cpus; none means all that this process may use. The
// caller waits for cmd.
func (s *Spawner) Start(cmd *exec.Cmd, cpus []int) error {
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
