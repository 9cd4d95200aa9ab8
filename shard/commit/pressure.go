package commit

// Pressure says whether changes that need space are taken.
type Pressure int32

// The values of Pressure.
const (
	Open Pressure = iota // yes
	Wait                 // not now: the disk is behind
	Full                 // no: there is no space left
)

// A Claim is somebody's call on room for what is not in a Log yet: the part of a body
// that has arrived, with a step ahead. Room that is promised to one is nobody else's, so
// what a client only announces is not claimed. The zero value claims nothing.
//
// A Claim belongs to one caller, who asks for more with Storage.Claim and ends it with
// Storage.Release. Its fields are for who implements Storage; a caller reads Bytes alone.
//
// No two claims can wait for each other. One that waits is answered by the next try to
// make room: it gets what it asked for, or is refused, and with that loses what it had, of
// which the next to ask can have its part.
type Claim struct {
	Body    int64  // bytes that may be recorded, without what goes with them
	Granted int64  // bytes promised for them, with what goes with them
	Wanted  int64  // bytes asked for besides, and waited for
	Asked   uint64 // how many tries or measurings there had been before the question was put
	Fitting bool   // the question was put by Fits
}

// Bytes is how many may be recorded.
func (c *Claim) Bytes() int64 { return c.Body }
