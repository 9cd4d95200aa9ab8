//go:build !linux

package bench

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

var errNotLinux = errors.New("this needs Linux; say -server-cpus all -load-cpus all, and leave out -pid")

// CPU returns the user and system time of this process. It fails for other processes.
func CPU(pid int) (time.Duration, error) {
	var u syscall.Rusage
	if pid != syscall.Getpid() {
		return 0, nil
	}
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

func family(pid int) []int { return []int{pid} }

// RSS returns 0: it is unknown here.
func RSS(int) (int64, error) { return 0, nil }

func setAffinity([]int) error { return errNotLinux }

// allowedCPUs lists no cores: there is no pinning here.
func allowedCPUs() []int { return nil }

func endWithParent(*exec.Cmd) {}

type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

// sleepUntil returns at the time due, in nanoseconds of Now. Timers are exact where the runtime
// waits with kqueue.
func (a *alarm) sleepUntil(due int64) error {
	time.Sleep(time.Duration(due - Now()))
	return nil
}

func (a *alarm) close() {}

// spread does nothing: only Linux has more than one loopback address.
func spread(int, uint32) error { return nil }
