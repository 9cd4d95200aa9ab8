package ops

import (
	"golang.org/x/sys/unix"

	"polystalk/shard/core"
)

// suspendedAtMost and suspendedAtLeast bound the total time of suspends since boot: in a suspend
// CLOCK_MONOTONIC, which Go uses, stands still, and CLOCK_BOOTTIME does not. Time passes between
// the two readings, so AtMost is too large and AtLeast too small; a later AtLeast minus an
// earlier AtMost is never too large.
func suspendedAtMost() core.Time {
	mono := readClock(unix.CLOCK_MONOTONIC)
	return readClock(unix.CLOCK_BOOTTIME) - mono
}

func suspendedAtLeast() core.Time {
	boot := readClock(unix.CLOCK_BOOTTIME)
	return boot - readClock(unix.CLOCK_MONOTONIC)
}

// readClock returns zero for a clock that the system does not have.
func readClock(id int32) core.Time {
	var t unix.Timespec
	if unix.ClockGettime(id, &t) != nil {
		return 0
	}
	return core.Time(t.Nano())
}
