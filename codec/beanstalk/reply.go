package beanstalk

import "strconv"

// The replies without a value, each a whole line.
// Source: beanstalkd doc/protocol.txt, under each command.
const (
	MsgDeleted        = "DELETED\r\n"
	MsgReleased       = "RELEASED\r\n"
	MsgBuried         = "BURIED\r\n" // to bury, and to release without memory to queue the job
	MsgTouched        = "TOUCHED\r\n"
	MsgKicked         = "KICKED\r\n" // to kick-job
	MsgNotFound       = "NOT_FOUND\r\n"
	MsgTimedOut       = "TIMED_OUT\r\n"
	MsgDeadlineSoon   = "DEADLINE_SOON\r\n"
	MsgNotIgnored     = "NOT_IGNORED\r\n"
	MsgPaused         = "PAUSED\r\n"
	MsgBadFormat      = "BAD_FORMAT\r\n"
	MsgUnknownCommand = "UNKNOWN_COMMAND\r\n"
	MsgExpectedCRLF   = "EXPECTED_CRLF\r\n"
	MsgJobTooBig      = "JOB_TOO_BIG\r\n"
	MsgDraining       = "DRAINING\r\n"
	MsgOutOfMemory    = "OUT_OF_MEMORY\r\n"
	MsgInternalError  = "INTERNAL_ERROR\r\n"

	// The replies to auth are not beanstalkd's. The server beanstalkd-rs has the same.
	MsgAuthenticated = "AUTHENTICATED\r\n"
	MsgUnauthorized  = "UNAUTHORIZED\r\n"
)

const crlf = "\r\n"

// AppendInserted appends the reply to a put that queued its job.
func AppendInserted(dst []byte, id uint64) []byte {
	return appendLine(dst, "INSERTED ", id)
}

// AppendReserved appends the whole reply to a reserve: line, body, \r\n. The body is copied.
func AppendReserved(dst []byte, id uint64, body []byte) []byte {
	dst = AppendReservedHeader(dst, id, len(body))
	dst = append(dst, body...)
	return append(dst, crlf...)
}

// AppendFound appends the whole reply to a peek: line, body, \r\n. The body is copied.
func AppendFound(dst []byte, id uint64, body []byte) []byte {
	dst = AppendFoundHeader(dst, id, len(body))
	dst = append(dst, body...)
	return append(dst, crlf...)
}

// AppendReservedHeader appends only the line of a reply to a reserve. The caller
// must send the size bytes of the body and \r\n after it.
func AppendReservedHeader(dst []byte, id uint64, size int) []byte {
	return appendHeader(dst, "RESERVED ", id, size)
}

// AppendFoundHeader appends only the line of a reply to a peek. The caller must
// send the size bytes of the body and \r\n after it.
func AppendFoundHeader(dst []byte, id uint64, size int) []byte {
	return appendHeader(dst, "FOUND ", id, size)
}

// AppendUsing appends the reply to use and list-tube-used.
func AppendUsing(dst []byte, tube string) []byte {
	dst = append(dst, "USING "...)
	dst = append(dst, tube...)
	return append(dst, crlf...)
}

// AppendWatching appends the reply to watch and ignore: the length of the watch list.
func AppendWatching(dst []byte, n int) []byte {
	return appendLine(dst, "WATCHING ", uint64(n))
}

// AppendKicked appends the reply to kick: the number of kicked jobs.
func AppendKicked(dst []byte, n uint32) []byte {
	return appendLine(dst, "KICKED ", uint64(n))
}

// AppendTubeListHead appends the beginning of the reply to list-tubes and
// list-tubes-watched. There are n names with a total of bytes bytes. The caller must append each
// with AppendTubeListName, and then MsgTubeListEnd.
func AppendTubeListHead(dst []byte, n, bytes int) []byte {
	dst = appendLine(dst, "OK ", uint64(len(tubeListHead)+n*len("- \n")+bytes))
	return append(dst, tubeListHead...)
}

const tubeListHead = "---\n"

// MsgTubeListEnd ends the reply to list-tubes and list-tubes-watched.
const MsgTubeListEnd = crlf

// AppendTubeListName appends one name of the reply to list-tubes and list-tubes-watched.
func AppendTubeListName(dst []byte, name string) []byte {
	dst = append(dst, "- "...)
	dst = append(dst, name...)
	return append(dst, '\n')
}

// frame makes a whole OK reply of the body that dst has from start on. The line before a body
// contains the body's length, which is known only now. So frame moves the body to make room, which
// is cheaper than formatting everything twice.
func frame(dst []byte, start int) []byte {
	var buf [len("OK ") + 20 + len(crlf)]byte // a uint64 has at most 20 digits
	body := dst[start:]
	line := appendLine(buf[:0], "OK ", uint64(len(body)))
	dst = append(dst, line...)
	copy(dst[start+len(line):], body)
	copy(dst[start:], line)
	return append(dst, crlf...)
}

// appendLine appends word, which ends with a space, n and \r\n.
func appendLine(dst []byte, word string, n uint64) []byte {
	dst = append(dst, word...)
	dst = strconv.AppendUint(dst, n, 10)
	return append(dst, crlf...)
}

// appendHeader appends the line that precedes a job's body.
func appendHeader(dst []byte, word string, id uint64, size int) []byte {
	dst = append(dst, word...)
	dst = strconv.AppendUint(dst, id, 10)
	dst = append(dst, ' ')
	return appendLine(dst, "", uint64(size))
}
