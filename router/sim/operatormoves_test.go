package sim

import (
	"context"
	"fmt"
	"math"
	"slices"

	"polystalk/router/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// willBeElsewhere notes that copies of a job may be in any tube.
func (b *operatorClient) willBeElsewhere(j *core.JobView) {
	b.c.alike[string(j.Body)] = true
}

// transfer moves or copies one job. A moved job is gone, and its copy exists.
func (b *operatorClient) transfer(*direct.Caller) error {
	id, to, ctx := core.JobID(b.job()), b.name(), context.Background()
	body := ""
	for _, j := range b.jobs() {
		if j.ID == id {
			b.willBeElsewhere(&j)
			body = string(j.Body)
		}
	}
	a, t := core.Action{Verb: core.VerbTake}, admin.Transfer{To: to}
	if b.rng.IntN(2) == 0 {
		a.Verb, t.Copy = core.VerbRead, true
	}
	b.begins(&a, uint64(id))
	is, err := b.o.Admin.TransferJob(ctx, id, t)
	b.acted[uint64(id)]++
	if err != nil {
		return refusal(err, "not-found", "job-reserved", "job-moved", "awaited", "changed", "invalid")
	}
	if is <= id {
		return fmt.Errorf("the copy of job %d is job %d", id, is)
	}
	b.c.inserted[uint64(is)] = body
	if a.Verb == core.VerbRead {
		b.c.seen["copied elsewhere"]++
		return nil
	}
	b.c.seen["moved"]++
	return b.isGone(uint64(id))
}

// transferMany moves or copies all wanted jobs. The result does not list them; no other jobs may be
// gone.
func (b *operatorClient) transferMany(*direct.Caller) error {
	t := admin.Transfer{To: b.name(), Copy: b.rng.IntN(2) == 0}
	q := admin.JobQuery{Tube: b.name(), Filter: core.Filter{States: core.States(b.rng.IntN(32)), MinID: core.JobID(b.job())}}
	bulk := admin.Bulk{Jobs: q, Action: t, AsOf: b.moment(), AtMost: math.MaxUint64, Limit: uint64(b.rng.IntN(10))}
	a := core.Action{Verb: core.VerbTake}
	if t.Copy {
		a.Verb = core.VerbRead
	}
	would := b.doom(&a, b.wantedBy(&bulk))
	for _, j := range would {
		b.willBeElsewhere(&j)
	}
	var p admin.Progress
	err := b.o.Admin.RunBulk(context.Background(), &bulk, &p)
	tally := p.Tally()
	b.c.seen["moved or copied in bulk"] += int(tally.Done)
	for id := range would {
		b.acted[uint64(id)]++
	}
	if tally.Done > uint64(len(would)) || bulk.Limit > 0 && tally.Matched > bulk.Limit {
		return fmt.Errorf("%+v of %d jobs", tally, len(would))
	}
	return refusal(err, "not-found", "invalid")
}

// wantedBy returns a function that selects the jobs of a Bulk, including delayed jobs that are due.
func (b *operatorClient) wantedBy(bulk *admin.Bulk) func(*core.JobView) bool {
	q := &bulk.Jobs
	wanted := func(j *core.JobView) bool {
		return (bulk.IDs == nil || slices.Contains(bulk.IDs, j.ID)) && (q.AllTubes || j.Tube == q.Tube) && q.Filter.States.Has(j.State) && j.ID >= q.Filter.MinID && j.Since <= bulk.AsOf
	}
	return func(j *core.JobView) bool {
		ready := *j
		ready.State = core.Ready
		return wanted(j) || j.Deadline != 0 && j.Deadline <= bulk.AsOf && wanted(&ready)
	}
}

// isGone notes that an operator has ended a job.
func (b *operatorClient) isGone(id uint64) error {
	if _, put := b.c.inserted[id]; !put {
		b.c.fate(id).cancelled = true
		return nil
	}
	if b.c.deleted[id] {
		return fmt.Errorf("job %d is deleted twice", id)
	}
	b.c.deleted[id] = true
	return nil
}

// flush ends the jobs of a tube in some states that were counted before, and no later ones. The
// twin checks a flush of all jobs.
func (b *operatorClient) flush(*direct.Caller) error {
	f := &admin.Flush{Tube: b.name(), States: core.States(b.rng.IntN(32)) & core.StatesOf(core.Ready, core.Delayed, core.Buried)}
	in := func(j *core.JobView) bool {
		return j.Tube == f.Tube && j.State != core.Reserved && f.States.Has(j.State)
	}
	dry := *f
	dry.DryRun = true
	n, err := b.o.Admin.Flush(context.Background(), &dry)
	if err != nil {
		return refusal(err, "not-found")
	}
	f.AsOf = n.At
	for range b.rng.IntN(10) {
		b.o.turn()
	}
	would := b.doom(&core.Action{Verb: core.VerbDelete}, func(j *core.JobView) bool {
		due := j.Deadline != 0 && j.Deadline <= f.AsOf && j.Tube == f.Tube // nobody has noticed yet
		return j.Since <= f.AsOf && in(j) || due
	})
	b.flushed = true
	if n, err = b.o.Admin.Flush(context.Background(), f); err != nil {
		return refusal(err, "not-found")
	}
	if n.All() > uint64(len(would)) {
		return fmt.Errorf("flush as of %d: %+v of %d", f.AsOf, n, len(would))
	}
	for _, j := range b.jobs() {
		if j.Since <= f.AsOf && in(&j) {
			return fmt.Errorf("flush as of %d: %+v; job %d, %v since %d, is left", f.AsOf, n, j.ID, j.State, j.Since)
		}
	}
	b.c.seen["flushed as of"] += int(n.All())
	return nil
}

// sock returns a socket that has a session, which may be closing, or nil.
func (b *operatorClient) sock() *sock {
	var open []*sock
	for _, k := range b.c.w.socks {
		if !k.s.Gone() {
			open = append(open, k)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return open[b.rng.IntN(len(open))]
}

// kill closes a client at any time. The other checks show that no job is lost or kept by it, as for
// all clients that disappear.
func (b *operatorClient) kill(*direct.Caller) error {
	k := b.sock()
	if k == nil || b.rng.IntN(3) > 0 {
		return nil // not too often
	}
	if k.broken || k.Ended {
		b.c.seen["killed while it closed"]++
	}
	number := k.doom()
	err := b.o.Admin.KillConnection(context.Background(), number)
	switch {
	case err != nil: // it has closed itself, or a timeout of real time has passed on a busy machine
		return refusal(err, "not-found", "busy", "uncertain")
	case !k.s.Gone() || !k.Ended && !k.broken:
		return fmt.Errorf("connection %d is killed, and is not gone: %v, closed %v", number, k.s.Gone(), k.Ended)
	}
	b.c.seen["killed"]++
	if err := b.o.Admin.KillConnection(context.Background(), number); refusal(err, "not-found", "busy") != nil || err == nil {
		return fmt.Errorf("connection %d is killed twice: %v", number, err)
	}
	return nil
}
