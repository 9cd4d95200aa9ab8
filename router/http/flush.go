package http

import (
	"fmt"
	"net/http"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// flushTube ends all jobs of a tube that are in some states. Which ones must be said: what is
// gone cannot be had back.
func (a *API) flushTube(c *Call) error {
	q, err := c.Query("state", "dry_run", "as_of")
	if err != nil {
		return err
	}
	const which = "give some of ready, delayed and buried, with commas between them"
	if !q.Has("state") {
		return wire.BadRequest.With("state", "it is not said in which states the jobs are", which)
	}
	list, err := statesOf(strings.Split(q.Get("state"), ","))
	if err != nil {
		return wire.BadRequest.With("state", fmt.Sprintf("%q is none of ready, delayed and buried", q.Get("state")), which)
	}
	f := admin.Flush{Tube: tubeOf(c), States: core.StatesOf(list...)}
	if f.States.Has(core.Reserved) {
		return wire.BadRequest.With("state", "reserved jobs are their workers'", which+"; POST /api/v1/operations deletes reserved jobs if it is forced")
	}
	word, err := one(q, "dry_run", "false", "true")
	if err != nil {
		return err
	}
	if f.DryRun = word == "true"; q.Has("as_of") {
		if f.DryRun {
			return wire.BadRequest.With("as_of", "a dry run is of now", "leave it out, or make the real one")
		}
		if f.AsOf, err = a.readAsOf(q.Get("as_of")); err != nil {
			return err
		}
	}
	n, err := a.op.Flush(c.Ctx, &f)
	if c.Detail = "dry run"; !f.DryRun {
		c.Detail = flushed(f.States)
		c.Affected = n.All()
	}
	if err != nil {
		return err
	}
	v := wire.Flushed{Jobs: n.All(), Ready: n.Ready, Delayed: n.Delayed, Buried: n.Buried, DryRun: f.DryRun}
	if f.DryRun {
		v.AsOf = a.asOfText(n.AsOf)
	}
	return c.Answer(http.StatusOK, v)
}

// flushed says in the audit of which states the jobs were.
func flushed(states core.States) string {
	var detail strings.Builder
	detail.WriteString("states")
	for _, s := range []core.State{core.Ready, core.Delayed, core.Buried} {
		if states.Has(s) {
			detail.WriteString(" " + s.String())
		}
	}
	return detail.String()
}
