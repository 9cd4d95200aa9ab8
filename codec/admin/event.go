package admin

import "time"

// The names of events. Server has a Server, Journal a Journal, and Operation an Operation.
const (
	EventServer    = "server"
	EventTubes     = "tubes"
	EventTube      = "tube"
	EventOperation = "operation"
	EventJournal   = "journal"
)

// A TubesEvent is what has changed in a list of tubes that somebody looks at. Ages and the rest
// of pauses go on by themselves: of what has changed by time alone nothing is told.
type TubesEvent struct {
	// Whole: these are all tubes of the list, and what was told before holds no more.
	Whole    bool      `json:"whole"`
	Tubes    []Tube    `json:"tubes"`    // those that have changed, or come into the list
	Gone     []string  `json:"gone"`     // names of those that are no longer in it
	Matching int       `json:"matching"` // tubes that match, in the list or not
	AsOf     time.Time `json:"as_of"`
}

// A TubeEvent is what has become of one tube.
type TubeEvent struct {
	Name string    `json:"name"` // as ShownName
	Path string    `json:"path"` // as PathName
	Tube *Tube     `json:"tube"` // nil: it is not there
	AsOf time.Time `json:"as_of"`
}
