package admin

// A Policy tells the tubes that it matches what to do with their jobs by themselves. An absent
// option is not set. The guide explains the options.
type Policy struct {
	Match string `json:"match"` // a tube as PathName, or the beginning of one and "*"
	Note  string `json:"note,omitempty"`

	Attempts          uint64  `json:"attempts,omitempty"`
	BackoffSeconds    uint64  `json:"backoff_seconds,omitempty"`
	BackoffMaxSeconds uint64  `json:"backoff_max_seconds,omitempty"`
	TTLSeconds        uint64  `json:"ttl_seconds,omitempty"`
	Expired           string  `json:"expired,omitempty"` // delete, the default, or bury
	MaxJobs           uint64  `json:"max_jobs,omitempty"`
	MaxBytes          uint64  `json:"max_bytes,omitempty"`
	Full              string  `json:"full,omitempty"` // refuse, the default, or drop-oldest
	Running           *uint64 `json:"running,omitempty"`
	PerSecond         float64 `json:"per_second,omitempty"`
	Burst             uint64  `json:"burst,omitempty"`
	BuriedTTLSeconds  uint64  `json:"buried_ttl_seconds,omitempty"`
	MaxBuried         uint64  `json:"max_buried,omitempty"`
}

// A PolicyView is a policy in a reply.
type PolicyView struct {
	Policy
	Tubes   uint64   `json:"tubes"` // existing ones that it applies to
	Warning string   `json:"warning,omitempty"`
	Effect  *Effects `json:"effect,omitempty"` // of a dry run
}

// Effects are the jobs that a changed policy would end at once.
type Effects struct {
	Expired uint64 `json:"expired"`
	Dropped uint64 `json:"dropped"`
	Partial bool   `json:"partial,omitempty"` // counting took too long: there are more
}

// Policies is the set of all policies.
type Policies struct {
	Policies []PolicyView `json:"policies"`
}
