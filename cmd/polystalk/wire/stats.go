package wire

import (
	"encoding/json"
	"strconv"

	"polystalk/codec/admin"
	"polystalk/codec/gearman"
)

// A stats is one of the server's replies of that kind.
type stats map[string]string

// number is the number of that name; nil, if the server does not tell it.
func (s stats) number(name string) *uint64 {
	n, err := strconv.ParseUint(s[name], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// count is the number of that name, 0 if the server does not tell it.
func (s stats) count(name string) uint64 {
	n, _ := strconv.ParseUint(s[name], 10, 64)
	return n
}

// text is a value without the quotes that some servers write.
func (s stats) text(name string) string { return unquoted(s[name]) }

// unquoted is a value without its quotes. polystalkd quotes the name of a function that is no
// tube name, and escapes the bytes in it.
func unquoted(s string) string {
	if b, ok := gearman.AppendUnquoted(nil, []byte(s)); ok {
		return string(b)
	}
	return s
}

func (s stats) jobs() admin.Counts {
	return admin.Counts{
		Ready: s.count("current-jobs-ready"), Urgent: s.count("current-jobs-urgent"), Delayed: s.count("current-jobs-delayed"),
		Reserved: s.count("current-jobs-reserved"), Buried: s.count("current-jobs-buried"),
	}
}

// A serverDocument is what stats tells of an admin.Server.
type serverDocument struct {
	Version     string       `json:"version"`
	Hostname    string       `json:"hostname,omitempty"`
	PID         *uint64      `json:"pid,omitempty"`
	Uptime      *uint64      `json:"uptime_seconds,omitempty"`
	Draining    bool         `json:"draining"`
	MaxJobSize  *uint64      `json:"max_job_size_bytes,omitempty"`
	Tubes       *uint64      `json:"tubes,omitempty"`
	Jobs        admin.Counts `json:"jobs"`
	JobsTotal   *uint64      `json:"jobs_total,omitempty"`
	JobTimeouts *uint64      `json:"job_timeouts_total,omitempty"`
	Connections struct {
		Open      *uint64 `json:"open,omitempty"`
		Accepted  *uint64 `json:"accepted_total,omitempty"`
		Producers *uint64 `json:"producers,omitempty"`
		Workers   *uint64 `json:"workers,omitempty"`
		Waiting   *uint64 `json:"waiting,omitempty"`
	} `json:"connections"`
}

func (s stats) server() ([]byte, error) {
	d := serverDocument{
		Version: s.text("version"), Hostname: s.text("hostname"), PID: s.number("pid"), Uptime: s.number("uptime"), Draining: s["draining"] == "true",
		MaxJobSize: s.number("max-job-size"), Tubes: s.number("current-tubes"), Jobs: s.jobs(), JobsTotal: s.number("total-jobs"), JobTimeouts: s.number("job-timeouts"),
	}
	d.Connections.Open, d.Connections.Accepted = s.number("current-connections"), s.number("total-connections")
	d.Connections.Producers, d.Connections.Workers, d.Connections.Waiting = s.number("current-producers"), s.number("current-workers"), s.number("current-waiting")
	return json.Marshal(d)
}

// A tubeDocument is what stats-tube tells of an admin.Tube.
type tubeDocument struct {
	Name     string       `json:"name"`
	Path     string       `json:"path"`
	Jobs     admin.Counts `json:"jobs"`
	Total    uint64       `json:"jobs_total"`
	Deletes  uint64       `json:"deletes_total"`
	Pauses   uint64       `json:"pauses_total"`
	Using    uint64       `json:"using"`
	Watching uint64       `json:"watching"`
	Waiting  uint64       `json:"waiting"`
	Pause    uint64       `json:"pause_seconds"`
	Left     uint64       `json:"pause_left_seconds"`
}

func (s stats) tube(name string) tubeDocument {
	return tubeDocument{
		Name: admin.ShownName(name), Path: admin.PathName(name), Jobs: s.jobs(),
		Total: s.count("total-jobs"), Deletes: s.count("cmd-delete"), Pauses: s.count("cmd-pause-tube"),
		Using: s.count("current-using"), Watching: s.count("current-watching"), Waiting: s.count("current-waiting"),
		Pause: s.count("pause"), Left: s.count("pause-time-left"),
	}
}

// sortKey is what a tube is sorted by in a column; false: it cannot be.
func (t *tubeDocument) sortKey(column string) (uint64, bool) {
	switch column {
	case "", "name":
		return 0, true
	case "ready":
		return t.Jobs.Ready, true
	case "urgent":
		return t.Jobs.Urgent, true
	case "delayed":
		return t.Jobs.Delayed, true
	case "reserved":
		return t.Jobs.Reserved, true
	case "buried":
		return t.Jobs.Buried, true
	case "total":
		return t.Total, true
	case "using":
		return t.Using, true
	case "watching":
		return t.Watching, true
	case "waiting":
		return t.Waiting, true
	}
	return 0, false
}

// A jobDocument is what stats-job tells of an admin.Job.
type jobDocument struct {
	ID       uint64  `json:"id,string"`
	Tube     string  `json:"tube"`
	Path     string  `json:"tube_path"`
	State    string  `json:"state"`
	Pri      uint64  `json:"pri"`
	Delay    uint64  `json:"delay_seconds"`
	TTR      uint64  `json:"ttr_seconds"`
	Age      uint64  `json:"age_seconds"`
	Left     uint64  `json:"left_seconds"`
	Reserves uint64  `json:"reserves_total"`
	Timeouts uint64  `json:"timeouts_total"`
	Releases uint64  `json:"releases_total"`
	Buries   uint64  `json:"buries_total"`
	Kicks    uint64  `json:"kicks_total"`
	Size     *int    `json:"body_bytes,omitempty"`
	Text     *string `json:"body,omitempty"`
	Base64   *string `json:"body_base64,omitempty"`
	Part     bool    `json:"body_truncated,omitempty"`

	tube string // octet for octet
}

func (s stats) job(id uint64) jobDocument {
	tube := s.text("tube")
	d := jobDocument{
		ID: id, tube: tube, Tube: admin.ShownName(tube), Path: admin.PathName(tube), State: s.text("state"),
		Pri: s.count("pri"), Delay: s.count("delay"), TTR: s.count("ttr"), Age: s.count("age"),
		Reserves: s.count("reserves"), Timeouts: s.count("timeouts"), Releases: s.count("releases"), Buries: s.count("buries"), Kicks: s.count("kicks"),
	}
	if d.State == "delayed" || d.State == "reserved" {
		d.Left = s.count("time-left") // of others it is 0, or what was left when they were buried
	}
	return d
}

// previewMax is as many octets of a body as polystalkd's previews have.
const previewMax = 256

// show adds a body, as far as a list of jobs is to show it.
func (d *jobDocument) show(body []byte, how string) {
	size := len(body)
	d.Size = &size
	switch how {
	case "full":
	case "preview":
		body = body[:min(len(body), previewMax)]
	default:
		return
	}
	c := admin.NewContent(body, size)
	d.Text, d.Base64, d.Part = c.Text, c.Base64, c.Truncated
}
