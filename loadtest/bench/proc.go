package bench

import (
	"cmp"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Spawner starts processes on given cores: a child inherits the affinity of the thread that forks
// it. It owns one thread, because that thread's affinity changes, and because a child's death
// signal depends on that thread.
type Spawner chan func()

// NewSpawner starts the thread. It ends with this process.
func NewSpawner() Spawner {
	s := make(Spawner)
	go func() {
		runtime.LockOSThread()
		for start := range s {
			start()
		}
	}()
	return s
}

// A Process is a program that was started.
type Process struct {
	*exec.Cmd
	Ended chan struct{} // closed when it has ended; then ProcessState says how
}

// Start starts cmd on cpus; none means all cores of this process. cmd ends with this process.
func (s Spawner) Start(cmd *exec.Cmd, cpus []int) (*Process, error) {
	if len(cpus) == 0 {
		cpus = allowedCPUs()
	}
	done := make(chan error)
	s <- func() {
		var err error
		if len(cpus) > 0 {
			err = setAffinity(cpus)
		}
		if err == nil {
			endWithParent(cmd)
			if err = cmd.Start(); err != nil {
				err = fmt.Errorf("start %s: %w", cmd.Path, err)
			}
		}
		done <- err
	}
	if err := <-done; err != nil {
		return nil, err
	}
	p := &Process{cmd, make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.Ended)
	}()
	return p, nil
}

// Running reports whether p has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// Terminate asks p to end and waits. It kills p after limit, and then returns false.
func (p *Process) Terminate(limit time.Duration) bool {
	p.Process.Signal(syscall.SIGTERM) // fails only if it has just ended
	select {
	case <-p.Ended:
		return true
	case <-time.After(limit):
		p.Process.Kill()
		<-p.Ended
		return false
	}
}

// A tail keeps the last output of a process, for the error about its end.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailLen = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-tailLen):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(strings.TrimSpace(string(t.b)), "(none)")
}
