package bench

import (
	"cmp"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
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

// Start starts cmd on cpus; none means all cores of this process. cmd ends with this process. The
// caller must wait for cmd.
func (s Spawner) Start(cmd *exec.Cmd, cpus []int) error {
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
	return <-done
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
