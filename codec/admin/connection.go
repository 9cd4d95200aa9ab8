package admin

import "time"

// A Connection is the connection of one client, without HTTP.
type Connection struct {
	ID       uint64 `json:"id,string"` // unlike all others in the life of the process
	Protocol string `json:"protocol"`
	Peer     string `json:"peer"`                // its address; "unix": by a unix socket
	ClientID string `json:"client_id,omitempty"` // by which it calls itself

	Opened      time.Time `json:"opened"`
	OpenSeconds float64   `json:"open_seconds"`

	// State is idle, busy (an operation is under way), waiting (for a job to reserve),
	// sleeping (a worker that waits to be told of a job) or closing; StoppedBy what keeps it
	// from going on with what it was sent.
	State       string   `json:"state"`
	StoppedBy   []string `json:"stopped_by"`
	WaitSeconds float64  `json:"wait_seconds"` // for how long it has waited, or slept

	Producer bool `json:"producer"` // it has put a job
	Worker   bool `json:"worker"`   // it has reserved one, or wanted to
	Awaits   bool `json:"awaits"`   // it wants to hear what becomes of jobs that it has submitted

	Used     *TubeName  `json:"used_tube,omitempty"`
	Watched  []TubeName `json:"watched_tubes"` // the first ones
	Watching int        `json:"watching"`      // all of them

	Holding     uint32  `json:"holding"` // jobs
	HoldSeconds float64 `json:"hold_seconds"`

	Command        string  `json:"last_command,omitempty"`
	CommandSeconds float64 `json:"last_command_seconds"` // ago

	ReceivedBytes uint64 `json:"received_bytes_total"`
	SentBytes     uint64 `json:"sent_bytes_total"`
	HeldBytes     int    `json:"held_bytes"`   // that have come, and wait for their turn
	UnsentBytes   int    `json:"unsent_bytes"` // that it has not read yet, or that wait for the disk
}

// A ConnectionJobs is one connection with the jobs that it holds, those first that it has
// held for longest, or as many of them as are shown.
type ConnectionJobs struct {
	Connection
	Jobs []Job `json:"jobs"`
}

// A ConnectionList is a part of the list of connections.
type ConnectionList struct {
	Connections []Connection `json:"connections"`
	Looked      int          `json:"looked_at"`      // connections, for this part
	Next        string       `json:"next,omitempty"` // what after= goes on with; empty: this is the end
	AsOf        time.Time    `json:"as_of"`
}
