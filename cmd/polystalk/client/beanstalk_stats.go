package client

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"polystalk/codec/admin"
	"polystalk/codec/gearman"
)

// A stats is a reply with statistics: values by name.
type stats map[string]string

// An object is a document, or an object in it: values by member name.
type object map[string]any

// number returns a statistic; 0 if the reply lacks it.
func (s stats) number(name string) uint64 {
	n, _ := strconv.ParseUint(s[name], 10, 64)
	return n
}

// text returns a statistic without the quotes that some servers add.
func (s stats) text(name string) string { return unquoted(s[name]) }

// unquoted returns a value without quotes. polystalkd quotes Gearman function names that are no
// valid tube names, and escapes their bytes.
func unquoted(s string) string {
	if b, ok := gearman.AppendUnquoted(nil, []byte(s)); ok {
		return string(b)
	}
	return s
}

// The numbers of documents, each as member:statistic. A dot separates an object and its member. A
// number that the server does not report is missing.
const (
	stateCounts = `jobs.ready:current-jobs-ready jobs.urgent:current-jobs-urgent jobs.delayed:current-jobs-delayed
		jobs.reserved:current-jobs-reserved jobs.buried:current-jobs-buried `
	serverNumbers = stateCounts + `pid:pid uptime_seconds:uptime max_job_size_bytes:max-job-size tubes:current-tubes
		jobs_total:total-jobs job_timeouts_total:job-timeouts connections.open:current-connections
		connections.accepted_total:total-connections connections.producers:current-producers
		connections.workers:current-workers connections.waiting:current-waiting`
	tubeNumbers = stateCounts + `jobs_total:total-jobs deletes_total:cmd-delete pauses_total:cmd-pause-tube using:current-using
		watching:current-watching waiting:current-waiting pause_seconds:pause pause_left_seconds:pause-time-left`
	jobNumbers = `pri:pri delay_seconds:delay ttr_seconds:ttr age_seconds:age reserves_total:reserves timeouts_total:timeouts
		releases_total:releases buries_total:buries kicks_total:kicks`
)

// numbers adds numbers to o and returns o.
func (s stats) numbers(o object, list string) object {
	for pair := range strings.FieldsSeq(list) {
		member, statistic, _ := strings.Cut(pair, ":")
		n, err := strconv.ParseUint(s[statistic], 10, 64)
		if err != nil {
			continue
		}
		in := o
		if outer, inner, nested := strings.Cut(member, "."); nested {
			if o[outer] == nil {
				o[outer] = object{}
			}
			in, member = o[outer].(object), inner
		}
		in[member] = n
	}
	return o
}

// server carries out GET /server.
func (c *Beanstalk) server(ctx context.Context, _ *Request) (any, error) {
	s, err := c.stats(ctx, "server", "current-jobs-ready", "stats")
	if err != nil {
		return nil, err
	}
	o := object{"version": s.text("version"), "draining": s["draining"] == "true"}
	if host := s.text("hostname"); host != "" {
		o["hostname"] = host
	}
	return s.numbers(o, serverNumbers), nil
}

// stats asks for statistics. A reply without the member has none; all figures would be 0.
func (c *Beanstalk) stats(ctx context.Context, about, member, format string, args ...any) (stats, error) {
	_, data, err := c.ask("OK", statsMax, format, args...)
	s := readStats(data)
	if err == nil && s[member] == "" {
		err = Errorf(System, "%s answers without %s: does it speak beanstalkd's protocol?", c.target.Name, member)
	}
	return s, c.failure(ctx, about, err)
}

// readStats reads statistics.
func readStats(data []byte) stats {
	s := stats{}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			s[name] = value
		}
	}
	return s
}

// ofTube returns the document of a tube.
func (s stats) ofTube(name string) object {
	return s.numbers(object{"name": admin.ShownName(name), "path": admin.PathName(name)}, tubeNumbers)
}

// ofJob returns the document of a job without its body.
func (s stats) ofJob(id uint64) object {
	tube := s.text("tube")
	o := object{"id": strconv.FormatUint(id, 10), "tube": admin.ShownName(tube), "tube_path": admin.PathName(tube), "state": s.text("state"), "left_seconds": 0}
	if o["state"] == "delayed" || o["state"] == "reserved" {
		o["left_seconds"] = s.number("time-left") // in other states it is 0, or the time left at the bury
	}
	return s.numbers(o, jobNumbers)
}

// smallMax is the size of a body that may be copied, in bytes.
const smallMax = 64 << 10

// previewMax is the size of a body's preview in polystalkd, in bytes.
const previewMax = 256

// show adds a body to a job's document. how is none, preview or full.
func (o object) show(body []byte, how string) {
	o["body_bytes"] = len(body)
	switch how {
	case "full":
	case "preview":
		body = body[:min(len(body), previewMax)]
	default:
		return
	}
	c := admin.NewContent(body, o["body_bytes"].(int))
	switch {
	case c.Text != nil:
		o["body"] = *c.Text
	case c.Base64 != nil:
		o["body_base64"] = *c.Base64
	}
	if c.Truncated {
		o["body_truncated"] = true
	}
}

// WriteLine writes a job as JSON on a line. A large body is in base64, so that it is not copied.
func WriteLine(w io.Writer, job map[string]any, body []byte) error {
	o := object(job)
	large := len(body) > smallMax
	if o["body_bytes"] = len(body); !large {
		o.show(body, "full")
	}
	text, err := json.Marshal(o)
	if err == nil && large {
		if _, err = fmt.Fprintf(w, `%s,"body_base64":"`, text[:len(text)-1]); err == nil {
			text = []byte(`"}`)
			e := base64.NewEncoder(base64.StdEncoding, w)
			if _, err = e.Write(body); err == nil {
				err = e.Close()
			}
		}
	}
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}

// tube carries out GET /tubes/{tube}.
func (c *Beanstalk) tube(ctx context.Context, r *Request) (any, error) {
	s, err := c.stats(ctx, tubeNamed+r.Tube, "current-jobs-ready", "stats-tube %s", r.Tube)
	return s.ofTube(r.Tube), err
}

// pause carries out PUT and DELETE /tubes/{tube}/pause.
func (c *Beanstalk) pause(ctx context.Context, r *Request) (any, error) {
	p, _ := r.JSON.(admin.Pause) // DELETE has none
	return nil, c.failure(ctx, tubeNamed+r.Tube, c.do("PAUSED", "pause-tube %s %d", r.Tube, p.Seconds))
}

// operation carries out POST /operations within the limits of the protocol: it kicks the buried
// jobs of a tube, or the delayed ones if there are no buried ones.
func (c *Beanstalk) operation(ctx context.Context, r *Request) (any, error) {
	o := r.JSON.(admin.NewOperation)
	states := o.Select.States
	switch {
	case o.Action != "kick":
		return nil, Unsupported(o.Action + " jobs that are selected")
	case o.Select.AllTubes:
		return nil, Unsupported("kick jobs of all tubes")
	case o.Select.Contains != "" || o.Select.MinID != 0 || o.Select.MaxID != 0 || o.Select.OlderThanSeconds != 0:
		return nil, Unsupported("search jobs")
	case len(states) != 1 || states[0] != "buried" && states[0] != "delayed":
		return nil, Errorf(Usage, "kick: by beanstalkd's protocol, give --state buried or --state delayed")
	}
	name, _ := url.PathUnescape(*o.Select.TubePath) // the caller has escaped it
	if err := CheckName(name); err != nil {
		return nil, err
	}
	s, err := c.stats(ctx, tubeNamed+name, "current-jobs-ready", "stats-tube %s", name)
	if err != nil {
		return nil, err
	}
	matched, kicked := s.number("current-jobs-"+states[0]), uint64(0)
	if states[0] == "delayed" && s.number("current-jobs-buried") > 0 {
		return nil, Errorf(NotDone, "there are buried jobs, which beanstalkd's protocol kicks first: kick those, or use polystalkd with --http")
	}
	if o.Limit > 0 {
		matched = min(matched, o.Limit)
	}
	if !o.DryRun {
		var words []string
		if err = c.use(name); err == nil {
			words, _, err = c.ask("KICKED", 0, "kick %d", min(matched, math.MaxInt32))
		}
		if err == nil {
			_, err = fmt.Sscan(strings.Join(words, " "), &kicked)
		}
	}
	return object{"action": "kick", "state": "done", "dry_run": o.DryRun, "matched": matched, "done": kicked}, c.failure(ctx, tubeNamed+name, err)
}

// sortKeys are the statistics by which a list of tubes can be sorted.
var sortKeys = map[string]string{
	"": "", "name": "", "ready": "current-jobs-ready", "urgent": "current-jobs-urgent", "delayed": "current-jobs-delayed",
	"reserved": "current-jobs-reserved", "buried": "current-jobs-buried", "total": "total-jobs",
	"using": "current-using", "watching": "current-watching", "waiting": "current-waiting",
}

// tubes carries out GET /tubes.
func (c *Beanstalk) tubes(ctx context.Context, r *Request) (any, error) {
	column, down := strings.CutPrefix(r.Query.Get("sort"), "-")
	key, ok := sortKeys[column]
	if !ok {
		return nil, Unsupported("sort by " + column)
	}
	names, err := c.names(ctx, r.Query.Get("match"))
	if err != nil {
		return nil, err
	}
	matching := len(names)
	slices.Sort(names)
	if r.Limit > 0 && key == "" {
		names = names[:min(len(names), r.Limit)] // the order is known without statistics
	}
	all := make(map[string]stats, len(names))
	err = c.askMany("OK", statsMax, "stats-tube", len(names), func(i int) any { return names[i] }, func(i int, data []byte) error {
		if data != nil {
			all[names[i]] = readStats(data)
		}
		return nil
	})
	if err != nil {
		return nil, c.failure(ctx, "list of tubes", err)
	}
	// A tube that has been removed meanwhile has no statistics.
	names = slices.DeleteFunc(names, func(name string) bool { return all[name] == nil })
	slices.SortStableFunc(names, func(a, b string) int {
		if down {
			a, b = b, a
		}
		if key == "" {
			return strings.Compare(a, b)
		}
		return cmp.Compare(all[a].number(key), all[b].number(key))
	})
	if r.Limit > 0 {
		names = names[:min(len(names), r.Limit)]
	}
	rows := make([]object, len(names))
	for i, name := range names {
		rows[i] = all[name].ofTube(name)
	}
	return object{"tubes": rows, "matching": matching}, nil
}

// names returns the names of the tubes that match a pattern in polystalkd's syntax.
func (c *Beanstalk) names(ctx context.Context, pattern string) ([]string, error) {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") } // to path.Match, a slash is special
	if _, err := path.Match(flat(pattern), ""); err != nil {
		return nil, BadPattern(pattern)
	}
	_, data, err := c.ask("OK", tubesMax, "list-tubes")
	if err != nil {
		return nil, c.failure(ctx, "list of tubes", err)
	}
	var names []string
	for line := range strings.Lines(string(data)) {
		name := unquoted(strings.TrimSpace(strings.TrimPrefix(line, "- ")))
		if ok, _ := path.Match(flat(pattern), flat(name)); (ok || pattern == "") && CheckName(name) == nil && line != "---\n" {
			names = append(names, name)
		}
	}
	return names, nil
}

// BadPattern returns the error for a pattern with a syntax error.
func BadPattern(pattern string) error {
	return Errorf(Usage, "the pattern %q cannot be read: write \\[ for a bracket; *, ? and [a-z] stand for characters", pattern)
}
