package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the user and system time of all threads of a process, including ended ones. It reads
// the process's CPU clock, which is exact to the nanosecond; the clock's number is computed from
// the process id. Source: clock_getcpuclockid(3).
func CPU(pid int) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// family returns a process and its living descendants.
func family(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, list := range lists {
			b, _ := os.ReadFile(list) // a thread that has just ended has none
			for id := range bytes.FieldsSeq(b) {
				if child, err := strconv.Atoi(string(id)); err == nil {
					all = append(all, child)
				}
			}
		}
	}
	return all
}

// RSS returns the resident bytes of a process. smaps_rollup walks the page tables; the
// cheaper counters in /proc/PID/status may lag behind by megabytes.
func RSS(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "Rss:" {
			kb, err := strconv.ParseInt(string(f[1]), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no Rss line in /proc/%d/smaps_rollup", pid)
}

// setAffinity pins the calling thread.
func setAffinity(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to cores %v: %w", cpus, err)
	}
	return nil
}

// allowed is read once, before any thread of this process is pinned.
var allowed = func() (cpus []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for c := range 1024 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}()

// allowedCPUs lists the cores that this process may use.
func allowedCPUs() []int { return allowed }

// endWithParent makes the kernel kill the child when the thread that starts it ends.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
