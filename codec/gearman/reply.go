package gearman

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"
)

// AppendReply appends a whole packet from a server: args with a NUL between each two of them. The
// last one is the data, if the type has data, even if it is empty.
func AppendReply(dst []byte, t Type, args ...[]byte) []byte {
	return appendPacket(dst, magicResponse, t, args)
}

// AppendRequest is AppendReply for packets of clients and workers.
func AppendRequest(dst []byte, t Type, args ...[]byte) []byte {
	return appendPacket(dst, magicRequest, t, args)
}

// AppendRequestHead appends only the header and the arguments of a request with data, each argument
// with a NUL. The caller must send the size bytes of the data after it.
func AppendRequestHead(dst []byte, t Type, size int, args ...[]byte) []byte {
	start := len(dst)
	dst = appendHeader(dst, magicRequest, t, 0)
	for _, arg := range args {
		dst = append(dst, arg...)
		dst = append(dst, 0)
	}
	return seal(dst, start, size)
}

func appendPacket(dst []byte, magic string, t Type, args [][]byte) []byte {
	start := len(dst)
	dst = appendHeader(dst, magic, t, 0)
	for i, arg := range args {
		if i > 0 {
			dst = append(dst, 0)
		}
		dst = append(dst, arg...)
	}
	return seal(dst, start, 0)
}

// AppendNoop appends the packet that wakes a sleeping worker.
func AppendNoop(dst []byte) []byte { return appendHeader(dst, magicResponse, Noop, 0) }

// AppendNoJob appends the reply to a GRAB that found nothing.
func AppendNoJob(dst []byte) []byte { return appendHeader(dst, magicResponse, NoJob, 0) }

// AppendJobCreated appends the reply to a submission.
func AppendJobCreated(dst []byte, h Handle) []byte {
	dst = appendHeader(dst, magicResponse, JobCreated, h.size())
	return h.appendTo(dst)
}

// AppendError appends an ERROR packet; body is one of the Error constants.
func AppendError(dst []byte, body string) []byte {
	dst = appendHeader(dst, magicResponse, Error, len(body))
	return append(dst, body...)
}

// AppendEchoHead appends the header of an ECHO_RES. The caller must send the size bytes of the data
// after it.
func AppendEchoHead(dst []byte, size int) []byte {
	return appendHeader(dst, magicResponse, EchoRes, size)
}

// An Assignment is the description of a job for its worker.
type Assignment struct {
	Handle   Handle
	Function string
	Unique   []byte
	Reducer  []byte // empty: none
	Size     int    // bytes of the data
}

// AppendAssignHead appends the reply to grab, one of the three GRAB types, up to
// the data. The caller must send the a.Size bytes of the data after it.
//
//	GrabJob       JOB_ASSIGN
//	GrabJobUniq   JOB_ASSIGN_UNIQ
//	GrabJobAll    JOB_ASSIGN_ALL, or JOB_ASSIGN_UNIQ for a job without reducer
func AppendAssignHead(dst []byte, grab Type, a *Assignment) []byte {
	t := JobAssign
	switch {
	case grab == GrabJobAll && len(a.Reducer) > 0:
		t = JobAssignAll
	case grab != GrabJob:
		t = JobAssignUniq
	}
	start := len(dst)
	dst = appendHeader(dst, magicResponse, t, 0)
	dst = a.Handle.appendTo(dst)
	dst = append(dst, 0)
	dst = append(dst, a.Function...)
	dst = append(dst, 0)
	if t != JobAssign {
		dst = append(dst, a.Unique...)
		dst = append(dst, 0)
	}
	if t == JobAssignAll {
		dst = append(dst, a.Reducer...)
		dst = append(dst, 0)
	}
	return seal(dst, start, a.Size)
}

// AppendWorkHead appends WORK_DATA, WORK_WARNING, WORK_COMPLETE or WORK_EXCEPTION for a client, up
// to the data. The caller must send the size bytes of the data after it.
func AppendWorkHead(dst []byte, t Type, h Handle, size int) []byte {
	dst = appendHeader(dst, magicResponse, t, h.size()+1+size)
	dst = h.appendTo(dst)
	return append(dst, 0)
}

// AppendWorkFail appends a WORK_FAIL for a client, with the handle and nothing after it. With a NUL
// there, as gearmand sometimes sends it, libgearman does not recognize its job and waits for ever.
func AppendWorkFail(dst []byte, h Handle) []byte {
	dst = appendHeader(dst, magicResponse, WorkFail, h.size())
	return h.appendTo(dst)
}

// A JobStatus is the status of a job; an unknown job has the zero value.
type JobStatus struct {
	Known, Running         bool
	Numerator, Denominator uint32
}

// AppendStatus appends the reply to a GET_STATUS for handle, which need not be a handle of this
// server.
func AppendStatus(dst, handle []byte, s JobStatus) []byte {
	start := len(dst)
	dst = appendHeader(dst, magicResponse, StatusRes, 0)
	dst = append(dst, handle...)
	dst = appendJobStatus(dst, s)
	return seal(dst, start, 0)
}

// AppendStatusUnique appends the reply to a GET_STATUS_UNIQUE; clients is the number of submissions
// that wait for the job.
func AppendStatusUnique(dst, unique []byte, s JobStatus, clients uint32) []byte {
	start := len(dst)
	dst = appendHeader(dst, magicResponse, StatusResUnique, 0)
	dst = append(dst, unique...)
	dst = appendJobStatus(dst, s)
	dst = appendNumber(dst, 0, uint64(clients))
	return seal(dst, start, 0)
}

func appendJobStatus(dst []byte, s JobStatus) []byte {
	for _, b := range [...]bool{s.Known, s.Running} {
		digit := byte('0')
		if b {
			digit = '1'
		}
		dst = append(dst, 0, digit)
	}
	dst = appendNumber(dst, 0, uint64(s.Numerator))
	return appendNumber(dst, 0, uint64(s.Denominator))
}

// appendNumber appends a separator and a number.
func appendNumber(dst []byte, separator byte, v uint64) []byte {
	dst = append(dst, separator)
	return strconv.AppendUint(dst, v, 10)
}

func appendHeader(dst []byte, magic string, t Type, size int) []byte {
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(t))
	return binary.BigEndian.AppendUint32(dst, uint32(size))
}

// seal writes the size of the body into the packet that begins at start: the size of the appended
// part, plus the more bytes that the caller will send.
func seal(dst []byte, start, more int) []byte {
	size := len(dst) - start - HeaderSize + more
	binary.BigEndian.PutUint32(dst[start+8:], uint32(size))
	return dst
}

// The replies to lines of text without a value. Confirmations and errors end with \r\n, and lists
// with \n: observed.
const (
	MsgOK = "OK\r\n"
	// MsgEnd is the last line of a list.
	MsgEnd              = ".\n"
	MsgUnknownJob       = "ERR UNKNOWN_JOB\r\n"        // to cancel job
	MsgFunctionNotFound = "ERR function not found\r\n" // to drop function
	// MsgFunctionBusy refuses to drop a function with workers or jobs.
	MsgFunctionBusy = "ERR there are still connected workers or executing clients\r\n"
	// MsgNotPermitted and MsgUnauthorized are ErrorNotPermitted and ErrorUnauthorized for a line.
	MsgNotPermitted = "ERR NOT_PERMITTED This+identity+may+not+do+that\r\n"
	MsgUnauthorized = "ERR UNAUTHORIZED The+token+is+not+one+of+the+server's\r\n"
)

const crlf = "\r\n"

// AppendOK appends the reply to version, verbose and getpid.
func AppendOK(dst []byte, value string) []byte {
	dst = append(dst, "OK "...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

// AppendWorkersHead appends the beginning of a connection's line in the reply to workers. fd is a
// number that no other connection has; address has no port; id comes from AppendClientID. The
// caller must append each of its functions with AppendWorkersFunction, and then MsgWorkersEnd.
func AppendWorkersHead(dst []byte, fd uint64, address string, id []byte) []byte {
	dst = strconv.AppendUint(dst, fd, 10)
	dst = append(dst, ' ')
	dst = append(dst, address...)
	dst = append(dst, ' ')
	dst = append(dst, id...)
	return append(dst, " :"...)
}

// AppendWorkersFunction appends the name of a function to a connection's line in the reply to
// workers.
func AppendWorkersFunction(dst []byte, name string) []byte {
	return appendListed(append(dst, ' '), name)
}

// MsgWorkersEnd ends a connection's line in the reply to workers.
const MsgWorkersEnd = "\n"

// DefaultClientID is the id of a connection without SET_CLIENT_ID.
const DefaultClientID = "-"

// AppendClientID appends the first MaxClientID bytes of the id of a SET_CLIENT_ID. gearmand accepts
// any bytes. Here spaces and control bytes become underscores, and an empty id the default, so that
// programs can parse the lines of workers.
func AppendClientID(dst, id []byte) []byte {
	if len(id) == 0 {
		return append(dst, DefaultClientID...)
	}
	id = id[:min(len(id), MaxClientID)]
	for len(id) > 0 {
		r, n := utf8.DecodeRune(id)
		if id[0] == ' ' || endsLine(r) {
			dst = append(dst, '_')
		} else {
			dst = append(dst, id[:n]...)
		}
		id = id[n:]
	}
	return dst
}

// A FunctionStatus counts the jobs of a function, and its workers.
type FunctionStatus struct {
	Waiting [NumPriorities]uint64 // queued or delayed
	Running uint64
	Workers uint64
}

// AppendStatusLine appends a function's line in the reply to status: all jobs, running jobs,
// workers.
func AppendStatusLine(dst []byte, function string, s *FunctionStatus) []byte {
	dst = appendListed(dst, function)
	dst = appendNumber(dst, '\t', s.Waiting[High]+s.Waiting[Normal]+s.Waiting[Low]+s.Running)
	dst = appendNumber(dst, '\t', s.Running)
	dst = appendNumber(dst, '\t', s.Workers)
	return append(dst, '\n')
}

// AppendPriorityStatusLine appends a function's line in the reply to prioritystatus: waiting jobs
// by priority, workers.
func AppendPriorityStatusLine(dst []byte, function string, s *FunctionStatus) []byte {
	dst = appendListed(dst, function)
	for _, n := range s.Waiting {
		dst = appendNumber(dst, '\t', n)
	}
	dst = appendNumber(dst, '\t', s.Workers)
	return append(dst, '\n')
}

// AppendJobLine appends a job's line in the reply to show jobs. lost is how often the job has lost
// its worker. The next column, whether the job is ignored, is always 0: gearmand keeps cancelled
// and abandoned jobs until a worker grabs them; polystalk does not.
func AppendJobLine(dst []byte, h Handle, lost uint32, background bool) []byte {
	dst = h.appendTo(dst)
	dst = appendNumber(dst, '\t', uint64(lost))
	dst = append(dst, "\t0\t"...)
	if background {
		return append(dst, "1\n"...)
	}
	return append(dst, "0\n"...)
}

// AppendUniqueLine appends a job's line in the reply to show unique jobs. A dot would end the list,
// so it is in double quotes.
func AppendUniqueLine(dst []byte, unique string) []byte {
	if unique == "." {
		dst = append(dst, `"."`...)
	} else {
		dst = appendListed(dst, unique)
	}
	return append(dst, '\n')
}
