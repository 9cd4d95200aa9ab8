package gearman

import (
	"math"
	"time"

	"polystalk/codec/beanstalk"
)

// cLong reads a number like C's strtoll. It ignores the bytes after it, and text is 0. A value out
// of range becomes the nearest one in range, and exact is false.
func cLong(s []byte) (v int64, exact bool) {
	u, negative, digits, ok := beanstalk.ReadC(s)
	switch {
	case digits == 0:
		return 0, true
	case negative && (!ok || u > -math.MinInt64):
		return math.MinInt64, false
	case negative:
		return -int64(u), true
	case !ok || u > math.MaxInt64:
		return math.MaxInt64, false
	}
	return int64(u), true
}

// cInt reads a number like C's atoi with a 64-bit long: the low 32 bits of strtol.
func cInt(s []byte) int32 {
	v, _ := cLong(s)
	return int32(v)
}

// readTimeout reads the timeout of a CAN_DO_TIMEOUT in milliseconds. Its minimum is 1000; 0, a
// negative number or text is no timeout. Observed.
func readTimeout(s []byte) time.Duration {
	ms, _ := cLong(s)
	if ms <= 0 {
		return 0
	}
	return time.Duration(min(max(ms, 1000), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
