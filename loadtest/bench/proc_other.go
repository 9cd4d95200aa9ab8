//go:build !linux

package bench

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// CPU returns the user and system time of a process. ps(1) tells hundredths of a second:
// runs of less than some seconds are coarse here.
func CPU(pid int) (time.Duration, error) {
	text, err := ps(pid, "time=")
	if err != nil {
		return 0, err
	}
	var d time.Duration // of [[hours:]minutes:]seconds[.hundredths]
	for part := range strings.SplitSeq(text, ":") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time of ps", text)
		}
		d = d*60 + time.Duration(v*float64(time.Second))
	}
	return d, nil
}

// RSS returns the resident bytes of a process.
func RSS(pid int) (int64, error) {
	text, err := ps(pid, "rss=")
	if err != nil {
		return 0, err
	}
	kb, err := strconv.ParseInt(text, 10, 64)
	return kb << 10, err
}

func ps(pid int, column string) (string, error) {
	out, err := exec.Command("ps", "-p", strconv.Itoa(pid), "-o", column).Output()
	return strings.TrimSpace(string(out)), err
}

func setAffinity([]int) error {
	return errors.New("pinning to cores needs Linux; say -server-cpus all -load-cpus all")
}

// AllowedCPUs lists no cores: there is no pinning here.
func AllowedCPUs() []int { return nil }

func endWithParent(*exec.Cmd) {}

type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

// sleepUntil returns at due, in nanoseconds of Now: timers are exact where the runtime
// waits with kqueue.
func (a *alarm) sleepUntil(due int64) error {
	time.Sleep(time.Duration(due - Now()))
	return nil
}

func (a *alarm) close() {}

// spread does nothing: only Linux has more than one loopback address.
func spread(int, uint32) error { return nil }
