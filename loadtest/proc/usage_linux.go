package proc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CPU reads the CPU time of a whole process, all threads, dead ones
// included. The total is the process's CPU clock, exact to the nanosecond
// (clock_getcpuclockid(3): the clock's number is made of the process id);
// /proc/PID/stat counts in hundredths of a second and serves for the split.
func CPU(pid int) (CPUTime, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
		return CPUTime{}, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return CPUTime{}, err
	}
	user, system, err := parseStat(stat)
	return CPUTime{Total: time.Duration(ts.Nano()), User: user, System: system}, err
}

// parseStat takes utime and stime, fields 14 and 15 of proc(5), out of a stat
// line. The command name, field 2, may hold spaces and parentheses. The unit
// is USER_HZ, which Linux fixes at 100 for programs.
func parseStat(stat []byte) (user, system time.Duration, err error) {
	i := bytes.LastIndexByte(stat, ')')
	f := bytes.Fields(stat[i+1:])
	if i < 0 || len(f) < 13 {
		return 0, 0, fmt.Errorf("cannot read the process's stat line %.60q", stat)
	}
	u, err1 := strconv.ParseInt(string(f[11]), 10, 64)
	s, err2 := strconv.ParseInt(string(f[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("cannot read the times in the stat line %.60q", stat)
	}
	const tick = time.Second / 100
	return time.Duration(u) * tick, time.Duration(s) * tick, nil
}

// RSS returns resident bytes. smaps_rollup walks the page tables; the
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

// setAffinity pins thread tid, 0 being the caller's.
func setAffinity(tid int, cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("pin to cores %v: %w", cpus, err)
	}
	return nil
}

// AllowedCPUs lists the cores that this process may use.
func AllowedCPUs() []int {
	var set unix.CPUSet
	var cpus []int
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for c := range 1024 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// tieToParent has the kernel end the child when the thread that starts it does.
func tieToParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
