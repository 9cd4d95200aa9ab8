package admin

import "time"

// An Audit lists the newest changes and refusals, the newest first.
type Audit struct {
	Entries []Entry `json:"entries"`
	Kept    int     `json:"kept"` // changes of each role that the server keeps at most
}

// An Entry is one change, or a request that changed nothing.
type Entry struct {
	Number    uint64    `json:"number,string"`
	Time      time.Time `json:"time"`
	Name      string    `json:"name"` // of the token; empty: none was shown
	Role      string    `json:"role"`
	Client    string    `json:"client"` // its address
	Action    string    `json:"action"` // method and route
	Path      string    `json:"path"`   // as it was asked for
	Status    int       `json:"status"` // of the answer
	Affected  uint64    `json:"affected"`
	Detail    string    `json:"detail,omitempty"` // what was changed, beyond the path
	RequestID string    `json:"request_id"`
}
