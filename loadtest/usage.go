package main

import "time"

// A cpuTime is the CPU that a process has used since its start.
type cpuTime struct {
	Total        time.Duration // user and system together, the exact figure
	User, System time.Duration // the split, coarser
}

func (t cpuTime) since(start cpuTime) cpuTime {
	return cpuTime{Total: t.Total - start.Total, User: t.User - start.User, System: t.System - start.System}
}
