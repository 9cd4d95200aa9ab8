package main

import (
	"os"
	"runtime"
	"syscall"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// setDescriptors sets the limit of descriptors that was asked for. Without, the
// runtime has raised it to what this user may have.
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

// setProcs gives as many processors as loops, which let the other goroutines (shards,
// this one) have theirs now and then; see router's yieldEvery. With one more, that is
// idle, each loop that has nothing to do for a moment has the runtime wake a thread to
// look for work: a fifth of the CPU of a nearly idle server, and a sixth of that of a
// connection that puts one job. Whoever sets GOMAXPROCS by hand is obeyed.
func setProcs(c *config.Config) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	procs := c.Loops
	if c.BinlogDir != "" {
		// The committer keeps one while it waits for the disk. With none idle the
		// runtime looks every 20 µs whether to take it away: a sixth of all CPU.
		procs += 2
	}
	runtime.GOMAXPROCS(procs)
}
