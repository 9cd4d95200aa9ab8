package ops

import (
	"golang.org/x/sys/unix"

	"polystalk/shard/core"
)

// suspendedAtMost and suspendedAtLeast bound the time that the machine was suspended since
// its boot: CLOCK_MONOTONIC, which Go uses, stands still then, and CLOCK_BOOTTIME does not.
// The time between the two readings counts so that a later AtLeast minus an earlier AtMost
// is never too large.
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
