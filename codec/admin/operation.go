package admin

import "time"

// A NewOperation is the same to be done to many jobs.
type NewOperation struct {
	Action       string    `json:"action"` // delete, kick, bury, release or set
	Select       Selection `json:"select"`
	Set          SetJobs   `json:"set"`   // of the action set
	Force        bool      `json:"force"` // also jobs that workers have; release always
	Limit        uint64    `json:"limit"` // 0: all
	DryRun       bool      `json:"dry_run"`
	AsOf         string    `json:"as_of"`          // of a dry run: no other jobs than were counted
	ExpectAtMost *uint64   `json:"expect_at_most"` // absent: any number
}

// A Selection says which jobs are meant; what is absent selects all.
type Selection struct {
	Tube             *string  `json:"tube"` // byte for byte; or AllTubes
	AllTubes         bool     `json:"all_tubes"`
	States           []string `json:"states"`
	Contains         string   `json:"contains"`
	MinID            uint64   `json:"id_min,string"`
	MaxID            uint64   `json:"id_max,string"`
	OlderThanSeconds uint32   `json:"older_than_seconds"`
}

// SetJobs is what is to be changed in many jobs.
type SetJobs struct {
	Pri          *uint32 `json:"pri"`
	DelaySeconds *uint32 `json:"delay_seconds"` // from when it comes to the job; 0: it is ready
}

// An Operation is how far one is.
type Operation struct {
	ID      uint64            `json:"id,string"`
	Name    string            `json:"name"` // of the token; empty: none was shown
	Action  string            `json:"action"`
	DryRun  bool              `json:"dry_run"`
	State   string            `json:"state"` // waiting, running, done, cancelled or failed
	AsOf    string            `json:"as_of,omitempty"`
	Began   time.Time         `json:"began"`
	Ended   *time.Time        `json:"ended,omitempty"`
	Looked  uint64            `json:"looked_at"`
	Matched uint64            `json:"matched"`
	Done    uint64            `json:"done"`
	Skipped map[string]uint64 `json:"skipped"` // by the reason
	Problem *Problem          `json:"problem,omitempty"`
}

// Operations are those that are remembered, the newest first.
type Operations struct {
	Operations []Operation `json:"operations"`
}
