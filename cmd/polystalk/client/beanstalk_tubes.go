package client

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"path"
	"slices"
	"strings"

	"polystalk/codec/admin"
)

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
