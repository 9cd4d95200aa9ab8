package core

// JobID names a job over the whole server: 1, 2, 3 … in the order in which
// the put lines parse. Zero names no job.
type JobID uint64

// TubeID and ClientID are handles that one core gave out; they mean nothing to another. Zero is
// none. A TubeID is good while its holder uses or watches the tube, a ClientID until OpClose.
type (
	TubeID   uint32
	ClientID uint32
)

// Time is a moment in nanoseconds, or a length of time. A core gets it only as an argument. It
// starts at the time of day of the server's start, and is independent of the time of day after
// that.
type Time int64
