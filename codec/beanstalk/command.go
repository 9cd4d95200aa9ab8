package beanstalk

// Limits of the protocol. Source: beanstalkd dat.h and doc/protocol.txt.
const (
	// MaxLine is the longest command line in bytes, with its \r\n.
	MaxLine = 224
	// MaxTubeName is the longest tube name in bytes.
	MaxTubeName = 200
	// MaxJobSizeLimit is the largest max-job-size that may be configured, in bytes.
	MaxJobSizeLimit = 1 << 30
	// DefaultMaxJobSize is the largest job body, in bytes, unless configured otherwise.
	DefaultMaxJobSize = 65535
)

// Kind says which command a line is.
type Kind uint8

// The commands. Unknown, the zero Kind, never comes without an error.
//
// A new one takes a Kind and its word here, a case in match and one in parseArgs
// (parse.go), its reply (reply.go), what it does (the doc of package router/beanstalkd
// tells how), and a conversation in codec/conversation/testdata, which is played against the
// simulator, the server and the reference.
const (
	Unknown Kind = iota
	Put
	Peek
	PeekReady
	PeekDelayed
	PeekBuried
	Reserve
	ReserveWithTimeout
	ReserveJob
	Delete
	Release
	Bury
	Kick
	KickJob
	Touch
	Stats
	StatsJob
	StatsTube
	Use
	Watch
	Ignore
	ListTubes
	ListTubeUsed
	ListTubesWatched
	PauseTube
	Quit
	NumKinds // how many Kinds there are, for arrays indexed by Kind
)

var kindWords = [NumKinds]string{
	Unknown:            "unknown",
	Put:                "put",
	Peek:               "peek",
	PeekReady:          "peek-ready",
	PeekDelayed:        "peek-delayed",
	PeekBuried:         "peek-buried",
	Reserve:            "reserve",
	ReserveWithTimeout: "reserve-with-timeout",
	ReserveJob:         "reserve-job",
	Delete:             "delete",
	Release:            "release",
	Bury:               "bury",
	Kick:               "kick",
	KickJob:            "kick-job",
	Touch:              "touch",
	Stats:              "stats",
	StatsJob:           "stats-job",
	StatsTube:          "stats-tube",
	Use:                "use",
	Watch:              "watch",
	Ignore:             "ignore",
	ListTubes:          "list-tubes",
	ListTubeUsed:       "list-tube-used",
	ListTubesWatched:   "list-tubes-watched",
	PauseTube:          "pause-tube",
	Quit:               "quit",
}

// String returns the command word as it stands on the wire, or "unknown".
func (k Kind) String() string {
	if k >= NumKinds {
		return kindWords[Unknown]
	}
	return kindWords[k]
}

// A Command is one parsed command line. The caller owns it and hands it to
// Parse again and again; Parse sets Kind and the fields which that Kind uses,
// and leaves the others as they were:
//
//	Put                                   Pri Delay TTR Size Trailing
//	Release                               ID Pri Delay
//	Bury                                  ID Pri
//	Peek ReserveJob Delete KickJob Touch
//	StatsJob                              ID
//	ReserveWithTimeout                    Timeout
//	Kick                                  Bound
//	Use Watch Ignore StatsTube            Name
//	PauseTube                             Name Delay
//
// After an error the fields other than Kind mean nothing.
type Command struct {
	Kind Kind
	// Trailing says that bytes follow the size of a Put. The caller decides what
	// comes of it, for it loses against a body over the limit: JOB_TOO_BIG and
	// the body skipped, else BAD_FORMAT and no byte of the body consumed.
	Trailing bool
	ID       uint64
	Pri      uint32
	Delay    uint32 // seconds
	TTR      uint32 // seconds, at least 1: a 0 on the wire is already made 1
	Size     uint32 // bytes of the body, without the \r\n after it; not yet held against any limit
	Timeout  uint32 // seconds, at most 1<<31 - 1
	Bound    uint32 // the most jobs to kick
	Name     []byte // a valid tube name; aliases the input
}
