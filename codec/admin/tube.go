package admin

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Tube describes a tube.
type Tube struct {
	Name string `json:"name"` // as ShownName
	Path string `json:"path"` // percent-encoded, for a path of the API

	Jobs      Counts `json:"jobs"`
	JobsTotal uint64 `json:"jobs_total"`
	Deletes   uint64 `json:"deletes_total"`
	Pauses    uint64 `json:"pauses_total"`

	Using    uint64 `json:"using"`
	Watching uint64 `json:"watching"`
	Waiting  uint64 `json:"waiting"`

	// The size of the job bodies, and the age of the oldest ready job, 0 if there is none.
	BodyBytes          uint64  `json:"job_body_bytes"`
	OldestReadySeconds float64 `json:"oldest_ready_seconds"`

	Events map[string]uint64 `json:"events_total"`
	Rates  Rates             `json:"rates"`
	Wait   Quantiles         `json:"wait"` // time that jobs were ready before they were reserved
	Run    Quantiles         `json:"run"`  // length of reservations, however they ended

	PauseSeconds     int64 `json:"pause_seconds"`
	PauseLeftSeconds int64 `json:"pause_left_seconds"`

	Policy       *string           `json:"policy"`                        // the match of its policy
	HeldBy       *string           `json:"held_by"`                       // pause, running or rate: it serves no job
	PolicyEvents map[string]uint64 `json:"policy_events_total,omitempty"` // dead, delayed, expired, dropped, refused
}

// Rates are events per second, averaged over about a minute.
type Rates struct {
	Put     float32 `json:"put_per_second"`
	Reserve float32 `json:"reserve_per_second"`
	Delete  float32 `json:"delete_per_second"`
	Timeout float32 `json:"timeout_per_second"`
}

// Quantiles are quantiles of times since the tube was created. Each is at least the exact
// quantile and at most twice as large; zero if there are no times.
type Quantiles struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50_seconds"`
	P99   float64 `json:"p99_seconds"`
}

// Tubes is a page of a list of tubes.
type Tubes struct {
	Tubes    []Tube    `json:"tubes"`
	Matching int       `json:"matching"`       // tubes that match, on this page or not
	Next     string    `json:"next,omitempty"` // the parameter after of the next page; empty: this is the last
	AsOf     time.Time `json:"as_of"`
}

// A Pause is the length of a pause of a tube.
type Pause struct {
	Seconds uint32 `json:"seconds"`
}

// A Kick makes at most Count jobs of a tube ready.
type Kick struct {
	Count uint32 `json:"count"`
}

// Kicked is the result of a Kick.
type Kicked struct {
	Kicked uint32 `json:"kicked"`
}

// Flushed counts the jobs that a flush has deleted, or would delete, by state.
type Flushed struct {
	Jobs    uint64 `json:"jobs"`
	Ready   uint64 `json:"ready"`
	Delayed uint64 `json:"delayed"`
	Buried  uint64 `json:"buried"`
	DryRun  bool   `json:"dry_run"`
	AsOf    string `json:"as_of,omitempty"` // of a dry run: a flush with as_of=AsOf deletes only these jobs
}

// A TubeName is a tube's name in the two forms of the API.
type TubeName struct {
	Name string `json:"name"` // as ShownName
	Path string `json:"path"` // as PathName
}

// NameOf returns both forms of a tube's name.
func NameOf(name string) TubeName { return TubeName{ShownName(name), PathName(name)} }

// ShownName returns a tube's name as printable text, different for each name. Bytes that are not
// UTF-8 and control characters become \xNN, and each backslash is doubled.
func ShownName(name string) string {
	if utf8.ValidString(name) && strings.IndexFunc(name, unicode.IsControl) < 0 && !strings.Contains(name, `\`) {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == utf8.RuneError && n == 1 || unicode.IsControl(r):
			for _, c := range []byte(name[i : i+n]) {
				b.WriteString(`\x`)
				b.WriteString(strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
			}
		default:
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	return b.String()
}

// TubeNameMax is the length of the longest tube name that a job can be put into, in bytes.
// Source: record.Job.AppendPut.
const TubeNameMax = 255

// PathName returns a tube's name for a path of the API.
func PathName(name string) string {
	// In a path, . and .. have a special meaning.
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// The names of events. The data is a Server, TubesEvent, TubeEvent, Operation or Journal.
const (
	EventServer    = "server"
	EventTubes     = "tubes"
	EventTube      = "tube"
	EventOperation = "operation"
	EventJournal   = "journal"
)

// A TubesEvent has the changes in a list of tubes. Changes of ages and of the time left of
// pauses are not reported alone.
type TubesEvent struct {
	Whole    bool      `json:"whole"`    // these are all tubes of the list: forget earlier events
	Tubes    []Tube    `json:"tubes"`    // tubes that have changed, or have entered the list
	Gone     []string  `json:"gone"`     // names of tubes that have left the list
	Matching int       `json:"matching"` // tubes that match, in the list or not
	AsOf     time.Time `json:"as_of"`
}

// A TubeEvent is a tube that has changed.
type TubeEvent struct {
	Name string    `json:"name"` // as ShownName
	Path string    `json:"path"` // as PathName
	Tube *Tube     `json:"tube"` // nil: the tube does not exist
	AsOf time.Time `json:"as_of"`
}
