package core

// JobID names a job over the whole server: 1, 2, 3 … in the order in which
// the put lines parse. Zero names no job.
type JobID uint64

// TubeID and ClientID are handles that one core gave out; they mean nothing
// to another. Zero is none. A TubeID is good while its holder uses or watches
// the tube, a ClientID until OpClose.
type (
	TubeID   uint32
	ClientID uint32
)

// Time is a moment in nanoseconds, or a length of time. A core only ever gets it as
// an argument; it begins with the time of day at the start of the server, and goes
// on by itself.
type Time int64
