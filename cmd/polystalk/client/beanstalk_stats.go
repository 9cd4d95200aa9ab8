package client

import (
	"context"
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
