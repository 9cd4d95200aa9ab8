package beanstalk

import "math"

// A decimal can get one more digit without overflow of a uint64 if it is below tenth, or if it
// equals tenth and the digit is at most lastDigit.
const (
	tenth     = math.MaxUint64 / 10
	lastDigit = math.MaxUint64 % 10
)

// readU64 reads a decimal from the front of s, after any number of spaces (spaces only, no tab), and
// returns the rest after its last digit. A sign, no digit, or a value over 64 bits is not ok. Leading
// zeros are allowed.
func readU64(s []byte) (v uint64, rest []byte, ok bool) {
	for len(s) > 0 && s[0] == ' ' {
		s = s[1:]
	}
	return ReadDigits(s)
}

// readU32 is readU64 for values of 32 bits.
func readU32(s []byte) (v uint32, rest []byte, ok bool) {
	w, rest, ok := readU64(s)
	return uint32(w), rest, ok && w <= math.MaxUint32
}

// ReadDigits reads the decimal at the front of s, and returns the rest after its digits. No digit,
// or a value over 64 bits, is not ok; rest is valid in any case.
func ReadDigits(s []byte) (v uint64, rest []byte, ok bool) {
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

// ReadC reads a number like C's strtoul: white space, a sign, the digits of v. digits is their
// number; further bytes are ignored. No digit, or a value over 64 bits, is not ok.
func ReadC(s []byte) (v uint64, negative bool, digits int, ok bool) {
	for len(s) > 0 && (s[0] == ' ' || s[0] >= '\t' && s[0] <= '\r') {
		s = s[1:]
	}
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	v, rest, ok := ReadDigits(s)
	return v, negative, len(s) - len(rest), ok
}

// readBound reads the argument of kick, and truncates it to 32 bits. A negative number wraps around
// 64 bits, as in C.
func readBound(s []byte) (bound uint32, ok bool) {
	v, negative, _, ok := ReadC(s)
	if negative {
		v = -v
	}
	return uint32(v), ok
}

// nameByte marks the bytes that are allowed in a tube name.
// Source: beanstalkd doc/protocol.txt, "tube names".
var nameByte = func() (t [256]bool) {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()"
	for _, c := range []byte(allowed) {
		t[c] = true
	}
	return t
}()

// ValidTubeName reports whether name is 1 to MaxTubeName bytes of letters,
// digits and -+/;.$_() and does not begin with a hyphen.
func ValidTubeName(name []byte) bool {
	if len(name) == 0 || len(name) > MaxTubeName || name[0] == '-' {
		return false
	}
	return nameLen(name) == len(name)
}

// nameLen counts the bytes at the front of s that are allowed in a name.
func nameLen(s []byte) int {
	for i, c := range s {
		if !nameByte[c] {
			return i
		}
	}
	return len(s)
}
