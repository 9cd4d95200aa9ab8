package admin

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// LinesType is the media type of lines of JSON, such as the ones of LineJob.
const LinesType = "application/x-ndjson"

// LinesMax is the largest number of jobs in a request to put many.
const LinesMax = 1000

// A LineJob is a job to put, which a line of JSON describes. polystalk export writes such lines.
type LineJob struct {
	Tube            string // byte for byte; empty: the line has none
	Pri, Delay, TTR uint32 // Delay and TTR in seconds
	Buried          bool
	Body            []byte
}

// States are the states of jobs.
var States = []string{"ready", "delayed", "reserved", "buried"}

// ParseLine reads a line. The line has the members of a Job, and may lack all of them except the
// body; pri is the default priority. Content that would be lost is refused. The error is a
// *Problem.
func ParseLine(text []byte, pri uint32) (j LineJob, err error) {
	var l struct {
		Job
		Path       *string `json:"tube_path"` // these are nil if the line lacks them
		Pri        *uint32 `json:"pri"`
		TTRSeconds *uint32 `json:"ttr_seconds"`
		Base64     *[]byte `json:"body_base64"`
		Size       *int    `json:"body_bytes"`
	}
	if err := Decode(text, &l); err != nil {
		return j, err
	}
	j = LineJob{Tube: l.Tube, Pri: pri, TTR: DefaultTTR, Buried: l.State == "buried"}
	switch {
	case l.Text != nil && l.Base64 != nil:
		return j, Invalid.With("", "it has body and body_base64", "give one of them")
	case l.Text != nil:
		j.Body = []byte(*l.Text)
	case l.Base64 != nil:
		j.Body = *l.Base64
	}
	switch {
	case l.Truncated, l.Text == nil && l.Base64 == nil && (l.Size == nil || *l.Size > 0):
		return j, Invalid.With("", "it has no body, or a part of it", "export writes all of it")
	case l.Size != nil && *l.Size != len(j.Body):
		return j, Invalid.With("", fmt.Sprintf("body_bytes is %d, and the body has %d", *l.Size, len(j.Body)), "export writes all of it")
	case l.State != "" && !slices.Contains(States, l.State):
		return j, Invalid.With("", fmt.Sprintf("the state \"%s\" is unknown", l.State), "give ready, delayed, reserved or buried")
	}
	if l.Path != nil {
		if j.Tube, err = url.PathUnescape(*l.Path); err != nil {
			return j, Invalid.With("", "its tube_path is not percent-encoded", "give what export has written")
		}
	}
	if l.Pri != nil {
		j.Pri = *l.Pri
	}
	if l.TTRSeconds != nil {
		j.TTR = *l.TTRSeconds
	}
	if l.State == "delayed" {
		j.Delay = uint32(min(max(math.Ceil(l.LeftSeconds), 1), math.MaxUint32))
	}
	return j, nil
}

// textMax is the largest body that AppendLine writes as text. Text can be twice as long in JSON,
// and a request has room for the largest job in base64.
const textMax = 16 << 10

// AppendLine appends the line of a job to b, with its end. A delayed job that is buried loses the
// delay.
func (j *LineJob) AppendLine(b []byte) []byte {
	b = append(append(append(b, `{"tube_path":"`...), PathName(j.Tube)...), '"')
	b = strconv.AppendUint(append(b, `,"pri":`...), uint64(j.Pri), 10)
	b = strconv.AppendUint(append(b, `,"ttr_seconds":`...), uint64(j.TTR), 10)
	switch {
	case j.Buried:
		b = append(b, `,"state":"buried"`...)
	case j.Delay > 0:
		b = strconv.AppendUint(append(b, `,"state":"delayed","left_seconds":`...), uint64(j.Delay), 10)
	}
	if len(j.Body) <= textMax && IsText(j.Body) {
		b, _ = jsontext.AppendQuote(append(b, `,"body":`...), j.Body) // the text is valid
		return append(b, "}\n"...)
	}
	b = base64.StdEncoding.AppendEncode(append(b, `,"body_base64":"`...), j.Body)
	return append(b, "\"}\n"...)
}

// A PutLine is the result of a line: the id of its job, or why there is none.
type PutLine struct {
	ID      uint64   `json:"id,string,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// A PutLines is the answer to a request to put many jobs. All jobs with an id are durable.
type PutLines struct {
	Lines   []PutLine `json:"lines"`             // of the first lines, in their order
	Problem *Problem  `json:"problem,omitempty"` // why the jobs of the other lines were not put
}
