package gearman

import (
	"strconv"
	"time"

	"polystalk/codec/beanstalk"
)

// Limits, in bytes.
const (
	// HeaderSize is the length of a packet's header: magic, type, size of the
	// body, four bytes each, most significant first.
	HeaderSize = 12
	// MaxArgs is the maximum size of the arguments of a packet, with their
	// NULs and without data. gearmand accepts about 8,180.
	MaxArgs = 16 << 10
	// MaxLine is the longest line of text, with its line end.
	MaxLine = 8192
	// MaxHead is the maximum number of bytes that Parse needs for a message.
	MaxHead = HeaderSize + MaxArgs
	// MaxUnique is the longest unique id, and the longest reducer.
	MaxUnique = 64
	// MaxClientID is how many bytes of a SET_CLIENT_ID are kept.
	MaxClientID = 127
	// DefaultMaxBody is the largest body of a packet unless configured otherwise.
	DefaultMaxBody = 64 << 20
)

// A Message is one packet or one line. The caller owns it and may pass it to Parse many times.
// Parse sets Type, Size, Verb and the fields that the type or the verb uses, and does not change
// the others.
//
// Args holds the arguments in the order in which Type lists them, Args[:N]. They alias the input.
//
//	CanDoTimeout     Timeout
//	WorkStatus       Numerator Denominator
//	SubmitJobEpoch   Epoch
//	SubmitJobSched   Schedule
//	Text             Verb Word, and by verb:
//	                 MaxQueue        Args[0] the function; Limits
//	                 CreateFunction
//	                 DropFunction    Args[0] the function
//	                 CancelJob       Args[0] the handle
//	                 Auth            Args[0] a token, which Parse does not check
//	                 all others      no Args
//
// After a Fault only Type, Size and Word mean something.
type Message struct {
	Type Type // of the packet, or Text
	Verb Verb // of a line; Unknown in a packet
	N    int  // how many Args there are
	// Size is how many bytes of the packet follow the bytes that Parse used. They are the data if
	// Type.HasData and there was no Fault; otherwise the caller must discard them. Size is at most
	// the maximum body; the sender may never send them.
	Size int
	Args [maxArgs][]byte
	Word []byte // the first word of a line, as it was sent, up to a NUL

	Timeout                time.Duration         // at least a second; 0: none
	Epoch                  int64                 // Unix seconds; now or past: at once
	Schedule               Schedule              //
	Numerator, Denominator uint32                // as C's atoi reads them
	Limits                 [NumPriorities]uint32 // jobs; 0: no limit
}

// Reducer returns the reducer of a submission; it is empty except in reduce jobs.
func (m *Message) Reducer() []byte {
	if m.Type == SubmitReduceJob || m.Type == SubmitReduceJobBG {
		return m.Args[reducerArg]
	}
	return nil
}

// Limits of handles, in bytes.
const (
	// MaxHandle is the longest handle: 64 with a NUL, by PROTOCOL.
	MaxHandle = 63
	// MaxPrefix is the longest prefix that leaves room for any id.
	MaxPrefix = MaxHandle - len(":18446744073709551615")
)

// A Handle is the name of a job for clients and workers: "prefix:id".
type Handle struct {
	Prefix string // of the server; see ValidPrefix
	ID     uint64 // at least 1
}

// ValidPrefix reports whether handles may begin with s: at most MaxPrefix bytes, without spaces and
// control bytes, since NULs separate handles in packets, and spaces separate them in lines.
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

// appendTo appends the handle in the form of the protocol.
func (h Handle) appendTo(dst []byte) []byte {
	dst = append(dst, h.Prefix...)
	dst = append(dst, ':')
	return strconv.AppendUint(dst, h.ID, 10)
}

// String is for logs.
func (h Handle) String() string { return string(h.appendTo(nil)) }

// size is the number of bytes that appendTo appends.
func (h Handle) size() int {
	n := len(h.Prefix) + len(":0")
	for id := h.ID; id >= 10; id /= 10 {
		n++
	}
	return n
}

// ParseHandle returns the id in a handle of the server with that prefix. Not ok: the handle is not
// from such a server. An id has only one spelling, so a leading zero or a sign is not ok either.
func ParseHandle(prefix string, b []byte) (id uint64, ok bool) {
	if len(b) < len(prefix)+2 || string(b[:len(prefix)]) != prefix || b[len(prefix)] != ':' {
		return 0, false
	}
	digits := b[len(prefix)+1:]
	id, rest, ok := beanstalk.ReadDigits(digits)
	return id, ok && len(rest) == 0 && digits[0] != '0'
}

// A Priority is one of the three queues of a function.
type Priority uint8

// The priorities, most urgent first.
const (
	High Priority = iota
	Normal
	Low
	NumPriorities // how many there are, for arrays indexed by Priority
)

// The priorities of the three queues in a tube, where smaller is more urgent.
const (
	priHigh   = 0
	priNormal = 1024 // the usual default of beanstalkd clients
	priLow    = 1<<32 - 1
)

// Pri returns the tube priority of a job that was submitted with p.
func (p Priority) Pri() uint32 {
	return [NumPriorities]uint32{priHigh, priNormal, priLow}[p]
}
