package clock

import (
	"golang.org/x/sys/unix"

	"polystalk/shard/core"
)

// suspendedAtMost and suspendedAtLeast bound how long the machine has been suspended
// since its boot: CLOCK_MONOTONIC, which is Go's, stands still then, CLOCK_BOOTTIME does
// not. They are read one after the other, and whatever lies in between counts so that
// the difference of a later AtLeast and an earlier AtMost is never too large.
func suspendedAtMost() core.Time {
	mono := readClock(unix.CLOCK_MONOTONIC)
	return readClock(unix.CLOCK_BOOTTIME) - mono
}

func suspendedAtLeast() core.Time {
	boot := readClock(unix.CLOCK_BOOTTIME)
	return boot - readClock(unix.CLOCK_MONOTONIC)
}

// readClock gives zero for a clock that the system does not have.
func readClock(id int32) core.Time {
	var t unix.Timespec
	if unix.ClockGettime(id, &t) != nil {
		return 0
	}
	return core.Time(t.Nano())
}
