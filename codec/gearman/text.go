package gearman

import (
	"strconv"
	"unicode/utf8"
)

// The replies to lines of text that carry no value. What confirms or refuses
// ends with \r\n, what tells something with \n: observed.
const (
	MsgOK = "OK\r\n"
	// MsgEnd is the last line of a list.
	MsgEnd              = ".\n"
	MsgUnknownJob       = "ERR UNKNOWN_JOB\r\n"        // to cancel job
	MsgFunctionNotFound = "ERR function not found\r\n" // to drop function
	// MsgFunctionBusy refuses to drop a function with workers or jobs.
	MsgFunctionBusy = "ERR there are still connected workers or executing clients\r\n"
)

const crlf = "\r\n"

// AppendOK appends the reply to version, verbose and getpid.
func AppendOK(dst []byte, value string) []byte {
	dst = append(dst, "OK "...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

// AppendWorkersHead appends the beginning of a connection's line of the reply to
// workers. fd is any number that no other connection has; address has no port; id is
// as AppendClientID has made it. An AppendWorkersFunction for each of its functions
// follows, and MsgWorkersEnd.
func AppendWorkersHead(dst []byte, fd uint64, address string, id []byte) []byte {
	dst = strconv.AppendUint(dst, fd, 10)
	dst = append(dst, ' ')
	dst = append(dst, address...)
	dst = append(dst, ' ')
	dst = append(dst, id...)
	return append(dst, " :"...)
}

// AppendWorkersFunction appends the name of a function to a connection's line of the
// reply to workers.
func AppendWorkersFunction(dst []byte, name string) []byte {
	return AppendListed(append(dst, ' '), name)
}

// MsgWorkersEnd ends a connection's line of the reply to workers.
const MsgWorkersEnd = "\n"

// DefaultClientID is the id of a connection that has set none.
const DefaultClientID = "-"

// AppendClientID appends what is kept of the id of a SET_CLIENT_ID: its first
// MaxClientID bytes. gearmand keeps any bytes; here blanks and control bytes
// become underscores, and an empty id the default, so that the lines of workers
// can be read by programs.
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

// A FunctionStatus counts the jobs of a function, and the connections that
// can do it.
type FunctionStatus struct {
	Waiting [NumPriorities]uint64 // queued or delayed
	Running uint64
	Workers uint64
}

// AppendStatusLine appends a function's line of the reply to status: all jobs,
// those of them that run, workers.
func AppendStatusLine(dst []byte, function string, s *FunctionStatus) []byte {
	dst = AppendListed(dst, function)
	dst = appendNumber(dst, '\t', s.Waiting[High]+s.Waiting[Normal]+s.Waiting[Low]+s.Running)
	dst = appendNumber(dst, '\t', s.Running)
	dst = appendNumber(dst, '\t', s.Workers)
	return append(dst, '\n')
}

// AppendPriorityStatusLine appends a function's line of the reply to
// prioritystatus: waiting jobs by priority, workers.
func AppendPriorityStatusLine(dst []byte, function string, s *FunctionStatus) []byte {
	dst = AppendListed(dst, function)
	for _, n := range s.Waiting {
		dst = appendNumber(dst, '\t', n)
	}
	dst = appendNumber(dst, '\t', s.Workers)
	return append(dst, '\n')
}

// AppendJobLine appends a job's line of the reply to show jobs. lost is how
// often a worker was lost with the job. Whether a job is ignored, the column
// after it, is always 0: gearmand keeps cancelled and abandoned jobs until a worker
// meets them, polystalk does not.
func AppendJobLine(dst []byte, h Handle, lost uint32, background bool) []byte {
	dst = h.AppendTo(dst)
	dst = appendNumber(dst, '\t', uint64(lost))
	dst = append(dst, "\t0\t"...)
	if background {
		return append(dst, "1\n"...)
	}
	return append(dst, "0\n"...)
}

// AppendUniqueLine appends a job's line of the reply to show unique jobs. A dot
// would end the list, so it stands in double quotes.
func AppendUniqueLine(dst []byte, unique string) []byte {
	if unique == "." {
		dst = append(dst, `"."`...)
	} else {
		dst = AppendListed(dst, unique)
	}
	return append(dst, '\n')
}
