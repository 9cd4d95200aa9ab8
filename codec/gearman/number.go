package gearman

import (
	"math"
	"time"
)

// A decimal can get one more digit without overflow of a uint64 if it is below tenth, or if it
// equals tenth and the digit is at most lastDigit.
const (
	tenth     = math.MaxUint64 / 10
	lastDigit = math.MaxUint64 % 10
)

// readDigits reads the decimal at the front of s, and returns the rest after its digits. No digit,
// or a value over 64 bits, is not ok; rest is valid in any case.
func readDigits(s []byte) (v uint64, rest []byte, ok bool) {
	ok = true
	for i, c := range s {
		d := uint64(c - '0')
		if d > 9 {
			return v, s[i:], ok && i > 0
		}
		if v >= tenth && (v > tenth || d > lastDigit) {
			ok = false
		}
		v = v*10 + d
	}
	return v, nil, ok && len(s) > 0
}

// cLong reads a number like C's strtoll: white space, a sign, digits. It ignores the rest, and text
// is 0. A value out of range becomes the nearest one in range, and exact is false.
func cLong(s []byte) (v int64, exact bool) {
	for len(s) > 0 && (s[0] == ' ' || s[0] >= '\t' && s[0] <= '\r') {
		s = s[1:]
	}
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	u, rest, ok := readDigits(s)
	digits := len(s) - len(rest)
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
