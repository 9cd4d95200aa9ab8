package admin

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Tube is what there is to tell about one.
type Tube struct {
	Name string `json:"name"` // as ShownName
	Path string `json:"path"` // percent-encoded, to stand in a path of the API

	Jobs      Counts `json:"jobs"`
	JobsTotal uint64 `json:"jobs_total"`
	Deletes   uint64 `json:"deletes_total"`
	Pauses    uint64 `json:"pauses_total"`

	Using    uint64 `json:"using"`
	Watching uint64 `json:"watching"`
	Waiting  uint64 `json:"waiting"`

	// What the bodies take that are there, and how long the job has been ready that has been
	// so for longest: zero if none is.
	BodyBytes          uint64  `json:"job_body_bytes"`
	OldestReadySeconds float64 `json:"oldest_ready_seconds"`

	Events map[string]uint64 `json:"events_total"`
	Rates  Rates             `json:"rates"`
	Wait   Quantiles         `json:"wait"` // of jobs, until they were reserved
	Run    Quantiles         `json:"run"`  // of reservations, however they ended

	PauseSeconds     int64 `json:"pause_seconds"`
	PauseLeftSeconds int64 `json:"pause_left_seconds"`
}

// Rates are how often something happens a second, as means of about a minute.
type Rates struct {
	Put     float32 `json:"put_per_second"`
	Reserve float32 `json:"reserve_per_second"`
	Delete  float32 `json:"delete_per_second"`
	Timeout float32 `json:"timeout_per_second"`
}

// Quantiles are of lengths of time since the tube was made: none of them is less than the
// real one, and none more than twice that. They are zero if there was none.
type Quantiles struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50_seconds"`
	P99   float64 `json:"p99_seconds"`
}

// Tubes are a part of a list of tubes.
type Tubes struct {
	Tubes    []Tube    `json:"tubes"`
	Matching int       `json:"matching"`       // tubes that match, in this part or not
	Next     string    `json:"next,omitempty"` // what after= goes on with; empty: this is the end
	AsOf     time.Time `json:"as_of"`
}

// A Pause is how long reserve is kept from a tube.
type Pause struct {
	Seconds uint32 `json:"seconds"`
}

// A Kick asks for up to so many jobs of a tube to be made ready.
type Kick struct {
	Count uint32 `json:"count"`
}

// Kicked is how many were.
type Kicked struct {
	Kicked uint32 `json:"kicked"`
}

// Flushed are the jobs that a flush has ended, or would end, in all and by the state that they
// were in.
type Flushed struct {
	Jobs    uint64 `json:"jobs"`
	Ready   uint64 `json:"ready"`
	Delayed uint64 `json:"delayed"`
	Buried  uint64 `json:"buried"`
	DryRun  bool   `json:"dry_run"`
	AsOf    string `json:"as_of,omitempty"` // of a dry run: what as_of= takes, to end no other jobs
}

// A TubeName is a tube's name in the two forms in which answers have it.
type TubeName struct {
	Name string `json:"name"` // as ShownName
	Path string `json:"path"` // as PathName
}

// NameOf is the name of a tube.
func NameOf(name string) TubeName { return TubeName{ShownName(name), PathName(name)} }

// ShownName is a tube's name as a string that can be shown, and told from every other: the
// name itself, but for octets that are no UTF-8, or that are control characters, which are
// written as \xNN, and a backslash before those, which is doubled where one is needed.
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

// PathName is a tube's name as it stands in a path.
func PathName(name string) string {
	// A segment of dots alone would be taken for a way up.
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}
