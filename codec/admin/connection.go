package admin

import "time"

// A Connection is the connection of one client, without HTTP.
type Connection struct {
	ID       uint64 `json:"id,string"` // never used again by this process
	Protocol string `json:"protocol"`
	Peer     string `json:"peer"` // the client's address, or "unix"
	TLS      bool   `json:"tls"`
	ClientID string `json:"client_id,omitempty"` // that the client has set

	Opened      time.Time `json:"opened"`
	OpenSeconds float64   `json:"open_seconds"`

	// State is idle, busy, waiting (for a job to reserve), sleeping (until the server notifies it
	// of a job) or closing. StoppedBy has the reasons why the server does not read its input.
	State       string   `json:"state"`
	StoppedBy   []string `json:"stopped_by"`
	WaitSeconds float64  `json:"wait_seconds"` // since it began to wait or sleep

	Producer bool `json:"producer"` // it has put a job
	Worker   bool `json:"worker"`   // it has tried to reserve a job
	Awaits   bool `json:"awaits"`   // it waits for results of jobs

	Used     *TubeName  `json:"used_tube,omitempty"`
	Watched  []TubeName `json:"watched_tubes"` // the first ones
	Watching int        `json:"watching"`      // all of them

	Holding     uint32  `json:"holding"` // jobs
	HoldSeconds float64 `json:"hold_seconds"`

	Command        string  `json:"last_command,omitempty"`
	CommandSeconds float64 `json:"last_command_seconds"` // ago

	ReceivedBytes uint64 `json:"received_bytes_total"`
	SentBytes     uint64 `json:"sent_bytes_total"`
	HeldBytes     int    `json:"held_bytes"`   // input that is not executed yet
	UnsentBytes   int    `json:"unsent_bytes"` // replies that wait for the client or the disk
}

// A ConnectionJobs is a connection with the jobs that it has reserved, the longest held first.
type ConnectionJobs struct {
	Connection
	Jobs []Job `json:"jobs"`
}

// A ConnectionList is a page of the list of connections.
type ConnectionList struct {
	Connections []Connection `json:"connections"`
	Looked      int          `json:"looked_at"`      // connections
	Next        string       `json:"next,omitempty"` // the parameter after of the next page; empty: this is the last
	AsOf        time.Time    `json:"as_of"`
}
