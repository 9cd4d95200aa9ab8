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

const (
	// operationSoon is how long an answer waits for the end of its operation.
	operationSoon = 300 * time.Millisecond
	// askedMost is the largest stored request without its ids, in bytes.
	askedMost = 64 << 10
	// detailMost is the longest name of a tube in the audit and in denials, in bytes.
	detailMost = 200
)

// reasons say why jobs were skipped.
var reasons = map[core.Status]string{
	core.StatusNotFound: "gone", core.StatusUnwanted: "changed", core.StatusInUse: "reserved", core.StatusUnfit: "unfit", core.StatusUnadmitted: "no_room",
	core.StatusMoving: "moving", core.StatusAwaited: "awaited", core.StatusOutOfMemory: "no_memory", core.StatusFull: "full",
}

// newOperation begins an operation. If it ends soon, the answer has its result. Otherwise the
// audit gets an entry at its end.
func (a *API) newOperation(c *call, in *wire.NewOperation) error {
	b, err := a.bulkOf(c, in)
	if err != nil {
		return err
	}
	return a.beginOperation(c, in, b)
}

func (a *API) beginOperation(c *call, in *wire.NewOperation, b admin.Bulk) error {
	c.Detail = detailOf(in)
	asked := admin.Asked{Bulk: b, Name: c.By.Name(), Role: c.By.Role(), Request: c.ID, As: in, IDs: len(in.Select.IDs), Detail: c.Detail}
	in.Select.IDs = nil
	if text, _ := json.Marshal(in); len(text) > askedMost {
		return wire.Invalid.With("select", fmt.Sprintf("the request has %d bytes without the ids", len(text)), fmt.Sprintf("give at most %d", askedMost))
	}
	op, err := a.operations.Begin(a.ended, asked, a.running.Go)
	if err != nil {
		return err
	}
	status := http.StatusOK
	select {
	case <-op.Done():
		c.Affected = op.Tally().Done
	case <-time.After(operationSoon):
		status = http.StatusAccepted
		a.running.Go(func() {
			<-op.Done()
			a.operationEnded(op, c)
		})
	}
	v := a.operationValue(op, c)
	if _, _, err := op.State(); err != nil && v.Done+v.Unconfirmed == 0 {
		return err
	}
	c.W.Header().Set("Location", "operations/"+strconv.FormatUint(op.ID, 10)) // relative: a proxy may add a prefix
	return c.answer(status, v)
}

// operationEnded audits the end of an operation that has ended after its answer.
func (a *API) operationEnded(op *admin.Operation, c *call) {
	status := http.StatusOK
	state, ended, err := op.State()
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		status = p.Status
	}
	a.record(c, status, op.Tally().Done, fmt.Sprintf("operation %d %s after %v: %s", op.ID, state, ended.Sub(op.Began).Round(time.Millisecond), op.Detail))
}

// detailOf describes an operation in the audit.
func detailOf(in *wire.NewOperation) string {
	var b strings.Builder
	add := func(when bool, format string, args ...any) {
		if when {
			fmt.Fprintf(&b, format, args...)
		}
	}
	shown := func(name *string) string {
		if name == nil {
			return ""
		}
		text := wire.ShownName(*name)
		return text[:min(len(text), detailMost)]
	}
	s := &in.Select
	b.WriteString(in.Action)
	add(in.DryRun, " (dry run)")
	add(s.IDs != nil, ", %d ids", len(s.IDs))
	add(s.Tube != nil, ", tube %q", shown(s.Tube))
	if s.TubePath != nil {
		add(true, ", tube %s", (*s.TubePath)[:min(len(*s.TubePath), detailMost)])
	}
	add(s.AllTubes, ", all tubes")
	add(s.States != nil, ", states %s", strings.Join(s.States, " "))
	add(s.Contains != "" || s.MinID != 0 || s.MaxID != 0 || s.OlderThanSeconds != 0, ", filtered")
	add(in.To != nil, ", to tube %q", shown(in.To))
	add(in.Force, ", also reserved jobs")
	detail := b.String()
	return strings.ToValidUTF8(detail[:min(len(detail), 2*detailMost)], "")
}

// operationValue returns the progress of an operation, as the client may see it.
func (a *API) operationValue(op *admin.Operation, c *call) wire.Operation {
	state, ended, err := op.State()
	t := op.Tally()
	v := wire.Operation{
		ID: op.ID, Name: op.Name, Action: op.As.Action, DryRun: op.Bulk.DryRun, Asked: *op.As, IDs: op.IDs,
		State: state, Began: op.Began.UTC(),
		ToLook: t.ToLook, Looked: t.Looked, Matched: t.Matched, Done: t.Done, Unconfirmed: t.Unconfirmed,
		Skipped: make(map[string]uint64), Selected: t.Selected,
	}
	if v.Asked.Select.Contains != "" && maySee(c, access.Full) != nil {
		v.Asked.Select.Contains = "" // with the count it would reveal a part of bodies
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

func (a *API) getOperations(c *call) error {
	out := wire.Operations{Operations: []wire.Operation{}}
	for _, op := range a.operations.List() {
		if !c.seesOperation(op) {
			continue
		}
		out.Operations = append(out.Operations, a.operationValue(op, c))
	}
	return c.answer(http.StatusOK, out)
}

// seesOperation reports whether the client may look at the tubes of an operation. It may know the
// name of a target on which it has another verb.
func (c *call) seesOperation(op *admin.Operation) bool {
	jobs := &op.Bulk.Jobs
	if c.By.Everywhere(access.Look) {
		return true
	}
	return !jobs.AllTubes && c.mayLook(jobs.Tube) && (op.As.To == nil || c.By.Verbs([]byte(*op.As.To)) != 0)
}

// operation finds the operation in the path.
func (a *API) operation(c *call) (*admin.Operation, error) {
	id, err := idOf(c, "an operation", "GET /api/v1/operations lists them")
	if err != nil {
		return nil, err
	}
	if op := a.operations.Find(id); op != nil && c.seesOperation(op) {
		return op, nil
	}
	return nil, wire.NotFound.Problem(fmt.Sprintf("there is no operation %d, or it is too old", id))
}

func (a *API) getOperation(c *call) error {
	op, err := a.operation(c)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, a.operationValue(op, c))
}

func (a *API) cancelOperation(c *call) error {
	op, err := a.operation(c)
	if err != nil {
		return err
	}
	c.Detail = op.Detail
	if err := a.mayOnJobs(c, access.Manage, &op.Bulk.Jobs); err != nil {
		return err
	}
	op.Cancel("cancelled by " + c.who())
	return c.done()
}
