package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
)

// Server implements queue.Queue.
func (c *Conn) Server(ctx context.Context) ([]byte, error) {
	s, err := c.conn.Stats()
	if err := c.told(ctx, "server", s, "current-jobs-ready", err); err != nil {
		return nil, err
	}
	return stats(s).server()
}

// Tube implements queue.Queue.
func (c *Conn) Tube(ctx context.Context, tube string) ([]byte, error) {
	s, err := c.statsTube(ctx, tube)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s.tube(tube))
}

func (c *Conn) statsTube(ctx context.Context, tube string) (stats, error) {
	if err := CheckName(tube); err != nil {
		return nil, err
	}
	s, err := beanstalk.NewTube(c.conn, tube).Stats()
	return s, c.told(ctx, tubeNamed+tube, s, "current-jobs-ready", err)
}

// Pause implements queue.Queue.
func (c *Conn) Pause(ctx context.Context, tube string, seconds uint32) error {
	if err := CheckName(tube); err != nil {
		return err
	}
	return c.failure(ctx, tubeNamed+tube, beanstalk.NewTube(c.conn, tube).Pause(time.Duration(seconds)*time.Second))
}

// depth is how many commands are under way at a time when many tubes are looked at: what
// they take is then their work, and no longer the way to the server and back.
const depth = 64

// Tubes implements queue.Queue.
func (c *Conn) Tubes(ctx context.Context, q queue.TubeQuery, page func([]byte) error) error {
	column, down := strings.CutPrefix(q.Sort, "-")
	if _, ok := new(tubeDocument).sortKey(column); !ok {
		return queue.OnlyPolystalk("sort by " + column)
	}
	names, err := c.names(ctx, q.Match)
	if err != nil {
		return err
	}
	matching := len(names)
	if q.Limit > 0 && (column == "" || column == "name") {
		// Which are the first is known without looking at any.
		slices.Sort(names)
		names = names[:min(len(names), q.Limit)]
	}
	rows, err := c.rows(ctx, names)
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b tubeDocument) int {
		x, _ := a.sortKey(column)
		y, _ := b.sortKey(column)
		if down {
			x, y = y, x
		}
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a.Name, b.Name))
	})
	if q.Limit > 0 {
		rows = rows[:min(len(rows), q.Limit)]
	}
	document, err := json.Marshal(struct {
		Tubes    []tubeDocument `json:"tubes"`
		Matching int            `json:"matching"`
	}{rows, matching})
	if err != nil {
		return err
	}
	return page(document)
}

// names are those of the tubes that match a pattern, as polystalkd reads it.
func (c *Conn) names(ctx context.Context, pattern string) ([]string, error) {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	if _, err := path.Match(flat(pattern), ""); err != nil {
		return nil, fault.New(fault.Usage, "the pattern %q cannot be read: write \\[ for a bracket; *, ? and [a-z] stand for characters", pattern)
	}
	c.sizes.list = true
	all, err := c.conn.ListTubes()
	c.sizes.list = false
	if err != nil {
		return nil, c.failure(ctx, "list of tubes", err)
	}
	var names []string
	for _, n := range all {
		n = unquoted(n)
		if ok, _ := path.Match(flat(pattern), flat(n)); (ok || pattern == "") && CheckName(n) == nil {
			names = append(names, n)
		}
	}
	return names, nil
}

// rows looks at tubes, many at a time. Those that are gone by then are left out.
func (c *Conn) rows(ctx context.Context, names []string) ([]tubeDocument, error) {
	rows := make([]tubeDocument, len(names))
	errs := make([]error, len(names))
	turn := make(chan struct{}, depth)
	var all sync.WaitGroup
	var failed atomic.Bool // the commands that follow would fail as well
	for i, n := range names {
		turn <- struct{}{}
		if failed.Load() {
			break
		}
		all.Go(func() {
			defer func() { <-turn }()
			var s stats
			if s, errs[i] = beanstalk.NewTube(c.conn, n).Stats(); errs[i] == nil {
				rows[i] = s.tube(n)
			} else if !errors.Is(errs[i], beanstalk.ErrNotFound) {
				failed.Store(true)
			}
		})
	}
	all.Wait()
	there := rows[:0]
	for i := range rows {
		if errs[i] == nil {
			there = append(there, rows[i])
		} else if !errors.Is(errs[i], beanstalk.ErrNotFound) {
			return nil, c.failure(ctx, tubeNamed+names[i], errs[i])
		}
	}
	return there, nil
}
