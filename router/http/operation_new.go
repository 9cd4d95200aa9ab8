package http

import (
	"fmt"
	"math"
	"net/url"
	"strconv"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// idsMost ids may be given at once.
const idsMost = 10_000

// An actionMaker makes the action that is asked for, or says what is wrong with that.
type actionMaker func(in *wire.NewOperation) (admin.Action, error)

// actions are what can be done to many jobs, by their names in requests.
var actions = map[string]actionMaker{
	"delete":  byVerb(core.VerbDelete),
	"kick":    byVerb(core.VerbKick),
	"bury":    byVerb(core.VerbBury),
	"release": release,
	"set":     set,
	"move":    transfer,
	"copy":    transfer,
}

// byVerb makes actions that need nothing but their name.
func byVerb(v core.Verb) actionMaker {
	return func(in *wire.NewOperation) (admin.Action, error) {
		if err := setsNothing(in); err != nil {
			return nil, err
		}
		return admin.Verb{Action: core.Action{Verb: v, Force: in.Force}}, nil
	}
}

// setsNothing refuses what is to be set by actions that set nothing.
func setsNothing(in *wire.NewOperation) error {
	if changes, err := setOf(&in.Set); changes.Changes != 0 || err != nil {
		return wire.Invalid.With("set", fmt.Sprintf("to %s sets nothing", in.Action), "leave it out, or give the action set")
	}
	return nil
}

// transfer moves or copies jobs.
func transfer(in *wire.NewOperation) (admin.Action, error) {
	switch {
	case in.To == nil:
		return nil, noTarget()
	case in.Force:
		return nil, wire.Invalid.With("force", "what workers have cannot be moved", "leave it out; release the jobs first")
	}
	return admin.Transfer{To: *in.To, Copy: in.Action == "copy"}, setsNothing(in)
}

// release takes jobs from the workers that have them: it is about no others.
func release(in *wire.NewOperation) (admin.Action, error) {
	forced := *in
	forced.Force = true
	return byVerb(core.VerbRelease)(&forced)
}

func set(in *wire.NewOperation) (admin.Action, error) {
	a, err := setOf(&in.Set)
	if err != nil {
		return nil, err
	}
	if a.Changes == 0 {
		return nil, wire.Invalid.With("set", "nothing is to be set", "give set with pri, delay_seconds or ttr_seconds")
	}
	a.Verb, a.Force = core.VerbSet, in.Force
	return admin.Verb{Action: a}, nil
}

// setOf is what is to be set.
func setOf(in *wire.SetJobs) (a core.Action, err error) {
	for name, body := range map[string][]byte{"set.body": in.Body, "set.body_base64": in.BodyBase64} {
		if body != nil {
			return a, wire.Invalid.With(name, "many jobs cannot be given a body", "change the body of one job: PATCH /api/v1/jobs/{id}")
		}
	}
	for _, p := range []struct {
		change core.Changes
		from   *uint32
		to     *uint32
	}{{core.ChangePri, in.Pri, &a.Pri}, {core.ChangeDelay, in.DelaySeconds, &a.Delay}, {core.ChangeTTR, in.TTRSeconds, &a.TTR}} {
		if p.from != nil {
			*p.to = *p.from
			a.Changes |= p.change
		}
	}
	a.TTR = max(1, a.TTR) // as for put
	return a, nil
}

// bulkOf is what is asked for.
func (a *API) bulkOf(c *Call, in *wire.NewOperation) (b admin.Bulk, err error) {
	makes := actions[in.Action]
	if makes == nil {
		return b, wire.Invalid.With("action", fmt.Sprintf("%q is unknown", in.Action), "give delete, kick, bury, release, set, move or copy")
	}
	if b.Action, err = makes(in); err != nil {
		return b, err
	}
	if _, ok := b.Action.(admin.Transfer); in.To != nil && !ok {
		return b, wire.Invalid.With("to", fmt.Sprintf("to %s takes no tube", in.Action), "leave it out, or give the action move or copy")
	}
	if err := selected(&in.Select, &b); err != nil {
		return b, err
	}
	if in.Select.Contains != "" {
		if err := maySee(c, access.Full); err != nil { // to guess is to see
			return b, err
		}
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

// selected reads which jobs are meant.
func selected(in *wire.Selection, b *admin.Bulk) error {
	q := &b.Jobs
	named := 0
	for _, given := range []bool{in.Tube != nil, in.TubePath != nil, in.AllTubes} {
		if given {
			named++
		}
	}
	switch {
	case named > 1:
		return wire.Invalid.With("select.tube", "tubes are named in several ways", "give one of tube, tube_path and all_tubes")
	case named == 0 && in.IDs == nil:
		return wire.Invalid.With("select.tube", "no tube is named", "give the name of a tube, or all_tubes: true, or ids")
	case in.Tube != nil:
		q.Tube = *in.Tube
	case in.TubePath != nil:
		var err error
		if q.Tube, err = url.PathUnescape(*in.TubePath); err != nil {
			return wire.Invalid.With("select.tube_path", err.Error(), "give what answers have as path, or as tube_path")
		}
	default:
		q.AllTubes = true
	}
	if err := readIDs(in.IDs, b); err != nil {
		return err
	}
	list, err := statesOf(in.States)
	if err != nil {
		return wire.Invalid.With("select.states", fmt.Sprintf("one of %q is unknown", in.States), "give some of ready, delayed, reserved and buried")
	}
	if len(in.Contains) > containsMost {
		return wire.Invalid.With("select.contains", "it is too long", fmt.Sprintf("give at most %d bytes", containsMost))
	}
	q.Filter = core.Filter{States: core.StatesOf(list...), MinID: core.JobID(in.MinID), MaxID: core.JobID(in.MaxID), Contains: []byte(in.Contains)}
	q.OlderThan = core.Time(in.OlderThanSeconds) * core.Second
	return nil
}

func readIDs(ids []string, b *admin.Bulk) error {
	if ids == nil {
		return nil
	}
	if n := len(ids); n == 0 || n > idsMost {
		return wire.Invalid.With("select.ids", fmt.Sprintf("there are %d", n), fmt.Sprintf("give 1 to %d ids, or a filter that selects the jobs", idsMost))
	}
	b.IDs = make([]core.JobID, len(ids))
	for i, text := range ids {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return wire.Invalid.With(fmt.Sprintf("select.ids[%d]", i), fmt.Sprintf("%q is no id of a job", text[:min(len(text), 40)]), "give whole numbers from 1 on, as strings")
		}
		b.IDs[i] = core.JobID(n)
	}
	return nil
}
