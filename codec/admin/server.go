package admin

import "time"

// A Server describes a whole server.
type Server struct {
	Version       string    `json:"version"`
	GoVersion     string    `json:"go_version"`
	Hostname      string    `json:"hostname"`
	PID           int       `json:"pid"`
	Started       time.Time `json:"started"`
	UptimeSeconds int64     `json:"uptime_seconds"`
	State         string    `json:"state"` // starting, following, serving or stopping
	Draining      bool      `json:"draining"`
	Loops         int       `json:"loops"`
	Shards        int       `json:"shards"`
	MaxJobSize    uint32    `json:"max_job_size_bytes"`
	MappedBytes   uint64    `json:"memory_mapped_bytes"`
	Tubes         int       `json:"tubes"`
	Jobs          Counts    `json:"jobs"`
	JobsTotal     uint64    `json:"jobs_total"`
	JobTimeouts   uint64    `json:"job_timeouts_total"`
	// Events counts job events, by the event names of the metrics.
	Events      map[string]uint64 `json:"events_total"`
	Connections Connections       `json:"connections"`
	Peers       []Peer            `json:"peers,omitempty"` // other servers, as configured
	AsOf        time.Time         `json:"as_of"`
}

// A Peer is the console of another server.
type Peer struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Counts are numbers of jobs by their state. Ready includes Urgent.
type Counts struct {
	Ready    uint64 `json:"ready"`
	Urgent   uint64 `json:"urgent"`
	Delayed  uint64 `json:"delayed"`
	Reserved uint64 `json:"reserved"`
	Buried   uint64 `json:"buried"`
}

// Connections counts the connections of all protocols, without HTTP.
type Connections struct {
	Open      int64  `json:"open"`
	Limit     int    `json:"limit"`
	Accepted  uint64 `json:"accepted_total"`
	Producers int64  `json:"producers"`
	Workers   int64  `json:"workers"`
	Waiting   int64  `json:"waiting"`
	Sleeping  int64  `json:"sleeping"` // Gearman workers that sleep until there is a job
}

// A Journal describes the journal.
type Journal struct {
	Enabled  bool   `json:"enabled"`
	Pressure string `json:"pressure"` // open, wait or full

	Segments       int    `json:"segments"`
	OldestSegment  uint64 `json:"oldest_segment"`
	CurrentSegment uint64 `json:"current_segment"`
	Bytes          int64  `json:"bytes"`
	LiveBytes      int64  `json:"live_bytes"`
	PendingBytes   int64  `json:"pending_bytes"`
	PromisedBytes  int64  `json:"promised_bytes"`
	RoomBytes      int64  `json:"room_bytes"` // free space for changes
	Batches        uint64 `json:"batches_total"`
	Records        uint64 `json:"records_total"`
	Migrated       uint64 `json:"migrated_records_total"`
	Commits        uint64 `json:"commits_total"`
}

// A Setting is a setting in effect.
type Setting struct {
	Name   string `json:"name"` // of the flag
	Value  string `json:"value"`
	Origin string `json:"origin"` // where it is set: a flag, a variable, a file, or the default
}

// A Config is all settings, without secrets.
type Config struct {
	Settings []Setting `json:"settings"`
}

// A Reloaded is the result of a reload of the configuration.
type Reloaded struct {
	Applied []Change `json:"applied"` // applied now
	Restart []Change `json:"restart"` // need a restart
	Closed  int      `json:"closed"`  // connections that have lost a right in the access file
}

// A Change is a setting with a new value.
type Change struct {
	Name   string `json:"name"`
	From   string `json:"from"`
	To     string `json:"to"`
	Origin string `json:"origin"`
}

// A LogLevel is the lowest logged level: debug, info, warn or error.
type LogLevel struct {
	Level string `json:"level"`
}

// A Drain says whether new jobs are refused.
type Drain struct {
	Draining bool `json:"draining"`
}

// A Session is the session of a browser.
type Session struct {
	Name   string `json:"name"`   // of the identity
	Role   string `json:"role"`   // none, read, operate, admin, or custom: single rights
	Method string `json:"method"` // how the client proved it
	Server string `json:"server"` // none, read or admin

	Bodies    string   `json:"bodies"`     // none, preview or full
	Verbs     []string `json:"verbs"`      // on some tube
	EveryTube []string `json:"every_tube"` // on every tube
}

// Identities are the identities of the access file.
type Identities struct {
	Identities []Identity `json:"identities"`
	Digest     string     `json:"digest"` // of all rules: equal on servers with the same rules
}

// An Identity is one identity of the access file.
type Identity struct {
	Name        string         `json:"name"`
	Role        string         `json:"role"`
	Server      string         `json:"server"`
	Rules       []string       `json:"rules"`       // as in "put mail-* (line 7)"
	Credentials map[string]int `json:"credentials"` // their number, by method
	Tube        *Explained     `json:"tube,omitempty"`
}

// An Explained has the verbs of an identity on a tube.
type Explained struct {
	Name    string            `json:"name"`
	Path    string            `json:"path"`
	Verbs   []string          `json:"verbs"`
	Because map[string]string `json:"because"` // the rule that gives or excludes each verb
}

// Denials lists the newest refusals.
type Denials struct {
	Denials []Denial `json:"denials"`
}

// A Denial is a group of refusals within a minute.
type Denial struct {
	Identity string    `json:"identity"` // empty: none
	Verb     string    `json:"verb"`     // empty: a level of the server
	Tube     string    `json:"tube"`     // empty: no tube in particular
	Count    uint64    `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Peer     string    `json:"peer"` // the client that was refused last
}

// A Login begins a session.
type Login struct {
	Token string `json:"token"`
}

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

// A Progress shows how much of the journal was read at the start.
type Progress struct {
	ReadBytes int64 `json:"read_bytes"`
	AllBytes  int64 `json:"all_bytes"`
}

// An Audit lists the latest changes and refused requests, the newest first.
type Audit struct {
	Entries []Entry `json:"entries"`
	Kept    int     `json:"kept"` // the largest number of changes of a role in the audit
}

// An Entry is one change, or a request that changed nothing.
type Entry struct {
	Number    uint64    `json:"number,string"`
	Time      time.Time `json:"time"`
	Name      string    `json:"name"` // of the identity; empty: there is none
	Role      string    `json:"role"`
	Client    string    `json:"client"` // its address
	Action    string    `json:"action"` // method and route
	Path      string    `json:"path"`   // of the request
	Status    int       `json:"status"` // of the answer
	Affected  uint64    `json:"affected"`
	Detail    string    `json:"detail,omitempty"` // what was changed, in addition to the path
	RequestID string    `json:"request_id"`
}
