package gearman

import "strings"

// The bodies of ERROR packets: code, NUL, text. They are exactly as observed: clients show the
// text, and some compare the code. The last group is polystalk's own: in these cases gearmand
// hangs, closes the connection or crashes.
const (
	ErrorInvalidMagic   = "INVALID_MAGIC\x00Request magic expected"
	ErrorInvalidCommand = "INVALID_COMMAND\x00Command not expected"
	ErrorUniqueTooLarge = "ARGUMENT_TOO_LARGE\x00Unique value too large"
	// ErrorFailHandleTooLarge answers a WORK_FAIL.
	ErrorFailHandleTooLarge = "ARGUMENT_TOO_LARGE\x00Error occurred due to GEARMAND_JOB_HANDLE_SIZE being too small from snprintf"
	ErrorQueueFull          = "QUEUE_ERROR\x00Job queue is full"
	// ErrorQueue: the job could not be stored.
	ErrorQueue         = "QUEUE_ERROR\x00QUEUE_ERROR"
	ErrorUnknownOption = "UNKNOWN_OPTION\x00Server does not recognize given option"
	// ErrorNoJobResult answers WORK_STATUS, WORK_COMPLETE and WORK_FAIL.
	ErrorNoJobResult = "JOB_NOT_FOUND\x00Job given in work result not found"
	// ErrorNoJobData answers WORK_DATA and WORK_WARNING.
	ErrorNoJobData = "JOB_NOT_FOUND\x00Job does not exist on server"
	// ErrorNoJobException answers WORK_EXCEPTION.
	ErrorNoJobException = "JOB_NOT_FOUND\x00An exception was received for a job that does not exist"

	ErrorInvalidPacket    = "INVALID_PACKET\x00Not enough arguments"
	ErrorHandleTooLarge   = "ARGUMENT_TOO_LARGE\x00Job handle too large"
	ErrorArgumentTooLarge = "ARGUMENT_TOO_LARGE\x00Argument too large"
	ErrorDataTooLarge     = "DATA_TOO_LARGE\x00Packet too large"
	ErrorEpoch            = "INVALID_ARGUMENT\x00Epoch out of range"
	ErrorSchedule         = "INVALID_ARGUMENT\x00Schedule out of range"
	// ErrorDraining answers a submission: the server accepts no new jobs.
	ErrorDraining = "QUEUE_ERROR\x00Draining: the server accepts no new jobs"
	// ErrorNotPermitted answers what the access file does not allow.
	ErrorNotPermitted = "NOT_PERMITTED\x00This identity may not do that with the function"
	// ErrorUnauthorized answers the option auth.
	ErrorUnauthorized = "UNAUTHORIZED\x00The token is not one of the server's"
)

// NoJobError returns the body of the ERROR that answers a report of type t about a job
// that does not run on the connection.
func NoJobError(t Type) string {
	switch t {
	case WorkData, WorkWarning:
		return ErrorNoJobData
	case WorkException:
		return ErrorNoJobException
	}
	return ErrorNoJobResult
}

// A Fault is the error of an invalid message. It knows its reply, and whether the connection ends
// after that.
type Fault struct {
	// Close: the next message cannot be found, or is not wanted. The caller must flush its replies,
	// and close the connection.
	Close bool

	what string // for logs
	body string // of an ERROR packet, or empty
	line string // of text, without its end, or empty
	word bool   // the line ends with the message's first word
}

// The faults of Parse. A nil *Fault is none.
var (
	// ErrMagic: the message is neither a request nor a line.
	ErrMagic = &Fault{what: "bad magic", Close: true}
	// ErrType: there is no such type. gearmand crashes on the larger half of them.
	ErrType = &Fault{what: "no such packet type", Close: true}
	// ErrTooLarge: the body is over the caller's limit.
	ErrTooLarge = &Fault{what: "packet too large", body: ErrorDataTooLarge, Close: true}
	// ErrDirection: a packet with the magic of the other direction.
	ErrDirection = &Fault{what: "packet has the magic of the other direction", body: ErrorInvalidMagic}
	// ErrUnexpected: a packet that is not sent in this direction.
	ErrUnexpected = &Fault{what: "packet not expected", body: ErrorInvalidCommand}
	// ErrArguments: fewer NULs in the body than arguments.
	ErrArguments = &Fault{what: "not enough arguments", body: ErrorInvalidPacket}
	// ErrArgumentTooLarge: the arguments pass MaxArgs.
	ErrArgumentTooLarge = &Fault{what: "arguments too large", body: ErrorArgumentTooLarge}
	// ErrUnique: a unique id, or a reducer, over MaxUnique.
	ErrUnique = &Fault{what: "unique too large", body: ErrorUniqueTooLarge}
	// ErrHandle: a GET_STATUS for a handle over MaxHandle.
	ErrHandle = &Fault{what: "handle too large", body: ErrorHandleTooLarge}
	// ErrFailHandle: a WORK_FAIL for a handle over MaxHandle.
	ErrFailHandle = &Fault{what: "handle too large", body: ErrorFailHandleTooLarge}
	// ErrEpoch: a SUBMIT_JOB_EPOCH with a time that does not fit 64 bits.
	ErrEpoch = &Fault{what: "epoch out of range", body: ErrorEpoch}
	// ErrSchedule: a SUBMIT_JOB_SCHED with a field that is no number of its range.
	ErrSchedule = &Fault{what: "schedule out of range", body: ErrorSchedule}

	// ErrLineTooLong: no line end in MaxLine bytes.
	ErrLineTooLong = &Fault{what: "line too long", Close: true}
	// ErrTooManyWords: more than five words in a line.
	ErrTooManyWords = &Fault{what: "too many words", Close: true}
	// ErrUnknownCommand: no command begins like that. A disabled command gets the same reply.
	ErrUnknownCommand = &Fault{what: "unknown command", line: "ERR UNKNOWN_COMMAND Unknown+server+command", word: true}
	// ErrIncomplete: a command with the wrong arguments.
	ErrIncomplete = &Fault{what: "incomplete arguments", line: "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+", word: true}
	// ErrShow: a show command with an unknown argument.
	ErrShow = &Fault{what: "unknown show arguments", line: "ERR UNKNOWN_SHOW_ARGUMENTS"}
	// ErrCancel: a cancel command with an unknown argument.
	ErrCancel = &Fault{what: "unknown cancel arguments", line: "ERR UNKNOWN_ERROR"}
)

// Error makes a Fault an error, for logs.
func (f *Fault) Error() string { return "gearman: " + f.what }

// Code returns the code of the reply in lower case, as in "invalid_packet". Without a reply it is
// a description of the fault.
func (f *Fault) Code() string {
	switch {
	case f.body != "":
		return ErrorCode(f.body)
	case f.line != "":
		return strings.ToLower(strings.Fields(f.line)[1])
	}
	return strings.ReplaceAll(f.what, " ", "_")
}

// ErrorCode returns the code of an ERROR in lower case; body is one of the Error constants.
func ErrorCode(body string) string {
	code, _, _ := strings.Cut(body, "\x00")
	return strings.ToLower(code)
}

// AppendReply appends the reply to the message m in which Parse found f: nothing if the connection
// only ends.
func (f *Fault) AppendReply(dst []byte, m *Message) []byte {
	switch {
	case f.body != "":
		return AppendError(dst, f.body)
	case f.line != "":
		dst = append(dst, f.line...)
		if f.word {
			dst = append(dst, m.Word...)
		}
		return append(dst, crlf...)
	}
	return dst
}
