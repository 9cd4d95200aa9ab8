package gearman

import (
	"strconv"
)

// Limits of handles, in bytes.
const (
	// MaxHandle is the longest handle: 64 with a NUL, by PROTOCOL.
	MaxHandle = 63
	// MaxPrefix is the longest prefix that leaves room for any id.
	MaxPrefix = MaxHandle - len(":18446744073709551615")
)

// A Handle names a job towards clients and workers: "prefix:id".
type Handle struct {
	Prefix string // of the server; see ValidPrefix
	ID     uint64 // at least 1
}

// ValidPrefix reports whether handles may begin with s: at most MaxPrefix bytes,
// none of them a blank, a NUL or another control byte, since a handle stands
// between NULs in packets and between blanks in lines.
func ValidPrefix(s string) bool {
	if len(s) > MaxPrefix {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// AppendTo appends the handle as it stands on the wire.
func (h Handle) AppendTo(dst []byte) []byte {
	dst = append(dst, h.Prefix...)
	dst = append(dst, ':')
	return strconv.AppendUint(dst, h.ID, 10)
}

// String is for logs; the wire has AppendTo.
func (h Handle) String() string { return string(h.AppendTo(nil)) }

// size is the number of bytes that AppendTo appends.
func (h Handle) size() int {
	n := len(h.Prefix) + len(":0")
	for id := h.ID; id >= 10; id /= 10 {
		n++
	}
	return n
}

// ParseHandle finds the id in a handle of the server whose prefix is given. Not
// ok: no such server wrote it. The spelling of an id is unique, so a leading
// zero or a sign is not ok either.
func ParseHandle(prefix string, b []byte) (id uint64, ok bool) {
	if len(b) < len(prefix)+2 || string(b[:len(prefix)]) != prefix || b[len(prefix)] != ':' {
		return 0, false
	}
	digits := b[len(prefix)+1:]
	id, rest, ok := readDigits(digits)
	return id, ok && len(rest) == 0 && digits[0] != '0'
}
