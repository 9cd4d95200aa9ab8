package gearman

import "time"

// Limits, in bytes.
const (
	// HeaderSize is the length of a packet's header: magic, type, size of the
	// body, four bytes each, most significant first.
	HeaderSize = 12
	// MaxArgs is the most that the arguments of a packet may take, with their
	// NULs and without data. gearmand manages some 8,180.
	MaxArgs = 16 << 10
	// MaxLine is the longest line of text, with its line end.
	MaxLine = 8192
	// MaxHead is the most that Parse needs to see before it decides.
	MaxHead = HeaderSize + MaxArgs
	// MaxUnique is the longest unique id, and the longest reducer.
	MaxUnique = 64
	// MaxClientID is how much is kept of a SET_CLIENT_ID.
	MaxClientID = 127
	// DefaultMaxBody is the largest body of a packet unless configured otherwise.
	DefaultMaxBody = 64 << 20
)

// A Message is one packet or one line. The caller owns it and hands it to
// Parse again and again; Parse sets Type, Size, Verb and the fields which the
// type or the verb uses, and leaves the others as they were.
//
// Args holds the arguments in the order in which Type lists them, Args[:N].
// They alias the input.
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
//	                 all others      no Args
//
// After a Fault only Type, Size and Word mean something.
type Message struct {
	Type Type // of the packet, or Text
	Verb Verb // of a line; Unknown in a packet
	N    int  // how many Args there are
	// Size is how many bytes of the packet follow what Parse used. They are the
	// data if Type.HasData and there was no Fault, else to be thrown away. At
	// most the largest body the caller allows; nothing says that they will come.
	Size int
	Args [maxArgs][]byte
	Word []byte // the first word of a line, as it was sent, up to a NUL

	Timeout                time.Duration         // at least a second; 0: none
	Epoch                  int64                 // Unix seconds; now or past: at once
	Schedule               Schedule              //
	Numerator, Denominator uint32                // as C's atoi reads them
	Limits                 [NumPriorities]uint32 // jobs; 0: no limit
}

// Reducer is the reducer of a submission; empty in all but reduce jobs.
func (m *Message) Reducer() []byte {
	if m.Type == SubmitReduceJob || m.Type == SubmitReduceJobBG {
		return m.Args[reducerArg]
	}
	return nil
}
