package gearman

import (
	"bytes"
	"encoding/binary"
)

const (
	magicRequest  = "\x00REQ"
	magicResponse = "\x00RES"
)

// Parse reads one message from a client, worker or administrator from the front of b into m and
// reports the n bytes it used. maxBody is the maximum size of a packet's body, in bytes.
//
//	n == 0, nil   the message is incomplete: call again with the same bytes and
//	              more. Never when b has MaxHead bytes.
//	n > 0, nil    a message. m.Size more bytes belong to it. Args alias b.
//	n > 0, fault  send the reply of fault.AppendReply. Unless fault.Close, discard
//	              n bytes and the m.Size bytes after them, and continue.
//
// The n bytes contain the whole packet if it has no data. But if a packet without arguments has
// a body, that body is left in m.Size, to be discarded.
func Parse(m *Message, b []byte, maxBody uint32) (n int, fault *Fault) {
	if len(b) == 0 {
		return 0, nil
	}
	if b[0] != 0 {
		return parseLine(m, b)
	}
	n, fault = parsePacket(m, b, maxBody, toServer)
	if n > 0 && fault == nil {
		fault = m.check()
	}
	return n, fault
}

// ParseReply is Parse for messages of a server. A line of text, of up to MaxHead bytes, is in
// Args[0] without its line end. No argument is checked or read.
func ParseReply(m *Message, b []byte, maxBody uint32) (n int, fault *Fault) {
	if len(b) == 0 {
		return 0, nil
	}
	if b[0] != 0 {
		line, n, fault := readLine(m, b, MaxHead) // a line may hold a function's name
		m.setArg(line)
		return n, fault
	}
	return parsePacket(m, b, maxBody, toPeer)
}

// parsePacket reads the header and the arguments of a packet.
func parsePacket(m *Message, b []byte, maxBody uint32, to direction) (n int, fault *Fault) {
	m.Type, m.Verb, m.N, m.Size = Text, Unknown, 0, 0
	if len(b) < HeaderSize {
		return 0, nil
	}
	request := string(b[:4]) == magicRequest
	if !request && string(b[:4]) != magicResponse {
		return HeaderSize, ErrMagic
	}
	t := Type(binary.BigEndian.Uint32(b[4:]))
	if t == Text || t >= NumTypes {
		return HeaderSize, ErrType
	}
	m.Type = t
	size := binary.BigEndian.Uint32(b[8:])
	if size > maxBody {
		return HeaderSize, ErrTooLarge
	}
	m.Size = int(size)
	s := &shapes[t]
	if request != (to == toServer) {
		return HeaderSize, ErrDirection
	}
	if s.to&to == 0 {
		return HeaderSize, ErrUnexpected
	}
	if s.args == 0 {
		return HeaderSize, nil
	}
	return parseArgs(m, b[HeaderSize:], s)
}

// parseArgs splits the arguments of a packet of shape s. Its body has m.Size bytes, and b begins
// with the received part. A NUL after the body, or after MaxArgs bytes, does not end an argument.
func parseArgs(m *Message, b []byte, s *shape) (n int, fault *Fault) {
	fits := m.Size <= MaxArgs
	if !fits && !s.data {
		return HeaderSize, ErrArgumentTooLarge
	}
	window := min(m.Size, MaxArgs)
	whole := len(b) >= window
	b = b[:min(len(b), window)]

	ended := int(s.args) // number of arguments with a NUL at their end
	if !s.data {
		ended--
	}
	at := 0
	for i := range ended {
		j := bytes.IndexByte(b[at:], 0)
		switch {
		case j >= 0:
			m.Args[i] = b[at : at+j : at+j]
			at += j + 1
		case !whole:
			return 0, nil
		case fits:
			m.Size = 0
			return HeaderSize + window, ErrArguments
		default:
			return HeaderSize, ErrArgumentTooLarge
		}
	}
	if !s.data {
		if !whole {
			return 0, nil
		}
		m.Args[ended] = b[at:window:window]
		at = window
	}
	m.N = int(s.args)
	m.Size -= at
	return HeaderSize + at, nil
}

// check reads and checks the arguments of a request, before its data arrives.
func (m *Message) check() *Fault {
	switch m.Type {
	case SubmitJob, SubmitJobBG, SubmitJobHigh, SubmitJobHighBG, SubmitJobLow, SubmitJobLowBG:
		return checkUnique(m.Args[1])
	case SubmitReduceJob, SubmitReduceJobBG:
		if fault := checkUnique(m.Args[reducerArg]); fault != nil {
			return fault
		}
		return checkUnique(m.Args[1])
	case SubmitJobEpoch:
		epoch, exact := cLong(m.Args[2])
		if m.Epoch = epoch; !exact {
			return ErrEpoch
		}
		return checkUnique(m.Args[1])
	case SubmitJobSched:
		var ok bool
		if m.Schedule, ok = parseSchedule(m.Args[2:7]); !ok {
			return ErrSchedule
		}
		return checkUnique(m.Args[1])
	case CanDoTimeout:
		m.Timeout = readTimeout(m.Args[1])
	case WorkStatus:
		m.Numerator, m.Denominator = uint32(cInt(m.Args[1])), uint32(cInt(m.Args[2]))
	case WorkFail:
		m.Args[0] = untilNUL(m.Args[0])
		return checkHandle(m.Args[0], ErrFailHandle)
	case GetStatus:
		m.Args[0] = untilNUL(m.Args[0])
		return checkHandle(m.Args[0], ErrHandle)
	case GetStatusUnique:
		m.Args[0] = untilNUL(m.Args[0])
		return checkUnique(m.Args[0])
	}
	return nil
}

func checkUnique(unique []byte) *Fault {
	if len(unique) > MaxUnique {
		return ErrUnique
	}
	return nil
}

func checkHandle(handle []byte, fault *Fault) *Fault {
	if len(handle) > MaxHandle {
		return fault
	}
	return nil
}

// untilNUL cuts b before its first NUL, since some clients also end the last argument of a packet
// with a NUL. gearmand was observed to accept that in the places where Parse does.
func untilNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i:i]
	}
	return b
}

// IsExceptions reports whether option, the argument of an OPTION_REQ, is "exceptions", the only
// option of gearmand. Letter case and a NUL after it do not matter; the OPTION_RES repeats the argument as it
// was sent. Observed.
func IsExceptions(option []byte) bool { return foldEqual(untilNUL(option), "exceptions") }

// AuthOption returns the token of the option "auth TOKEN". A NUL after it does not matter. The
// OPTION_RES has only the word OptionAuth.
func AuthOption(option []byte) (token []byte, ok bool) {
	return bytes.CutPrefix(untilNUL(option), []byte(OptionAuth+" "))
}

// OptionAuth is the name of the option that presents a token. gearmand does not have it.
const OptionAuth = "auth"
