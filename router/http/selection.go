package http

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
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
	if err := a.mayOperate(c, in, &b.Jobs); err != nil {
		return b, err
	}
	jobs := b.Jobs
	b.May = func() error {
		now := &call{By: c.By, caller: c.caller, client: c.client, operates: true}
		now.Sees = a.sees(now)
		return a.mayOperate(now, in, &jobs)
	}
	if t, ok := b.Action.(admin.Transfer); ok {
		limit := a.transferLimit(c.By, t.To, t.Copy)
		t.Limit = func(ctx context.Context, jobs []core.JobRow) error {
			if t.Copy {
				if err := a.payLater(ctx, c.By, len(jobs)); err != nil {
					return err
				}
			}
			return limit(ctx, jobs)
		}
		b.Action = t
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

// mayOperate checks the rights that an operation on q needs.
func (a *API) mayOperate(c *call, in *wire.NewOperation, q *admin.JobQuery) error {
	err := a.mayOnJobs(c, access.Manage, q)
	if err == nil && in.To != nil {
		err = a.mayOn(c, access.Put, *in.To)
	}
	if err == nil && in.Select.Contains != "" {
		err = maySee(c, access.Full) // guesses reveal bodies
	}
	return err
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

const (
	containsMost = 1024    // bytes of the parameter contains
	olderMost    = 1 << 32 // seconds of the parameter older_than: no job is so old
)

// orders are the orders of job lists.
var orders = map[string]admin.Order{"scan": admin.Scan, "next": admin.Next, "oldest": admin.Oldest, "newest": admin.Newest}

// getTubeJobs lists jobs of a tube.
func (a *API) getTubeJobs(c *call) error {
	order := c.Query.one("order", "scan", "next", "oldest", "newest")
	return a.listJobs(c, &admin.JobQuery{Tube: tubeOf(c), Order: orders[order]})
}

// getJobs lists jobs of all tubes.
func (a *API) getJobs(c *call) error {
	return a.listJobs(c, &admin.JobQuery{AllTubes: true, Only: c.onlySeen()})
}

func (a *API) listJobs(c *call, jobs *admin.JobQuery) error {
	q := &c.Query
	how, err := readJobQuery(c, jobs)
	if err != nil {
		return err
	}
	list := a.jobListOf(c)
	var from *admin.Place
	if q.Has("after") {
		if jobs.Order == admin.Next {
			return wire.BadRequest.With("after", "the order next has only one page", "omit it, or give order=oldest or order=scan")
		}
		if from, err = list.read(q.Get("after")); err != nil {
			return err
		}
	}
	part, err := a.jobPart(c, jobs, from)
	if err != nil {
		return err
	}
	out := wire.Jobs{Jobs: make([]wire.Job, 0, len(part.Rows)), Looked: part.Looked, AsOf: part.At.UTC()}
	if part.Next != nil {
		out.Next = list.write(part.Next)
	}
	for i := range part.Rows {
		row := &part.Rows[i]
		v := row.Value()
		if how != "none" {
			v.Content = wire.NewContent(row.Body, int(row.Size))
		}
		out.Jobs = append(out.Jobs, v)
	}
	return c.answer(http.StatusOK, out)
}

// jobPart reads a part of a list. An order that reads more jobs than it shows takes a slot.
func (a *API) jobPart(c *call, jobs *admin.JobQuery, from *admin.Place) (*admin.JobPart, error) {
	if jobs.Order != admin.Next {
		leave, err := a.heavy.take(c.Ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	return a.op.Jobs(c.Ctx, jobs, from)
}

// readJobQuery reads the parameters except order and after. It returns how bodies are shown.
func readJobQuery(c *call, jobs *admin.JobQuery) (how string, err error) {
	q, f := &c.Query, &jobs.Filter
	readStates(q, jobs)
	jobs.Limit = int(q.number("limit", listDefault, 1, listMost))
	jobs.OlderThan = core.Time(q.number("older_than", 0, 0, olderMost)) * core.Second
	f.MinID = core.JobID(q.number("id_min", 0, 0, math.MaxUint64))
	f.MaxID = core.JobID(q.number("id_max", 0, 1, math.MaxUint64))
	if q.err != nil {
		return "", q.err
	}
	if q.Has("contains") {
		f.Contains = []byte(q.Get("contains"))
		if n := len(f.Contains); n == 0 || n > containsMost {
			return "", wire.BadRequest.With("contains", fmt.Sprintf("it has %d bytes", n), fmt.Sprintf("give 1 to %d", containsMost))
		}
		if err := maySee(c, access.Full); err != nil { // guesses reveal bodies
			return "", err
		}
	}
	if jobs.Order == admin.Next {
		for _, name := range []string{"contains", "id_min", "id_max", "older_than"} {
			if q.Has(name) {
				return "", wire.BadRequest.With(name, "the order next has no filter", "omit it, or give order=oldest or order=scan")
			}
		}
	}
	how, jobs.Body, err = readShown(c)
	return how, err
}

// readStates reads the parameter state. Only the order scan accepts several states.
func readStates(q *query, jobs *admin.JobQuery) {
	jobs.State = core.Ready
	if !q.Has("state") {
		return
	}
	list, err := statesOf(strings.Split(q.Get("state"), ","))
	switch {
	case err != nil:
		q.err = cmp.Or(q.err, err)
	case jobs.Order == admin.Scan:
		jobs.Filter.States = core.StatesOf(list...)
	case len(list) != 1 || list[0] == core.Reserved:
		q.refuse("state", "this order needs one of ready, delayed and buried", "give one of them, or order=scan")
	default:
		jobs.State = list[0]
	}
}

// statesOf finds states by their names.
func statesOf(names []string) (list []core.State, err error) {
next:
	for _, name := range names {
		for _, state := range []core.State{core.Ready, core.Delayed, core.Reserved, core.Buried} {
			if name == state.String() {
				list = append(list, state)
				continue next
			}
		}
		return nil, wire.BadRequest.With("state", fmt.Sprintf("%q is unknown", name), "give ready, delayed, reserved or buried; a scan takes several, separated by commas")
	}
	return list, nil
}

// A jobList identifies a list of jobs, for its cursors.
type jobList struct {
	boot string // of the process: a cursor is valid in one process only
	list string // hash of all parameters that the list depends on
}

func (a *API) jobListOf(c *call) jobList {
	parts := []string{a.boot, tubeOf(c)}
	for _, name := range []string{"order", "state", "contains", "id_min", "id_max", "older_than"} {
		parts = append(parts, name+"="+c.Query.Get(name))
	}
	return jobList{a.boot, hashed(parts...)}
}

// The sizes of the parts of a cursor, in bytes: the process, the list, the place, and an HMAC.
const (
	placeBoot = 8
	placeList = 24
	placeSize = 8 * (5 + len(core.Cursor{}.Near))
	placeMAC  = 12
)

// process returns the cursor's first part.
func (l jobList) process() []byte { return []byte(hashed(l.boot, "cursor")[:placeBoot]) }

func (l jobList) mac(b []byte) []byte {
	h := hmac.New(sha256.New, []byte(l.boot))
	h.Write(b)
	return h.Sum(nil)[:placeMAC]
}

// write returns a place as a cursor.
func (l jobList) write(p *admin.Place) string {
	words := []uint64{uint64(p.Shard), uint64(p.Begun), p.At, uint64(p.Since), uint64(p.Last)}
	for _, id := range p.Near {
		words = append(words, uint64(id))
	}
	b, _ := binary.Append(append(l.process(), l.list...), binary.BigEndian, words) // numbers always fit
	return base64.RawURLEncoding.EncodeToString(append(b, l.mac(b)...))
}

// read reads a cursor that this process has made for this list.
func (l jobList) read(text string) (*admin.Place, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != placeBoot+placeList+placeSize+placeMAC {
		return nil, noCursor()
	}
	if !bytes.Equal(b[:placeBoot], l.process()) {
		return nil, wire.CursorExpired.With("after", "the cursor is from another process", wire.CursorExpired.Remedy)
	}
	signed := len(b) - placeMAC
	if !hmac.Equal(b[signed:], l.mac(b[:signed])) {
		return nil, noCursor()
	}
	if string(b[placeBoot:placeBoot+placeList]) != l.list {
		return nil, wire.BadRequest.With("after", "the cursor belongs to another list", "change only limit and body between pages, or begin again without after")
	}
	words := make([]uint64, placeSize/8)
	binary.Decode(b[placeBoot+placeList:], binary.BigEndian, words) // the length was checked
	p := &admin.Place{Shard: int(words[0]), Begun: core.Time(words[1])}
	p.At, p.Since, p.Last = words[2], core.Time(words[3]), core.JobID(words[4])
	for i := range p.Near {
		p.Near[i] = core.JobID(words[5+i])
	}
	return p, nil
}

func noCursor() error {
	return wire.BadRequest.With("after", "it is not a cursor", "give the value of next in the previous answer, with the same parameters")
}
