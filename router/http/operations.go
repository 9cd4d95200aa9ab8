package http

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// operationSoon is how long an operation may take to be answered as it ended.
const operationSoon = 300 * time.Millisecond

// reasons say why jobs were left alone.
var reasons = map[core.Status]string{
	core.StatusNotFound: "gone", core.StatusUnwanted: "changed", core.StatusInUse: "reserved", core.StatusUnfit: "unfit", core.StatusUnadmitted: "no_room",
	core.StatusMoving: "moving", core.StatusAwaited: "awaited", core.StatusOutOfMemory: "no_memory",
}

// newOperation begins an operation. One that has ended soon is answered as such; of others
// the audit is told when they have.
func (a *API) newOperation(c *Call) error {
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
	c.Detail = detailOf(&in)
	asked := admin.Asked{Bulk: b, Name: c.Grant.Name, Role: c.Grant.Role.String(), Request: c.ID, As: &in, IDs: len(in.Select.IDs), Detail: c.Detail}
	in.Select.IDs = nil
	if text, _ := json.Marshal(&in); len(text) > askedMost { // which it is that is remembered
		return wire.Invalid.With("select", fmt.Sprintf("there are %d bytes besides the ids", len(text)), fmt.Sprintf("give at most %d", askedMost))
	}
	ctx, done, err := a.Background()
	if err != nil {
		return err
	}
	op, err := a.operations.Begin(ctx, asked, done)
	if err != nil {
		done()
		return err
	}
	status := http.StatusOK
	select {
	case <-op.Done():
		c.Affected = op.Tally().Done
	case <-time.After(operationSoon):
		status = http.StatusAccepted
		later := c.Later()
		op.AtEnd(func() { a.operationEnded(op, later) })
	}
	v := a.operationValue(op, c)
	if _, _, err := op.State(); err != nil && v.Done+v.Unconfirmed == 0 {
		a.logCrash(op)
		return err
	}
	// Relative, so that it leads there behind whatever prefix a proxy puts before it.
	c.W.Header().Set("Location", "operations/"+strconv.FormatUint(op.ID, 10))
	return c.Answer(status, v)
}

// operationEnded notes the end of an operation that was answered before it.
func (a *API) operationEnded(op *admin.Operation, later func(status int, affected uint64, detail string)) {
	status := http.StatusOK
	state, ended, err := op.State()
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		status = p.Status
	}
	t := op.Tally()
	later(status, t.Done, fmt.Sprintf("operation %d %s after %v: %s", op.ID, state, ended.Sub(op.Began).Round(time.Millisecond), op.Detail))
	a.logCrash(op)
}

// logCrash notes where an operation has made the server fail.
func (a *API) logCrash(op *admin.Operation) {
	if crash := op.Crash(); crash != "" {
		a.opts.Log.Error("an operation has made the server fail", "operation", op.ID, "request", op.Request, "panic", crash)
	}
}

// askedMost bytes of what is asked for are remembered of an operation.
const askedMost = 64 << 10

// detailMost bytes of a tube's name stand in the audit.
const detailMost = 200

// detailOf says in the audit what was to be done to which jobs.
func detailOf(in *wire.NewOperation) string {
	var b strings.Builder
	b.WriteString(in.Action)
	if in.DryRun {
		b.WriteString(" (dry run)")
	}
	s := &in.Select
	if s.IDs != nil {
		fmt.Fprintf(&b, ", %d ids", len(s.IDs))
	}
	if s.Tube != nil {
		name := wire.ShownName(*s.Tube)
		fmt.Fprintf(&b, ", tube %q", name[:min(len(name), detailMost)])
	}
	if s.TubePath != nil {
		fmt.Fprintf(&b, ", tube %s", (*s.TubePath)[:min(len(*s.TubePath), detailMost)])
	}
	if s.AllTubes {
		b.WriteString(", all tubes")
	}
	if s.States != nil {
		fmt.Fprintf(&b, ", states %s", strings.Join(s.States, " "))
	}
	if s.Contains != "" || s.MinID != 0 || s.MaxID != 0 || s.OlderThanSeconds != 0 {
		b.WriteString(", filtered")
	}
	if in.To != nil {
		name := wire.ShownName(*in.To)
		fmt.Fprintf(&b, ", to tube %q", name[:min(len(name), detailMost)])
	}
	if in.Force {
		b.WriteString(", also what workers have")
	}
	detail := b.String()
	return strings.ToValidUTF8(detail[:min(len(detail), 2*detailMost)], "")
}

// operationValue is how far an operation is, as who asks may see it.
func (a *API) operationValue(op *admin.Operation, c *Call) wire.Operation {
	state, ended, err := op.State()
	t := op.Tally()
	v := wire.Operation{
		ID: op.ID, Name: op.Name, Action: op.As.Action, DryRun: op.Bulk.DryRun, Asked: *op.As, IDs: op.IDs,
		State: state, Began: op.Began.UTC(),
		ToLook: t.ToLook, Looked: t.Looked, Matched: t.Matched, Done: t.Done, Unconfirmed: t.Unconfirmed,
		Skipped: make(map[string]uint64), Selected: t.Selected,
	}
	if v.Asked.Select.Contains != "" && maySee(c, access.Full) != nil {
		v.Asked.Select.Contains = "" // to know what was looked for, and how often it is there, is to see
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

func (a *API) getOperations(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	out := wire.Operations{Operations: []wire.Operation{}}
	for _, op := range a.operations.List() {
		out.Operations = append(out.Operations, a.operationValue(op, c))
	}
	return c.Answer(http.StatusOK, out)
}

// operation finds that in the path.
func (a *API) operation(c *Call) (*admin.Operation, error) {
	if _, err := c.Query(); err != nil {
		return nil, err
	}
	id, err := idOf(c, "an operation", "give one of GET /api/v1/operations")
	if err != nil {
		return nil, err
	}
	if op := a.operations.Find(id); op != nil {
		return op, nil
	}
	return nil, wire.NotFound.Problem(fmt.Sprintf("no operation %d is remembered", id))
}

func (a *API) getOperation(c *Call) error {
	op, err := a.operation(c)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, a.operationValue(op, c))
}

func (a *API) cancelOperation(c *Call) error {
	op, err := a.operation(c)
	if err != nil {
		return err
	}
	c.Detail = op.Detail
	op.Cancel(cancelledBy(c.Grant.Name))
	return c.Done()
}

// cancelledBy says in an operation who has ended it.
func cancelledBy(name string) string {
	if name == "" {
		return "somebody without a token has cancelled it"
	}
	return fmt.Sprintf("the token %q has cancelled it", name)
}
