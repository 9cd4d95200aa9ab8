package http

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// listDefault and listMost are the default and the largest limit of a list.
const (
	listDefault = 100
	listMost    = 1000
)

// sortKeys are the numbers by which tubes can be sorted; the name has none.
var sortKeys = map[string]func(t *core.TubeRow) uint64{
	"ready": func(t *core.TubeRow) uint64 { return t.Ready }, "urgent": func(t *core.TubeRow) uint64 { return t.Urgent },
	"delayed": func(t *core.TubeRow) uint64 { return t.Delayed }, "reserved": func(t *core.TubeRow) uint64 { return t.Reserved },
	"buried": func(t *core.TubeRow) uint64 { return t.Buried }, "total": func(t *core.TubeRow) uint64 { return t.Total },
	"using": func(t *core.TubeRow) uint64 { return t.Using }, "watching": func(t *core.TubeRow) uint64 { return t.Watching },
	"waiting": func(t *core.TubeRow) uint64 { return t.Waiting },
	"bytes":   func(t *core.TubeRow) uint64 { return t.Bytes }, "oldest": func(t *core.TubeRow) uint64 { return uint64(t.Oldest) },
	"name": func(*core.TubeRow) uint64 { return 0 },
}

// A tubeOrder sorts tubes by a number, then by name.
type tubeOrder struct {
	key  func(t *core.TubeRow) uint64
	down bool
}

func (o *tubeOrder) compare(a, b *core.TubeRow) int { return o.against(a, o.key(b), b.Name) }

// against compares a tube with the place of number n and a name in the list.
func (o *tubeOrder) against(t *core.TubeRow, n uint64, name string) int {
	byNumber := cmp.Compare(o.key(t), n)
	if o.down {
		byNumber = -byNumber
	}
	return cmp.Or(byNumber, cmp.Compare(t.Name, name))
}

// A tubeList selects tubes and their order.
type tubeList struct {
	match func(name string) bool
	by    string // the parameter sort
	order tubeOrder
	limit int
}

// tubeListOf reads match, sort and limit.
func tubeListOf(q *query) (l tubeList, err error) {
	if l.match, err = newGlob(q.Get("match")); err != nil {
		return l, err
	}
	l.by = cmp.Or(q.Get("sort"), "name")
	name, down := strings.CutPrefix(l.by, "-")
	l.order = tubeOrder{sortKeys[name], down}
	if l.order.key == nil || l.by == "-name" {
		return l, wire.BadRequest.With("sort", fmt.Sprintf("%q is unknown", l.by), "give name, ready, urgent, delayed, reserved, buried, total, using, watching, waiting, bytes or oldest; a - before it sorts the largest first, except for name")
	}
	l.limit = int(q.number("limit", listDefault, 1, listMost))
	return l, q.err
}

// getTubes lists tubes. A cursor is a place in the order, so it never expires.
func (a *API) getTubes(c *call) error {
	q := &c.Query
	wanted, err := tubeListOf(q)
	if err != nil {
		return err
	}
	order, limit := wanted.order, wanted.limit
	list := cursor{filter: hashed(q.Get("match"), wanted.by)}
	if q.Has("after") {
		if err := list.read(q.Get("after")); err != nil {
			return err
		}
	}
	all, err := a.op.Tubes(c.Ctx, admin.TubesFor)
	if err != nil {
		return err
	}
	if c.tagged(hashed(a.boot, strconv.FormatUint(all.Number, 10), c.R.URL.RawQuery), true) {
		return nil
	}
	out := wire.Tubes{Tubes: []wire.Tube{}, AsOf: all.At.UTC()}
	var rows []int // of the sample
	for i := range all.Rows {
		t := &all.Rows[i]
		if !wanted.match(t.Name) || !c.mayLook(t.Name) {
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
	if out.Tubes, err = a.tubeValues(c.Ctx, all, rows); err != nil {
		return err
	}
	return c.answer(http.StatusOK, out)
}

// A cursor is a place in a list, and the list's filter.
type cursor struct {
	filter string // hashed
	number uint64
	name   string
}

// String returns the cursor as text for the client.
func (k cursor) String() string {
	b := append([]byte(k.filter), 0)
	b = binary.BigEndian.AppendUint64(b, k.number)
	return base64.RawURLEncoding.EncodeToString(append(b, k.name...))
}

// read reads a cursor that was made for the same list.
func (k *cursor) read(text string) error {
	const head = 24 + 1 + 8
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < head || b[24] != 0 {
		return noCursor()
	}
	if string(b[:24]) != k.filter {
		return wire.BadRequest.With("after", "the cursor belongs to another list", "do not change match and sort between pages, or begin again without after")
	}
	k.number, k.name = binary.BigEndian.Uint64(b[25:]), string(b[head:])
	return nil
}

func (a *API) getTube(c *call) error {
	t, err := a.op.Tube(c.Ctx, tubeOf(c))
	return c.result(t.Value(), err)
}

func (a *API) putPause(c *call, in *wire.Pause) error {
	if in.Seconds == 0 {
		return wire.Invalid.With("seconds", "it is 0 or missing", "give at least 1, or end the pause with DELETE")
	}
	return a.pauseTube(c, in.Seconds)
}

func (a *API) deletePause(c *call) error { return a.pauseTube(c, 0) }

func (a *API) pauseTube(c *call, seconds uint32) error {
	return changed(c, a.op.Pause(c.Ctx, tubeOf(c), seconds))
}

func (a *API) kickTube(c *call, in *wire.Kick) error {
	if in.Count == 0 {
		return wire.Invalid.With("count", "it is 0 or missing", "give the largest number of jobs to kick")
	}
	n, err := a.op.Kick(c.Ctx, tubeOf(c), in.Count)
	c.Affected = uint64(n)
	return c.result(wire.Kicked{Kicked: n}, err)
}

// flushTube deletes all jobs of a tube in some states. The client must name the states:
// deleted jobs cannot be restored.
func (a *API) flushTube(c *call) error {
	q := &c.Query
	const which = "give some of ready, delayed and buried, separated by commas"
	if !q.Has("state") {
		return wire.BadRequest.With("state", "it is missing", which)
	}
	list, err := statesOf(strings.Split(q.Get("state"), ","))
	if err != nil {
		return wire.BadRequest.With("state", fmt.Sprintf("%q is none of ready, delayed and buried", q.Get("state")), which)
	}
	f := admin.Flush{Tube: tubeOf(c), States: core.StatesOf(list...)}
	if f.States.Has(core.Reserved) {
		return wire.BadRequest.With("state", "reserved jobs belong to their workers", which+"; POST /api/v1/operations deletes reserved jobs with force")
	}
	if f.DryRun = q.isTrue("dry_run"); q.err != nil {
		return q.err
	}
	if q.Has("as_of") {
		if f.DryRun {
			return wire.BadRequest.With("as_of", "a dry run cannot have as_of", "omit it, or omit dry_run")
		}
		if f.AsOf, err = a.readAsOf(q.Get("as_of")); err != nil {
			return err
		}
	}
	n, err := a.op.Flush(c.Ctx, &f)
	if c.Detail = "dry run"; !f.DryRun {
		c.Detail, c.Affected = "states", n.All()
		for _, s := range []core.State{core.Ready, core.Delayed, core.Buried} {
			if f.States.Has(s) {
				c.Detail += " " + s.String()
			}
		}
	}
	if err != nil {
		return err
	}
	v := wire.Flushed{Jobs: n.All(), Ready: n.Ready, Delayed: n.Delayed, Buried: n.Buried, DryRun: f.DryRun}
	if f.DryRun {
		v.AsOf = a.asOfText(n.At)
	}
	return c.answer(http.StatusOK, v)
}
