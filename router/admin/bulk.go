package admin

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

const (
	// bulkStep is the largest number of jobs that a visit finds or transfers.
	bulkStep = 256
	// unsettledMost is the number of steps that may wait for the disk before the operation
	// waits, too. It bounds the backlog if the disk is slower than the shards.
	unsettledMost = 16
	// commitWithin is the timeout for the journal to acknowledge the last changes, and
	// cancelWithin the timeout after the operation was cancelled: then its caller waits.
	commitWithin = 20 * time.Second
	cancelWithin = 500 * time.Millisecond
)

// A Bulk is an action on many jobs. They are all jobs that Jobs selects (by Tube or AllTubes,
// Filter and OlderThan only), and with IDs only the jobs with these ids. It skips jobs that
// entered their state after AsOf. So it changes only jobs that a dry run with the same Jobs, IDs
// and AsOf counts.
type Bulk struct {
	Jobs   JobQuery
	IDs    []core.JobID // nil: all
	Action Action
	AsOf   core.Time // zero: the moment when it begins; see Operator.Moment
	DryRun bool      // only count the jobs by result
	// AtMost is the largest expected number of jobs. The jobs are counted first, and nothing is
	// changed if there are more.
	AtMost uint64 // math.MaxUint64: any number
	Limit  uint64 // largest number of selected jobs to act on; zero: all
	// May returns a problem once the client has lost a right that the Bulk needs. Each step asks it;
	// nil: the client may do everything.
	May func() error
}

// goesOn returns nil, or the problem that ends b before its next step.
func (b *Bulk) goesOn(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return stopped(ctx)
	case b.May != nil:
		return b.May()
	}
	return nil
}

// A Tally is the progress of a Bulk.
type Tally struct {
	ToLook  uint64 // jobs to examine, approximately; twice as many if they are counted first
	Looked  uint64 // examined jobs
	Matched uint64 // selected jobs
	Done    uint64 // changed jobs, durably
	// Unconfirmed jobs were changed, and wait for the journal. After the end, they are the jobs
	// that the journal has not confirmed in time.
	Unconfirmed uint64
	// Skipped counts, by reason, the jobs that were not changed, or would not be in a dry run.
	// An id without a job counts as StatusNotFound here, and is not Matched.
	Skipped  map[core.Status]uint64
	Selected *uint64 // selected jobs, if they were counted first
	AsOf     core.Time
}

// A Progress holds the Tally of a running Bulk. Any goroutine may read it at any time.
type Progress struct {
	mu sync.Mutex
	t  Tally
}

// Tally returns a copy of the tally.
func (p *Progress) Tally() Tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.t
	t.Skipped = maps.Clone(p.t.Skipped)
	return t
}

func (p *Progress) change(f func(t *Tally)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.t)
}

// Moment returns a value for Bulk.AsOf that includes all jobs that have entered their state by
// now, and no later ones. It is just before now, since a shard may still make a change with the
// time now.
func (o *Operator) Moment() core.Time { return o.opts.Host.Clock.Now() - 1 }

// RunBulk runs b and updates p. It returns nil once all changes are durable, or a problem. The
// changes before a problem stay; another run of b with the same AsOf makes the rest. The end of
// ctx cancels b between two visits; RunBulk returns the cause of ctx if that is a problem.
func (o *Operator) RunBulk(ctx context.Context, b *Bulk, p *Progress) error {
	r := &bulkRun{o: o, b: b, p: p}
	if r.asOf = b.AsOf; r.asOf == 0 {
		r.asOf = o.Moment()
	}
	p.change(func(t *Tally) { t.AsOf, t.Skipped = r.asOf, make(map[core.Status]uint64) })
	err := r.why(ctx, r.settleAll(ctx, r.run(ctx)))
	o.countBulk(b, p, err)
	return err
}

// countBulk counts a Bulk that has ended, unless it was a dry run.
func (o *Operator) countBulk(b *Bulk, p *Progress, err error) {
	if b.DryRun {
		return
	}
	t := p.Tally()
	var left uint64
	for _, n := range t.Skipped {
		left += n
	}
	o.counts.add(b.Action.Name(), t.Done, left, err)
}

// A bulkRun is a running Bulk.
type bulkRun struct {
	o    *Operator
	b    *Bulk
	p    *Progress
	asOf core.Time

	// The steps that wait for the journal: their number, the last commit, and the changed jobs.
	steps        int
	commit, jobs uint64
}

// why returns the problem of an operation that has ended with err. After the end of ctx, it is
// the problem of a cancelled operation.
func (r *bulkRun) why(ctx context.Context, err error) error {
	switch done := r.p.Tally().Done; {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return stopped(ctx)
	case r.o.opts.Life.Failure() == "" && r.o.opts.Life.Phase() == Stopping:
		return wire.Cancelled.Problem("the server stops")
	case wire.DiskFull.Is(err) && done > 0:
		return wire.DiskFull.Problem(fmt.Sprintf("%d jobs were changed before the disk was full", done))
	}
	return err
}

// stopped returns the problem of an operation that was cancelled by ctx.
func stopped(ctx context.Context) error {
	if p, ok := context.Cause(ctx).(*wire.Problem); ok {
		return p
	}
	return wire.Cancelled.Problem("the server stops")
}

// run runs the operation. Its last changes may not be durable yet.
func (r *bulkRun) run(ctx context.Context) error {
	transfer, transfers := r.b.Action.(Transfer)
	if transfers {
		if err := transfer.check(ctx, r.o, r.b.Jobs.Tube); err != nil {
			return err
		}
	}
	s, err := r.o.newSelection(ctx, r.b, r.asOf)
	if err != nil {
		return err
	}
	counts := !r.b.DryRun && r.b.AtMost != math.MaxUint64
	r.p.change(func(t *Tally) {
		if t.ToLook = s.toLook; counts {
			t.ToLook *= 2
		}
	})
	if counts {
		if err := r.count(ctx, s); err != nil {
			return err
		}
		s.rewind()
	}
	if transfers && !r.b.DryRun {
		return r.transferAll(ctx, s)
	}
	for more, goOn := true, true; more && goOn; {
		if more, err = s.visit(ctx); err != nil {
			return err
		}
		var rows []core.JobRow
		if rows, goOn = r.match(s); r.b.DryRun || len(rows) == 0 {
			continue
		}
		if err := r.act(ctx, s.step(rows)); err != nil {
			return err
		}
	}
	return nil
}

// count counts the selected jobs. It returns a problem if there are more than expected.
func (r *bulkRun) count(ctx context.Context, s *selection) (err error) {
	var n uint64
	for more := true; more; {
		if more, err = s.visit(ctx); err != nil {
			return err
		}
		n += uint64(len(s.rows))
		r.p.change(func(t *Tally) { t.Looked += uint64(s.x.Looked) })
	}
	r.p.change(func(t *Tally) { t.Selected = &n })
	if n > r.b.AtMost {
		return wire.MoreThanExpected.Problem(fmt.Sprintf("%d jobs are selected, but at most %d are expected", n, r.b.AtMost))
	}
	return nil
}

// match counts the jobs that a visit has found, and returns the jobs to act on. goOn is false
// once the limit is reached.
func (r *bulkRun) match(s *selection) (rows []core.JobRow, goOn bool) {
	b := r.b
	rows = s.rows
	r.p.change(func(t *Tally) {
		if b.Limit > 0 {
			rows = rows[:min(uint64(len(rows)), b.Limit-t.Matched)]
		}
		t.Looked += uint64(s.x.Looked)
		t.Matched += uint64(len(rows))
		goOn = b.Limit == 0 || t.Matched < b.Limit
		if s.missing > 0 {
			t.Skipped[core.StatusNotFound] += s.missing
		}
		for i := range rows {
			if !b.DryRun {
				break
			}
			if why := b.Action.Foresee(&rows[i]); why != core.StatusOK {
				t.Skipped[why]++
			}
		}
	})
	return rows, goOn
}

// act runs the action on a step.
func (r *bulkRun) act(ctx context.Context, step *Step) error {
	err := r.b.Action.Do(ctx, r.o, step)
	var n uint64
	r.p.change(func(t *Tally) {
		for _, why := range step.Results {
			if why == core.StatusOK {
				n++
			} else {
				t.Skipped[why]++
			}
		}
		t.Unconfirmed += n
	})
	r.steps, r.commit, r.jobs = r.steps+1, max(r.commit, step.Commit), r.jobs+n
	r.settle()
	if err == nil && r.steps >= unsettledMost {
		err = r.o.opts.Gate.Committed(ctx, r.o.journal(), r.commit)
		r.settle()
	}
	return err
}

// settle counts the changes as done if all are durable.
func (r *bulkRun) settle() {
	if j := r.o.journal(); j != nil {
		if j.CommitHere(); j.Acked() < r.commit {
			return
		}
	}
	r.p.change(func(t *Tally) {
		t.Done += r.jobs
		t.Unconfirmed -= r.jobs
	})
	r.steps, r.jobs = 0, 0
}

// settleAll waits until all changes are durable. It returns err, or a problem if the journal has
// not acknowledged the changes in time.
func (r *bulkRun) settleAll(ctx context.Context, err error) error {
	if r.steps == 0 {
		return err
	}
	late := r.o.lastCommit(ctx, r.commit)
	r.settle()
	if err == nil {
		err = late
	}
	return err
}

// lastCommit waits for the last commit of an operation: at most commitWithin, and after the end
// of ctx at most cancelWithin.
func (o *Operator) lastCommit(ctx context.Context, commit uint64) error {
	wait, stop := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cancelWithin, stop) })()
	return o.committed(wait, commit)
}

// An Action is what a Bulk does to its jobs: a Verb or a Transfer. Only one Bulk may use an
// Action at a time.
type Action interface {
	// Name is the action's name in requests, replies and metrics.
	Name() string
	// Foresee returns the result of the action for a dry run: core.StatusOK, or the reason why
	// the job in row would be skipped.
	Foresee(row *core.JobRow) core.Status
	// Do acts on the jobs of a step, in bounded visits with Operator.rest in between. It
	// reserves space in the journal before it changes anything. After an error, jobs without
	// an entry in Step.Results are unchanged.
	Do(ctx context.Context, o *Operator, s *Step) error
}

// A Step has some jobs of one shard to act on. It is valid until Do returns.
type Step struct {
	Shard  int
	Rows   []core.JobRow // the jobs when they were found
	Filter core.Filter   // jobs that no longer match are skipped with core.StatusUnwanted

	Results []core.Status // for each row: core.StatusOK, or why the job was skipped
	Commit  uint64        // the commit that the results depend on; zero: none
}

// did adds the commit of a visit to s.Commit.
func (s *Step) did(commit uint64) { s.Commit = max(s.Commit, commit) }

// A Verb is an Action of the core. It cannot set a body: all jobs would get the same body.
type Verb struct{ core.Action }

// Name implements Action.
func (v Verb) Name() string {
	switch v.Verb {
	case core.VerbDelete:
		return "delete"
	case core.VerbKick:
		return "kick"
	case core.VerbBury:
		return "bury"
	case core.VerbRelease:
		return "release"
	case core.VerbSet:
		return "set"
	}
	return ""
}

// Foresee implements Action.
func (v Verb) Foresee(row *core.JobRow) core.Status {
	fits := true
	switch v.Verb {
	case core.VerbKick:
		fits = row.State == core.Buried || row.State == core.Delayed
	case core.VerbBury:
		fits = row.State != core.Buried
	case core.VerbRelease, core.VerbTouch:
		fits = row.State == core.Reserved
	case core.VerbSet:
		fits = row.State == core.Ready || row.State == core.Delayed || v.Changes&core.ChangeDelay == 0
	}
	switch {
	case row.Moving:
		return core.StatusMoving
	case row.State == core.Reserved && !v.Force:
		return core.StatusInUse
	case !fits:
		return core.StatusUnfit
	}
	return core.StatusOK
}

const (
	// actMost is the largest number of jobs in a visit: to delete as many from a heap of a
	// million takes about a quarter of a millisecond.
	actMost = 128
	// wholeMost is the largest number of recorded bytes in a visit, so that it takes about as
	// long as others.
	wholeMost = 256 << 10
)

// Do implements Action. A change of the time to run records whole jobs, which need space in the
// journal.
func (v Verb) Do(ctx context.Context, o *Operator, s *Step) error {
	whole := v.Changes&core.ChangeTTR != 0
	for at := 0; at < len(s.Rows); {
		n, size := at, 0
		for ; n < min(len(s.Rows), at+actMost); n++ {
			if whole {
				next := recorded(&s.Rows[n])
				if n > at && size+next > wholeMost {
					break
				}
				size += next
			}
		}
		act := func() error { return v.act(ctx, o, s, s.Rows[at:n]) }
		var err error
		if v.Verb == core.VerbDelete { // works when the disk is full
			err = act()
		} else {
			err = o.withRoom(ctx, size, act)
		}
		if err != nil {
			return err
		}
		at = n
	}
	for i, why := range s.Results {
		if why != core.StatusUnadmitted || whole {
			continue
		}
		if err := v.admit(ctx, o, s, i); err != nil {
			return err
		}
	}
	return nil
}

// act acts on the next rows of s in one visit.
func (v Verb) act(ctx context.Context, o *Operator, s *Step, rows []core.JobRow) error {
	x := core.OperatorOp{Act: v.Action, Filter: s.Filter}
	err := o.visit(ctx, func(c *direct.Caller) {
		c.Op().ActOnMany(idsOf(rows), &x)
		s.did(c.Do(s.Shard).Commit)
	})
	s.Results = append(s.Results, x.Results...)
	return err
}

// visit calls f, which visits a shard, and then leaves the shard to others with rest.
func (o *Operator) visit(ctx context.Context, f func(c *direct.Caller)) error {
	start := time.Now()
	err := o.run(ctx, func(c *direct.Caller) error {
		f(c)
		return nil
	})
	if err == nil {
		o.rest(start)
	}
	return err
}

func idsOf(rows []core.JobRow) []core.JobID {
	ids := make([]core.JobID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}

// recorded returns an upper bound of the size of a job's record, in bytes.
func recorded(row *core.JobRow) int { return len(row.Tube) + int(row.Size) + claimHead }

// admit acts on the job in row i, which has a large body that needs space in the journal.
func (v Verb) admit(ctx context.Context, o *Operator, s *Step, i int) error {
	row := &s.Rows[i]
	return o.withRoom(ctx, recorded(row), func() error {
		return o.visit(ctx, func(c *direct.Caller) {
			why, commit := actOn(c, row.ID, row.Size, &core.OperatorOp{Act: v.Action, Filter: s.Filter})
			s.Results[i] = why
			s.did(commit)
		})
	})
}
