//go:build !linux

package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// CPU asks ps(1), whose times end at hundredths of a second: runs of
// less than some seconds are coarse here.
func CPU(pid int) (CPUTime, error) {
	f, err := ps(pid, "utime=", "time=")
	if err != nil {
		return CPUTime{}, err
	}
	user, err1 := parseClock(f[0])
	total, err2 := parseClock(f[1])
	return CPUTime{Total: total, User: user, System: total - user}, errors.Join(err1, err2)
}

// RSS returns resident bytes.
func RSS(pid int) (int64, error) {
	f, err := ps(pid, "rss=")
	if err != nil {
		return 0, err
	}
	kb, err := strconv.ParseInt(f[0], 10, 64)
	return kb << 10, err
}

func ps(pid int, columns ...string) ([]string, error) {
	args := []string{"-p", strconv.Itoa(pid)}
	for _, c := range columns {
		args = append(args, "-o", c)
	}
	out, err := exec.Command("ps", args...).Output()
	f := strings.Fields(string(out))
	if err != nil || len(f) != len(columns) {
		return nil, fmt.Errorf("ps of process %d: %q %w", pid, out, err)
	}
	return f, nil
}

// parseClock reads [[hours:]minutes:]seconds[.hundredths].
func parseClock(s string) (time.Duration, error) {
	var d time.Duration
	for part := range strings.SplitSeq(s, ":") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time of ps", s)
		}
		d = d*60 + time.Duration(v*float64(time.Second))
	}
	return d, nil
}

func setAffinity(int, []int) error {
	return errors.New("pinning to cores needs Linux; say -server-cpus all -load-cpus all")
}

// AllowedCPUs lists no cores where there is no pinning.
func AllowedCPUs() []int { return nil }

// tieToParent does nothing: there is no such signal here.
func tieToParent(*exec.Cmd) {}
