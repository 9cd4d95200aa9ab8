package binlog

import "time"

// A State is what a job can be in a log, with the number it has there. A
// reserved job (2) is read as Ready.
type State uint8

const (
	Ready   State = 1
	Buried  State = 3
	Delayed State = 4
)

// States that only records have.
const (
	stateDeleted  = 0
	stateReserved = 2
)

func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Buried:
		return "buried"
	case Delayed:
		return "delayed"
	}
	return "unknown"
}

// A Job is one job with all that beanstalkd remembers of it across a restart.
type Job struct {
	ID       uint64 // from 1
	Tube     string
	Pri      uint32
	State    State
	Delay    time.Duration // the last that was asked for
	TTR      time.Duration
	Created  int64 // Unix ns
	Deadline int64 // Unix ns, when a delayed job becomes ready, perhaps long ago; else 0

	// How often each happened. beanstalkd adds one to Buries when it reads a
	// buried job again; here the number is the log's.
	Reserves, Timeouts, Releases, Buries, Kicks uint32

	Body []byte // without the CR LF that follows it on disk
}
