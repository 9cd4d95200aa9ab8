package admin

// A Health is the answer of a probe.
type Health struct {
	Status   string    `json:"status"` // ok, or fail
	State    string    `json:"state"`  // starting, following, serving or stopping
	Notes    []string  `json:"notes,omitempty"`
	Checks   []Check   `json:"checks,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
}

// A Check is one part of a Health.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, or fail
	Detail string `json:"detail,omitempty"`
}

// A Progress is how much of the journal was read.
type Progress struct {
	ReadBytes int64 `json:"read_bytes"`
	AllBytes  int64 `json:"all_bytes"`
}
