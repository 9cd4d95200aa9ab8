package binlog

import (
	"encoding/binary"
	"math"
	"time"

	"polystalk/codec/beanstalk"
)

// A record is a name length, the tube's name, a Jobrec and the body with CR LF,
// little-endian and unaligned. A short record has length 0, no name, no body.
//
//	0    8    12   16     24   32         36   40       48        56        76     77
//	+----+----+----+------+----+----------+----+--------+---------+---- … --+------+-----+
//	| id | pri| pad| delay| ttr| body_size| pad| created| deadline| 5 counts| state| pad |
//	+----+----+----+------+----+----------+----+--------+---------+---- … --+------+-----+
//
// body_size counts the CR LF. Version 7 has 4 bytes of name length, times in nanoseconds and 3
// bytes of padding at the end; version 5 has 8 bytes, microseconds and none.
type format struct {
	lengthSize int64
	recSize    int64
	unit       int64 // ns
}

var (
	format7 = format{lengthSize: 4, recSize: 80, unit: 1}
	format5 = format{lengthSize: 8, recSize: 77, unit: 1000}
)

const (
	headerSize = 4
	version7   = 7
	version5   = 5

	// nameMax is the longest name that beanstalkd reads.
	nameMax = beanstalk.MaxTubeName
	// bodySizeMax is the maximum body_size, from beanstalkd's limit for bodies.
	bodySizeMax = beanstalk.MaxJobSizeLimit + 2
	// askedMax is the longest delay or TTR in ns: a client can set at most 2^32-1 seconds.
	askedMax = math.MaxUint32 * int64(time.Second)
)

// A jobrec is a Jobrec with times in ns.
type jobrec struct {
	job      Job // no Tube, no Body
	state    byte
	bodySize int64
}

// decode reads a Jobrec from the first recSize bytes of b, without checking the padding. bad is the
// reason if it is none.
func (f format) decode(b []byte) (r jobrec, bad string) {
	le := binary.LittleEndian
	r.job.ID = le.Uint64(b)
	r.job.Pri = le.Uint32(b[8:])
	delay, ttr := le.Uint64(b[16:]), le.Uint64(b[24:])
	r.bodySize = int64(le.Uint32(b[32:]))
	created, deadline := le.Uint64(b[40:]), le.Uint64(b[48:])
	r.job.Reserves, r.job.Timeouts = le.Uint32(b[56:]), le.Uint32(b[60:])
	r.job.Releases, r.job.Buries, r.job.Kicks = le.Uint32(b[64:]), le.Uint32(b[68:]), le.Uint32(b[72:])
	r.state = b[76]
	r.job.State = State(r.state)
	if r.state == stateReserved {
		r.job.State = Ready
	}
	// In other states the deadline is old or zero.
	if r.job.State != Delayed {
		deadline = 0
	}
	switch {
	case r.job.ID == 0:
		return r, "job id 0"
	case r.state > byte(Delayed):
		return r, "unknown job state"
	case r.bodySize < 2 || r.bodySize > bodySizeMax:
		return r, "body size out of range"
	case delay > uint64(askedMax/f.unit):
		return r, "delay out of range"
	case ttr > uint64(askedMax/f.unit):
		return r, "time to run out of range"
	case created > uint64(math.MaxInt64/f.unit) || deadline > uint64(math.MaxInt64/f.unit):
		return r, "time out of range"
	}
	r.job.Delay, r.job.TTR = time.Duration(int64(delay)*f.unit), time.Duration(int64(ttr)*f.unit)
	r.job.Created, r.job.Deadline = int64(created)*f.unit, int64(deadline)*f.unit
	return r, ""
}

// padded reports whether the padding of the Jobrec in b is zero, as beanstalkd writes it.
func (f format) padded(b []byte) bool {
	return allZero(b[12:16]) && allZero(b[36:40]) && allZero(b[77:f.recSize])
}

// appendHead appends a full record of version 7 up to its body. The tube's name must be valid, and
// the body not longer than beanstalkd reads; bad is the reason if another property of the job is
// invalid.
func appendHead(dst []byte, j *Job) (_ []byte, bad string) {
	deadline := j.Deadline
	switch j.State {
	case Delayed:
	case Ready, Buried:
		deadline = 0
	default:
		return dst, "no state that a job can be stored in"
	}
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(len(j.Tube)))
	dst = append(dst, j.Tube...)
	rec := len(dst)
	dst = le.AppendUint64(dst, j.ID)
	dst = le.AppendUint32(dst, j.Pri)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, uint64(j.Delay))
	dst = le.AppendUint64(dst, uint64(j.TTR))
	dst = le.AppendUint32(dst, uint32(len(j.Body)+2))
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, uint64(j.Created))
	dst = le.AppendUint64(dst, uint64(deadline))
	for _, n := range []uint32{j.Reserves, j.Timeouts, j.Releases, j.Buries, j.Kicks} {
		dst = le.AppendUint32(dst, n)
	}
	dst = append(dst, byte(j.State), 0, 0, 0)
	// A record that decode rejects must not be written.
	_, bad = format7.decode(dst[rec:])
	return dst, bad
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
