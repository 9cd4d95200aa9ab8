package admin

import (
	"encoding/json"
	"time"
)

// A NewOperation begins a bulk operation.
type NewOperation struct {
	Action       string    `json:"action"` // delete, kick, bury, release, set, move or copy
	Select       Selection `json:"select"`
	Set          SetJobs   `json:"set,omitzero"`   // of the action set
	To           *string   `json:"to,omitzero"`    // of the actions move and copy: the tube
	Force        bool      `json:"force,omitzero"` // also reserved jobs; release is always forced
	Limit        uint64    `json:"limit,omitzero"` // 0: all
	DryRun       bool      `json:"dry_run,omitzero"`
	AsOf         string    `json:"as_of,omitzero"`          // of a dry run: act only on jobs that it counted
	ExpectAtMost *uint64   `json:"expect_at_most,omitzero"` // absent: any number
}

// A Selection selects the jobs of one tube or all tubes, or jobs by id. Other members filter them.
type Selection struct {
	Tube             *string  `json:"tube,omitzero"`      // byte for byte
	TubePath         *string  `json:"tube_path,omitzero"` // or percent-encoded, as in paths
	AllTubes         bool     `json:"all_tubes,omitzero"`
	IDs              []string `json:"ids,omitzero"`
	States           []string `json:"states,omitzero"`
	Contains         string   `json:"contains,omitzero"`
	MinID            uint64   `json:"id_min,string,omitzero"`
	MaxID            uint64   `json:"id_max,string,omitzero"`
	OlderThanSeconds uint32   `json:"older_than_seconds,omitzero"`
}

// SetJobs is a change of many jobs.
type SetJobs struct {
	Pri          *uint32 `json:"pri,omitzero"`
	DelaySeconds *uint32 `json:"delay_seconds,omitzero"` // from the change on; 0: the job becomes ready
	TTRSeconds   *uint32 `json:"ttr_seconds,omitzero"`   // from the next reservation or touch on

	// These are refused: only a single job can be given another body.
	Body       json.RawMessage `json:"body,omitzero"`
	BodyBase64 json.RawMessage `json:"body_base64,omitzero"`
}

// An Operation is the progress of a bulk operation.
type Operation struct {
	ID      uint64       `json:"id,string"`
	Name    string       `json:"name"` // of the token; empty: the request had no token
	Action  string       `json:"action"`
	DryRun  bool         `json:"dry_run"`
	Asked   NewOperation `json:"asked"`              // without the ids
	IDs     int          `json:"ids_given,omitzero"` // number of ids
	State   string       `json:"state"`              // waiting, running, done, cancelled or failed
	AsOf    string       `json:"as_of,omitempty"`
	Began   time.Time    `json:"began"`
	Ended   *time.Time   `json:"ended,omitempty"`
	ToLook  uint64       `json:"to_look_at"` // jobs, approximately
	Looked  uint64       `json:"looked_at"`
	Matched uint64       `json:"matched"`
	Done    uint64       `json:"done"` // durably
	// Unconfirmed jobs were changed, but the journal has not confirmed the changes (in time).
	Unconfirmed uint64            `json:"unconfirmed,omitzero"`
	Skipped     map[string]uint64 `json:"skipped"`            // by the reason
	Selected    *uint64           `json:"selected,omitempty"` // number of selected jobs, if they were counted first
	Problem     *Problem          `json:"problem,omitempty"`
}

// Operations are the operations that the server remembers, the newest first.
type Operations struct {
	Operations []Operation `json:"operations"`
}
