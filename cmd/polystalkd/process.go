package main

import (
	"os"
	"runtime"
	"syscall"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// setDescriptors sets the limit of descriptors of c. By default the Go runtime has raised it
// to the user's maximum.
func setDescriptors(c *config.Config) error {
	if c.Descriptors == 0 {
		return nil
	}
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return fault.New(fault.System, "%s: reading the limit: %v", c.Origin("file-descriptors"), err)
	}
	most := r.Max
	r.Cur, r.Max = c.Descriptors, max(r.Max, c.Descriptors)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return fault.New(fault.System, "%s: %d descriptors: %v: give at most %d, or start as root", c.Origin("file-descriptors"), c.Descriptors, err, most)
	}
	return nil
}

// setProcs sets GOMAXPROCS to the number of loops, unless the environment sets it. Loops yield to
// other goroutines: see router's yieldEvery. One more processor would be idle, and each loop that
// pauses would make the runtime wake a thread to look for work. That cost a fifth of the CPU of a
// nearly idle server, and a sixth for a connection that puts one job at a time.
func setProcs(c *config.Config) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	procs := c.Loops
	if c.BinlogDir != "" {
		// The committer occupies one processor while it waits for the disk. Without an idle one
		// the runtime polls every 20 µs to take it back, which cost a sixth of all CPU.
		procs += 2
	}
	runtime.GOMAXPROCS(procs)
}
