package client

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/codec/admin"
)

// tube carries out GET /tubes/{tube}.
func (c *Beanstalk) tube(ctx context.Context, r *Request) (any, error) {
	s, err := beanstalk.NewTube(c.conn, r.Tube).Stats()
	if err := c.told(ctx, tubeNamed+r.Tube, s, "current-jobs-ready", err); err != nil {
		return nil, err
	}
	return stats(s).ofTube(r.Tube), nil
}

// pause carries out PUT and DELETE /tubes/{tube}/pause.
func (c *Beanstalk) pause(ctx context.Context, r *Request) (any, error) {
	p, _ := r.JSON.(admin.Pause) // DELETE has none
	return nil, c.failure(ctx, tubeNamed+r.Tube, beanstalk.NewTube(c.conn, r.Tube).Pause(time.Duration(p.Seconds)*time.Second))
}

// kickTube carries out POST /tubes/{tube}/kick: it makes buried jobs ready, or if there are none,
// delayed ones.
func (c *Beanstalk) kickTube(ctx context.Context, r *Request) (any, error) {
	kicked, err := beanstalk.NewTube(c.conn, r.Tube).Kick(int(r.JSON.(admin.Kick).Count))
	return admin.Kicked{Kicked: uint32(kicked)}, c.failure(ctx, tubeNamed+r.Tube, err)
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
	all, err := c.allStats(ctx, names)
	if err != nil {
		return nil, err
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
	c.replies.list = true
	all, err := c.conn.ListTubes()
	c.replies.list = false
	if err != nil {
		return nil, c.failure(ctx, "list of tubes", err)
	}
	var names []string
	for _, name := range all {
		name = unquoted(name)
		if ok, _ := path.Match(flat(pattern), flat(name)); (ok || pattern == "") && CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// BadPattern is the error for a pattern that cannot be read.
func BadPattern(pattern string) error {
	return Errorf(Usage, "the pattern %q cannot be read: write \\[ for a bracket; *, ? and [a-z] stand for characters", pattern)
}

// depth is how many commands are sent before the first reply is read. With many tubes the time is
// then the server's work, not the way there and back.
const depth = 64

// allStats returns the statistics of tubes, without the tubes that are gone.
func (c *Beanstalk) allStats(ctx context.Context, names []string) (map[string]stats, error) {
	found := make([]stats, len(names))
	errs := make([]error, len(names))
	turn := make(chan struct{}, depth)
	var all sync.WaitGroup
	var failed atomic.Bool // the commands that follow would fail as well
	for i, name := range names {
		turn <- struct{}{}
		if failed.Load() {
			break
		}
		all.Go(func() {
			defer func() { <-turn }()
			if found[i], errs[i] = beanstalk.NewTube(c.conn, name).Stats(); errs[i] != nil && !errors.Is(errs[i], beanstalk.ErrNotFound) {
				failed.Store(true)
			}
		})
	}
	all.Wait()
	byName := make(map[string]stats, len(names))
	for i, name := range names {
		switch {
		case errs[i] == nil:
			byName[name] = found[i]
		case !errors.Is(errs[i], beanstalk.ErrNotFound):
			return nil, c.failure(ctx, tubeNamed+name, errs[i])
		}
	}
	return byName, nil
}
