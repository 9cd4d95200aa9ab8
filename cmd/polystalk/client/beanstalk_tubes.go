package client

import (
	"cmp"
	"context"
	"fmt"
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

// kickTube carries out POST /tubes/{tube}/kick: it makes buried jobs ready, or if there are none,
// delayed ones.
func (c *Beanstalk) kickTube(ctx context.Context, r *Request) (any, error) {
	var kicked uint32
	err := c.use(r.Tube)
	if err == nil {
		var words []string
		if words, _, err = c.ask("KICKED", 0, "kick %d", r.JSON.(admin.Kick).Count); err == nil {
			_, err = fmt.Sscan(strings.Join(words, " "), &kicked)
		}
	}
	return admin.Kicked{Kicked: kicked}, c.failure(ctx, tubeNamed+r.Tube, err)
}

// sortKeys are the statistics that a list of tubes can be sorted by.
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
		names = names[:min(len(names), r.Limit)] // the first ones are known without their statistics
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
	// A tube that is gone by now has no statistics.
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

// names returns the names of the tubes that match a pattern of polystalkd's.
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

// BadPattern is the error for a pattern that cannot be read.
func BadPattern(pattern string) error {
	return Errorf(Usage, "the pattern %q cannot be read: write \\[ for a bracket; *, ? and [a-z] stand for characters", pattern)
}
