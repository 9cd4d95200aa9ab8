package http

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// idsMost is the largest number of ids in an operation.
const idsMost = 10_000

// verbs are the actions of operations except move and copy. A release is always forced, since
// it takes jobs from their workers.
var verbs = map[string]core.Verb{
	"delete": core.VerbDelete, "kick": core.VerbKick, "bury": core.VerbBury, "release": core.VerbRelease, "set": core.VerbSet,
}

// actionOf reads action, set, to and force.
func actionOf(in *wire.NewOperation) (admin.Action, error) {
	verb, ok := verbs[in.Action]
	transfer := in.Action == "move" || in.Action == "copy"
	set, err := setOf(&in.Set)
	switch {
	case !ok && !transfer:
		return nil, wire.Invalid.With("action", fmt.Sprintf("%q is unknown", in.Action), "give delete, kick, bury, release, set, move or copy")
	case transfer && in.To == nil:
		return nil, noTarget()
	case transfer && in.Force:
		return nil, wire.Invalid.With("force", "reserved jobs cannot be moved or copied", "omit it; release the jobs first")
	case in.Action != "set" && (set.Changes != 0 || err != nil):
		return nil, wire.Invalid.With("set", fmt.Sprintf("%s sets nothing", in.Action), "omit it, or give the action set")
	case err != nil:
		return nil, err
	case in.Action == "set" && set.Changes == 0:
		return nil, wire.Invalid.With("set", "there is nothing to set", "give set with pri, delay_seconds or ttr_seconds")
	case !transfer && in.To != nil:
		return nil, wire.Invalid.With("to", fmt.Sprintf("%s takes no tube", in.Action), "omit it, or give the action move or copy")
	case transfer:
		return admin.Transfer{To: *in.To, Copy: in.Action == "copy"}, nil
	case in.Action != "set":
		set = core.Action{}
	}
	set.Verb, set.Force = verb, in.Force || verb == core.VerbRelease
	return admin.Verb{Action: set}, nil
}

// noTarget is the problem of a move or a copy without a tube.
func noTarget() error {
	return wire.Invalid.With("to", "it is missing", "give the name of a tube; it is created if it does not exist")
}

// setOf reads set.
func setOf(in *wire.SetJobs) (a core.Action, err error) {
	for name, body := range map[string][]byte{"set.body": in.Body, "set.body_base64": in.BodyBase64} {
		if body != nil {
			return a, wire.Invalid.With(name, "an operation cannot change bodies", "change the body of one job: PATCH /api/v1/jobs/{id}")
		}
	}
	a.Changes = changesOf(in.Pri, in.DelaySeconds, in.TTRSeconds, &a.Pri, &a.Delay, &a.TTR)
	return a, nil
}

// changesOf copies the values that are not nil, and returns which ones it has copied. A time to
// run is at least one second, as for put.
func changesOf(pri, delay, ttr, toPri, toDelay, toTTR *uint32) (changes core.Changes) {
	for _, p := range []struct {
		change   core.Changes
		from, to *uint32
	}{{core.ChangePri, pri, toPri}, {core.ChangeDelay, delay, toDelay}, {core.ChangeTTR, ttr, toTTR}} {
		if p.from != nil {
			*p.to = *p.from
			changes |= p.change
		}
	}
	*toTTR = max(1, *toTTR)
	return changes
}

// bulkOf reads a whole operation.
func (a *API) bulkOf(c *call, in *wire.NewOperation) (b admin.Bulk, err error) {
	if b.Action, err = actionOf(in); err != nil {
		return b, err
	}
	if err := readSelection(&in.Select, &b); err != nil {
		return b, err
	}
	if in.Select.Contains != "" {
		if err := maySee(c, access.Full); err != nil { // guesses reveal bodies
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

// readSelection reads which jobs are meant.
func readSelection(in *wire.Selection, b *admin.Bulk) error {
	q := &b.Jobs
	named := 0
	for _, given := range []bool{in.Tube != nil, in.TubePath != nil, in.AllTubes} {
		if given {
			named++
		}
	}
	switch {
	case named > 1:
		return wire.Invalid.With("select.tube", "several of tube, tube_path and all_tubes are given", "give one of them")
	case named == 0 && in.IDs == nil:
		return wire.Invalid.With("select.tube", "no tube is named", "give the name of a tube, or all_tubes: true, or ids")
	case in.Tube != nil:
		q.Tube = *in.Tube
	case in.TubePath != nil:
		var err error
		if q.Tube, err = url.PathUnescape(*in.TubePath); err != nil {
			return wire.Invalid.With("select.tube_path", err.Error(), "give the path or tube_path of an answer")
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
		return wire.Invalid.With("select.ids", fmt.Sprintf("there are %d ids", n), fmt.Sprintf("give 1 to %d ids, or a filter that selects the jobs", idsMost))
	}
	b.IDs = make([]core.JobID, len(ids))
	for i, text := range ids {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return wire.Invalid.With(fmt.Sprintf("select.ids[%d]", i), fmt.Sprintf("%q is not the id of a job", text[:min(len(text), 40)]), "give whole numbers from 1 on, as strings")
		}
		b.IDs[i] = core.JobID(n)
	}
	return nil
}

// asOfBoot is the length of the process's mark in an as_of.
const asOfBoot = 8

// asOfText returns a moment as text. It has the time of day, which is valid after a restart, and
// the exact moment, which is valid in this process only, even if the clock is set meanwhile:
//
//	2026-11-22T06:33:00.123456789Z.1f2e3d4c18a9e95de7
//	└─ time of day                 └─ process
//	                                       └─ moment, hexadecimal
func (a *API) asOfText(t core.Time) string {
	return a.op.DayOf(t).Format(time.RFC3339Nano) + "." + a.asOfProcess() + strconv.FormatInt(int64(t), 16)
}

func (a *API) asOfProcess() string { return hashed(a.boot, "as_of")[:asOfBoot] }

// readAsOf reads a text of asOfText, made by this process or an earlier one, or a time of day.
func (a *API) readAsOf(text string) (core.Time, error) {
	const given = "give the as_of of the dry run"
	unfit := func(why, remedy string) error { return wire.Invalid.With("as_of", why, remedy) }
	day, exact, ours := strings.Cut(text, "Z.")
	if ours {
		day += "Z"
		if digits, ok := strings.CutPrefix(exact, a.asOfProcess()); ok {
			n, err := strconv.ParseInt(digits, 16, 64)
			if err != nil || n == 0 || core.Time(n) > a.op.Moment() {
				return 0, unfit("it is not a moment", given)
			}
			return core.Time(n), nil
		}
	}
	at, err := time.Parse(time.RFC3339Nano, day)
	if err != nil {
		return 0, unfit("it is not a moment", given+", a time such as 2026-01-31T12:00:00Z, or omit it")
	}
	if at.Year() < 1970 { // times are nanoseconds since then
		return 0, unfit("it is before 1970", given+", or omit it")
	}
	if now := a.op.Moment(); at.After(a.op.DayOf(now)) {
		return 0, unfit("it is in the future", given+", or omit it")
	}
	return a.op.AtDay(at), nil
}
