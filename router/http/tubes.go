package http

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

const (
	tubesDefault = 100
	tubesMost    = 1000
)

// sortKeys are what tubes can be sorted by, besides their names.
var sortKeys = map[string]func(t *core.TubeRow) uint64{
	"ready": func(t *core.TubeRow) uint64 { return t.Ready }, "urgent": func(t *core.TubeRow) uint64 { return t.Urgent },
	"delayed": func(t *core.TubeRow) uint64 { return t.Delayed }, "reserved": func(t *core.TubeRow) uint64 { return t.Reserved },
	"buried": func(t *core.TubeRow) uint64 { return t.Buried }, "total": func(t *core.TubeRow) uint64 { return t.Total },
	"using": func(t *core.TubeRow) uint64 { return t.Using }, "watching": func(t *core.TubeRow) uint64 { return t.Watching },
	"waiting": func(t *core.TubeRow) uint64 { return t.Waiting },
	"bytes":   func(t *core.TubeRow) uint64 { return t.Bytes }, "oldest": func(t *core.TubeRow) uint64 { return uint64(t.Oldest) },
	"name": func(*core.TubeRow) uint64 { return 0 },
}

// A tubeOrder is that of a list of tubes: by a number, then by name.
type tubeOrder struct {
	key  func(t *core.TubeRow) uint64
	down bool
}

func (o *tubeOrder) compare(a, b *core.TubeRow) int { return o.against(a, o.key(b), b.Name) }

// against compares a tube with a place in the list.
func (o *tubeOrder) against(t *core.TubeRow, n uint64, name string) int {
	byNumber := cmp.Compare(o.key(t), n)
	if o.down {
		byNumber = -byNumber
	}
	return cmp.Or(byNumber, cmp.Compare(t.Name, name))
}

// A tubeList is which tubes are asked for, and in which order.
type tubeList struct {
	match *glob
	by    string // the order, as it was asked for
	order tubeOrder
	limit int
}

// tubeListOf reads match, sort and limit.
func tubeListOf(q url.Values) (l tubeList, err error) {
	if l.match, err = newGlob(q.Get("match")); err != nil {
		return l, err
	}
	l.by = cmp.Or(q.Get("sort"), "name")
	name, down := strings.CutPrefix(l.by, "-")
	l.order = tubeOrder{sortKeys[name], down}
	if l.order.key == nil || l.by == "-name" {
		return l, wire.BadRequest.With("sort", fmt.Sprintf("%q is unknown", l.by), "give name, ready, urgent, delayed, reserved, buried, total, using, watching, waiting, bytes or oldest, the numbers with - before them for the largest first")
	}
	limit, err := number(q, "limit", tubesDefault, 1, tubesMost)
	l.limit = int(limit)
	return l, err
}

// getTubes lists tubes. A cursor is a place in the list: it holds for ever, whatever
// becomes of the tubes meanwhile.
func (a *API) getTubes(c *Call) error {
	q, err := c.Query("match", "sort", "limit", "after")
	if err != nil {
		return err
	}
	wanted, err := tubeListOf(q)
	if err != nil {
		return err
	}
	match, order, limit := wanted.match, wanted.order, wanted.limit
	list := cursor{filter: Hashed(q.Get("match"), wanted.by)}
	if q.Has("after") {
		if err := list.read(q.Get("after")); err != nil {
			return err
		}
	}
	all, err := a.op.Tubes(c.Ctx)
	if err != nil {
		return err
	}
	if c.Tagged(Hashed(a.boot, strconv.FormatUint(all.Number, 10), c.R.URL.RawQuery), true) {
		return nil
	}
	out := wire.Tubes{Tubes: []wire.Tube{}, AsOf: all.At.UTC()}
	var rows []int // of the sample
	for i := range all.Rows {
		t := &all.Rows[i]
		if !match.matches(t.Name) {
			continue
		}
		out.Matching++
		if !q.Has("after") || order.against(t, list.number, list.name) > 0 {
			rows = append(rows, i)
		}
	}
	slices.SortFunc(rows, func(a, b int) int { return order.compare(&all.Rows[a], &all.Rows[b]) })
	if len(rows) > limit {
		rows = rows[:limit]
		last := &all.Rows[rows[limit-1]]
		list.number, list.name = order.key(last), last.Name
		out.Next = list.String()
	}
	for _, i := range rows {
		t, err := a.op.View(c.Ctx, all, i)
		if err != nil {
			return err
		}
		out.Tubes = append(out.Tubes, tubeValue(&t))
	}
	return c.Answer(http.StatusOK, out)
}

// A cursor is a place in a list, and which list that is.
type cursor struct {
	filter string // hashed
	number uint64
	name   string
}

// String is how it stands in an answer.
func (k cursor) String() string {
	b := append([]byte(k.filter), 0)
	b = binary.BigEndian.AppendUint64(b, k.number)
	return base64.RawURLEncoding.EncodeToString(append(b, k.name...))
}

// read reads one that was given out for the same list.
func (k *cursor) read(text string) error {
	const head = 24 + 1 + 8
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < head || b[24] != 0 {
		return noCursor()
	}
	if string(b[:24]) != k.filter {
		return wire.BadRequest.With("after", "the cursor is that of another list", "keep match and sort as they were, or begin again without after")
	}
	k.number, k.name = binary.BigEndian.Uint64(b[25:]), string(b[head:])
	return nil
}

// tubeValue is a tube as it stands in answers.
func tubeValue(t *admin.TubeView) wire.Tube {
	v := wire.Tube{
		Name: wire.ShownName(t.Name), Path: wire.PathName(t.Name),
		Jobs:      wire.Counts{Ready: t.Ready, Urgent: t.Urgent, Delayed: t.Delayed, Reserved: t.Reserved, Buried: t.Buried},
		JobsTotal: t.Total, Deletes: t.Deletes, Pauses: t.Pauses,
		Using: t.Using, Watching: t.Watching, Waiting: t.Waiting,
		BodyBytes: t.Bytes, OldestReadySeconds: seconds(t.Oldest),
		Events: make(map[string]uint64, len(Events)),
		Rates: wire.Rates{
			Put: t.Rates.Put, Reserve: t.Rates.Reserve, Delete: t.Rates.Delete, Timeout: t.Rates.Timeout,
		},
		Wait: quantiles(&t.Flow.Wait), Run: quantiles(&t.Flow.Run),
		PauseSeconds: int64(t.Pause / core.Second), PauseLeftSeconds: int64(t.PauseLeft / core.Second),
	}
	for e, name := range Events {
		v.Events[name] = t.Events[e]
	}
	return v
}

// quantiles are those of a histogram.
func quantiles(t *stats.Times) wire.Quantiles {
	p50, _ := t.Quantile(0.5) // zero if there are none
	p99, _ := t.Quantile(0.99)
	return wire.Quantiles{Count: t.Count(), P50: p50 / 1e9, P99: p99 / 1e9}
}

func (a *API) getTube(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	t, err := a.op.Tube(c.Ctx, tubeOf(c))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, tubeValue(&t))
}

func (a *API) putPause(c *Call) error {
	var in wire.Pause
	if err := c.Decode(&in); err != nil {
		return err
	}
	if in.Seconds == 0 {
		return wire.Invalid.With("seconds", "it is 0, or not there", "give 1 or more, or end the pause with DELETE")
	}
	return a.pause(c, in.Seconds)
}

func (a *API) deletePause(c *Call) error { return a.pause(c, 0) }

func (a *API) pause(c *Call, seconds uint32) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	if err := a.op.Pause(c.Ctx, tubeOf(c), seconds); err != nil {
		return err
	}
	c.Affected = 1
	return c.Done()
}

func (a *API) kickTube(c *Call) error {
	var in wire.Kick
	if _, err := c.Query(); err != nil {
		return err
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	if in.Count == 0 {
		return wire.Invalid.With("count", "it is 0, or not there", "give how many jobs to kick at most")
	}
	n, err := a.op.Kick(c.Ctx, tubeOf(c), in.Count)
	c.Affected = uint64(n)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, wire.Kicked{Kicked: n})
}
