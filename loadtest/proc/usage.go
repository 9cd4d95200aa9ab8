package proc

import "time"

// A CPUTime is the CPU that a process has used since its start.
type CPUTime struct {
	Total        time.Duration // user and system together, the exact figure
	User, System time.Duration // the split, coarser
}

// Since returns what was used after start was read.
func (t CPUTime) Since(start CPUTime) CPUTime {
	return CPUTime{Total: t.Total - start.Total, User: t.User - start.User, System: t.System - start.System}
}
