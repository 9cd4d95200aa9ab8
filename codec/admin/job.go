package admin

import (
	"bytes"
	"encoding/base64"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Job describes a job.
type Job struct {
	ID     uint64 `json:"id,string"`
	Tube   string `json:"tube"` // as ShownName
	Path   string `json:"tube_path"`
	State  string `json:"state"`            // ready, delayed, reserved or buried
	Moving bool   `json:"moving,omitempty"` // to another tube: reserved, but not by a worker

	Pri          uint32 `json:"pri"`
	DelaySeconds uint32 `json:"delay_seconds"`
	TTRSeconds   uint32 `json:"ttr_seconds"`

	AgeSeconds   float64 `json:"age_seconds"`
	StateSeconds float64 `json:"state_seconds"` // since it entered its state
	LeftSeconds  float64 `json:"left_seconds"`  // until its delay or its time to run ends

	Reserves uint32 `json:"reserves_total"`
	Timeouts uint32 `json:"timeouts_total"`
	Releases uint32 `json:"releases_total"`
	Buries   uint32 `json:"buries_total"`
	Kicks    uint32 `json:"kicks_total"`

	BuriedBy string `json:"buried_by,omitempty"` // worker, operator, attempts or expiry; absent: not buried, or unknown

	Holder *Holder `json:"holder,omitempty"` // of a reserved job; absent: it is being moved

	Content
}

// A Holder is the connection that has reserved a job.
type Holder struct {
	Connection uint64 `json:"connection,string"` // id
	Peer       string `json:"peer"`              // the client's address; empty: it has disconnected
}

// Jobs is a page of a list of jobs.
type Jobs struct {
	Jobs   []Job     `json:"jobs"`
	Looked int       `json:"looked_at"`      // jobs
	Next   string    `json:"next,omitempty"` // the parameter after of the next page; empty: this is the last
	AsOf   time.Time `json:"as_of"`          // when the search for this page began
}

// A Content is a job's body or its beginning, in one of two forms.
type Content struct {
	Size      int     `json:"body_bytes"`            // of the whole body
	Text      *string `json:"body,omitempty"`        // of a body that is text
	Base64    *string `json:"body_base64,omitempty"` // of any other body
	Truncated bool    `json:"body_truncated,omitempty"`
}

// NewContent returns the content of a body of size bytes that begins with body.
func NewContent(body []byte, size int) Content {
	c := Content{Size: size, Truncated: len(body) < size}
	if c.Truncated {
		if text := body[:WholeRunes(body)]; IsText(text) {
			body = text
		}
	}
	if IsText(body) {
		text := string(body)
		c.Text = &text
		return c
	}
	text := base64.StdEncoding.EncodeToString(body)
	c.Base64 = &text
	return c
}

// WholeRunes returns the length of b without an incomplete character at its end.
func WholeRunes(b []byte) int {
	for n := len(b) - 1; n >= 0 && n >= len(b)-utf8.UTFMax; n-- {
		if utf8.RuneStart(b[n]) {
			if !utf8.FullRune(b[n:]) {
				return n
			}
			break
		}
	}
	return len(b)
}

// IsText reports whether b is UTF-8 without control characters other than \n, \r and \t.
func IsText(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexFunc(b, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	}) < 0
}

// A NewJob is a job to put, with at most one of the two bodies.
type NewJob struct {
	Pri          *uint32 `json:"pri"`           // absent: 0, the most urgent
	DelaySeconds uint32  `json:"delay_seconds"` // absent: none
	TTRSeconds   *uint32 `json:"ttr_seconds"`   // absent: DefaultTTR
	Body         *string `json:"body"`
	BodyBase64   []byte  `json:"body_base64"`
}

// An EditJob is a change of a job: absent members are not changed.
type EditJob struct {
	Pri          *uint32 `json:"pri"`
	DelaySeconds *uint32 `json:"delay_seconds"` // from now on; 0: the job becomes ready
	TTRSeconds   *uint32 `json:"ttr_seconds"`   // from the next reservation on
	Body         *string `json:"body"`
	BodyBase64   *[]byte `json:"body_base64"`
}

// DefaultTTR is the time to run of a job without one, in seconds.
const DefaultTTR = 60

// A Put has the id of a job that was put.
type Put struct {
	ID uint64 `json:"id,string"`
}

// A NewTransfer moves or copies a job to a tube.
type NewTransfer struct {
	To *string `json:"to"`
}

// A Transfer has the new id of a moved or copied job.
type Transfer struct {
	ID   uint64 `json:"id,string"`   // in the other tube
	From uint64 `json:"from,string"` // the old id
	Tube string `json:"tube"`        // as ShownName
	Path string `json:"tube_path"`
}
