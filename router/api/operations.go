package api

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/router/web"
	"polystalk/shard/core"
)

// operationSoon is how long an operation may take to be answered as it ended.
const operationSoon = 300 * time.Millisecond

// verbs are what can be done to many jobs, by the names of the actions.
var verbs = map[string]core.Verb{
	"delete": core.VerbDelete, "kick": core.VerbKick, "bury": core.VerbBury, "release": core.VerbRelease, "set": core.VerbSet,
}

// reasons say why jobs were left alone.
var reasons = map[core.Status]string{
	core.StatusNotFound: "gone", core.StatusUnwanted: "changed", core.StatusInUse: "reserved", core.StatusUnfit: "unfit", core.StatusUnadmitted: "no_room",
}

// newOperation begins an operation. One that has ended soon is answered as such.
func (a *API) newOperation(c *web.Call) error {
	var in wire.NewOperation
	if _, err := c.Query(); err != nil {
		return err
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	b, err := a.bulkOf(c, &in)
	if err != nil {
		return err
	}
	ctx, done, err := a.Background()
	if err != nil {
		return err
	}
	op, err := a.operations.Begin(ctx, b, c.Grant.Name, c.ID, done)
	if err != nil {
		done()
		return err
	}
	status := http.StatusAccepted
	select {
	case <-op.Done():
		status = http.StatusOK
	case <-time.After(operationSoon):
	}
	v := a.operationValue(op)
	c.Affected = v.Done
	if _, _, err := op.State(); err != nil && v.Done == 0 {
		return err
	}
	// Relative, so that it leads there behind whatever prefix a proxy puts before it.
	c.W.Header().Set("Location", "operations/"+strconv.FormatUint(op.ID, 10))
	return c.Answer(status, v)
}

// bulkOf is what is asked for.
func (a *API) bulkOf(c *web.Call, in *wire.NewOperation) (b admin.Bulk, err error) {
	sel := &in.Select
	b.Action.Verb = verbs[in.Action]
	if b.Action.Verb == 0 {
		return b, wire.Invalid.With("action", fmt.Sprintf("%q is unknown", in.Action), "give delete, kick, bury, release or set")
	}
	if sel.AllTubes == (sel.Tube != nil) {
		return b, wire.Invalid.With("select.tube", "there is no tube, or all_tubes with it", "give the name of a tube, or all_tubes: true")
	}
	if b.Jobs.AllTubes = sel.AllTubes; sel.Tube != nil {
		b.Jobs.Tube = *sel.Tube
	}
	list, err := statesOf(sel.States)
	if err != nil {
		return b, err
	}
	b.Jobs.Filter = core.Filter{States: core.StatesOf(list...), MinID: core.JobID(sel.MinID), MaxID: core.JobID(sel.MaxID), Contains: []byte(sel.Contains)}
	if len(sel.Contains) > containsMost {
		return b, wire.Invalid.With("select.contains", "it is too long", fmt.Sprintf("give at most %d bytes", containsMost))
	}
	if sel.Contains != "" {
		if err := maySee(c, access.Full); err != nil { // to guess is to see
			return b, err
		}
	}
	b.Jobs.OlderThan = core.Time(sel.OlderThanSeconds) * core.Second
	if b.Action.Force = in.Force || in.Action == "release"; in.Set.Pri != nil {
		b.Action.Pri = *in.Set.Pri
		b.Action.Changes |= core.ChangePri
	}
	if in.Set.DelaySeconds != nil {
		b.Action.Delay = *in.Set.DelaySeconds
		b.Action.Changes |= core.ChangeDelay
	}
	if (b.Action.Changes != 0) != (in.Action == "set") {
		return b, wire.Invalid.With("set", "the action set has nothing to set, or another one has", "give set with pri or delay_seconds to the action set alone")
	}
	b.DryRun, b.Limit, b.AtMost = in.DryRun, in.Limit, math.MaxUint64
	if in.ExpectAtMost != nil {
		b.AtMost = *in.ExpectAtMost
	}
	if in.AsOf != "" {
		b.AsOf, err = a.readAsOf(in.AsOf)
	}
	return b, err
}

// asOfText is a moment of this process.
func (a *API) asOfText(t core.Time) string {
	return web.Hashed(a.boot, "as_of")[:8] + strconv.FormatInt(int64(t), 16)
}

func (a *API) readAsOf(text string) (core.Time, error) {
	digits, ok := strings.CutPrefix(text, a.asOfText(0)[:8])
	if !ok {
		return 0, wire.CursorExpired.With("as_of", "another process has given it out", "make the dry run again")
	}
	n, err := strconv.ParseInt(digits, 16, 64)
	if err != nil || n == 0 {
		return 0, wire.Invalid.With("as_of", "it is no moment", "give what the dry run has as as_of, or leave it out")
	}
	return core.Time(n), nil
}

func (a *API) operationValue(op *admin.Operation) wire.Operation {
	state, ended, err := op.State()
	t := op.Tally()
	v := wire.Operation{
		ID: op.ID, Name: op.Name, DryRun: op.Bulk.DryRun, State: state, Began: op.Began.UTC(),
		Looked: t.Looked, Matched: t.Matched, Done: t.Done, Skipped: make(map[string]uint64),
	}
	for name, verb := range verbs {
		if verb == op.Bulk.Action.Verb {
			v.Action = name
		}
	}
	if t.AsOf != 0 {
		v.AsOf = a.asOfText(t.AsOf)
	}
	if !ended.IsZero() {
		at := ended.UTC()
		v.Ended = &at
	}
	for why, n := range t.Skipped {
		v.Skipped[cmp.Or(reasons[why], "other")] += n
	}
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		about := *p
		about.RequestID = op.Request
		v.Problem = &about
	}
	return v
}

func (a *API) getOperations(c *web.Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	out := wire.Operations{Operations: []wire.Operation{}}
	for _, op := range a.operations.List() {
		out.Operations = append(out.Operations, a.operationValue(op))
	}
	return c.Answer(http.StatusOK, out)
}

// operation finds that in the path.
func (a *API) operation(c *web.Call) (*admin.Operation, error) {
	if _, err := c.Query(); err != nil {
		return nil, err
	}
	id, err := jobOf(c) // the same kind of number
	if err != nil {
		return nil, err
	}
	if op := a.operations.Find(uint64(id)); op != nil {
		return op, nil
	}
	return nil, wire.NotFound.Problem(fmt.Sprintf("no operation %d is remembered", id))
}

func (a *API) getOperation(c *web.Call) error {
	op, err := a.operation(c)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, a.operationValue(op))
}

func (a *API) cancelOperation(c *web.Call) error {
	op, err := a.operation(c)
	if err != nil {
		return err
	}
	op.Cancel()
	return c.Done()
}
