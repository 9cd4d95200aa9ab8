package beanstalkd

import (
	"bytes"
	"fmt"

	"polystalk/loadtest/drive"
)

// A kind names the first word of a reply.
type kind uint8

const (
	kindNone kind = iota
	kindInserted
	kindReserved
	kindDeleted
	kindUsing
	kindWatching
	kindOK
	kindTimedOut
	kindDeadlineSoon
	kindNotFound
	kindReleased
	kindBuried
	kindOther // any other well-formed line: errors, and what no workload asks for
)

var kindNames = [...]string{"nothing", "INSERTED", "RESERVED", "DELETED", "USING", "WATCHING", "OK",
	"TIMED_OUT", "DEADLINE_SOON", "NOT_FOUND", "RELEASED", "BURIED", "another reply"}

func (k kind) String() string { return kindNames[k] }

// A reply is one answer of the server. line and body alias the read buffer
// and die with the next read.
type reply struct {
	kind kind
	num  uint64 // id of INSERTED and RESERVED, count of WATCHING
	line []byte // without \r\n
	body []byte // of RESERVED and OK, without \r\n
}

// maxLine bounds a reply line: the longest is "USING " with a tube name.
const maxLine = 512

// parseReply reads one reply from the start of b and returns the bytes that
// it takes. n == 0 with a nil error means that b holds only a beginning; want
// is then the number of bytes needed, as far as it is known.
func parseReply(b []byte, r *reply) (n, want int, err error) {
	end := bytes.IndexByte(b, '\r')
	if end < 0 || end+1 == len(b) {
		if len(b) > maxLine {
			return 0, 0, fmt.Errorf("reply line of more than %d bytes: %q…", maxLine, b[:40])
		}
		return 0, len(b) + 1, nil
	}
	if b[end+1] != '\n' {
		return 0, 0, fmt.Errorf("reply line with a carriage return inside: %q", b[:end+2])
	}
	size, bad := r.parseLine(b[:end])
	if bad || size > drive.MaxBody {
		return 0, 0, fmt.Errorf("malformed reply line %q", b[:end])
	}
	if size < 0 {
		return end + 2, 0, nil
	}
	total := end + 2 + size + 2
	if len(b) < total {
		return 0, total, nil
	}
	if b[total-2] != '\r' || b[total-1] != '\n' {
		return 0, 0, fmt.Errorf("body of %q is not followed by CR LF but by %q", r.line, b[total-2:total])
	}
	r.body = b[end+2 : total-2]
	return total, 0, nil
}

// parseLine reads a reply's line. size is that of the body behind it, -1 if there
// is none; bad tells that the line is not what its first word promises.
func (r *reply) parseLine(line []byte) (size int, bad bool) {
	*r = reply{line: line}
	word, rest, hasRest := line, []byte(nil), false
	if before, after, ok := bytes.Cut(line, []byte{' '}); ok {
		word, rest, hasRest = before, after, true
	}
	size = -1
	switch string(word) {
	case "INSERTED":
		r.kind = kindInserted
		r.num, bad = parseUint(rest)
	case "RESERVED":
		r.kind = kindReserved
		i := bytes.IndexByte(rest, ' ')
		if i < 0 {
			bad = true
			break
		}
		var length uint64
		r.num, bad = parseUint(rest[:i])
		if !bad {
			length, bad = parseUint(rest[i+1:])
			size = int(min(length, drive.MaxBody+1))
		}
	case "OK":
		r.kind = kindOK
		var length uint64
		length, bad = parseUint(rest)
		size = int(min(length, drive.MaxBody+1))
	case "WATCHING":
		r.kind = kindWatching
		r.num, bad = parseUint(rest)
	case "DELETED":
		r.kind, bad = kindDeleted, hasRest
	case "USING":
		r.kind, bad = kindUsing, len(rest) == 0
	case "TIMED_OUT":
		r.kind, bad = kindTimedOut, hasRest
	case "DEADLINE_SOON":
		r.kind, bad = kindDeadlineSoon, hasRest
	case "NOT_FOUND":
		r.kind, bad = kindNotFound, hasRest
	case "RELEASED":
		r.kind, bad = kindReleased, hasRest
	case "BURIED":
		r.kind = kindBuried
	default:
		r.kind = kindOther
	}
	return size, bad
}

// parseUint reads a decimal number that fills b; bad tells that it does not.
func parseUint(b []byte) (v uint64, bad bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, true
	}
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || v > (1<<64-1-d)/10 {
			return 0, true
		}
		v = v*10 + d
	}
	return v, false
}
