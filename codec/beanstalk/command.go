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
// A new command needs a Kind and its word here, a case in match and in parseArgs (parse.go), its
// reply (reply.go), its implementation (the package comment of router/beanstalkd explains how),
// and a conversation in codec/conversation/testdata, which is played against the simulator, the
// server and the reference.
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
	Auth     // not of beanstalkd: it presents a token
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
	Auth:               "auth",
}

// String returns the command word of the protocol, or "unknown".
func (k Kind) String() string {
	if k >= NumKinds {
		return kindWords[Unknown]
	}
	return kindWords[k]
}

// A Command is one parsed command line. The caller owns it and may pass it to Parse many times.
// Parse sets Kind and the fields that the Kind uses, and does not change the others:
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
//	Auth                                  Name: a token, which Parse does not check
//
// After an error the fields other than Kind mean nothing.
type Command struct {
	Kind Kind
	// Trailing says that further bytes follow the size of a Put. The caller must reply. If the
	// body is over the limit: JOB_TOO_BIG, and skip the body. Otherwise: BAD_FORMAT, and consume
	// no byte of the body.
	Trailing bool
	ID       uint64
	Pri      uint32
	Delay    uint32 // seconds
	TTR      uint32 // seconds, at least 1: Parse changes 0 to 1
	Size     uint32 // bytes of the body, without the \r\n after it; Parse does not check a limit
	Timeout  uint32 // seconds, at most 1<<31 - 1
	Bound    uint32 // the maximum number of jobs to kick
	Name     []byte // a valid tube name, or a token; aliases the input
}
