package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/shard/core"
)

const (
	// bulkStep is how many jobs are found, or acted on, in a visit at most.
	bulkStep = 256
	// unsettledMost steps may be on their way to the disk: beyond that the disk is waited
	// for, so that whatever is slower than the shards holds a bounded amount.
	unsettledMost = 16
	// commitWithin is how long the journal has for what was done last, and cancelWithin for
	// what was done before the operation was cancelled: who cancels waits for that.
	commitWithin = 20 * time.Second
	cancelWithin = 500 * time.Millisecond
)

// A Bulk is the same to be done to many jobs: those that Jobs selects, of which only Tube or
// AllTubes, Filter and OlderThan count, or of those the ones with some ids. A job is left
// alone that has entered its state after AsOf, so that it touches none but those that were
// counted by a dry run with the same Jobs and IDs.
type Bulk struct {
	Jobs   JobQuery
	IDs    []core.JobID // not nil: only these
	Action Action
	AsOf   core.Time // zero: the moment at which it begins; see Operator.Moment
	DryRun bool      // they are counted alone, with what would become of them
	// AtMost jobs are expected: if more are selected, nothing is changed. To know that they
	// are counted first.
	AtMost uint64 // math.MaxUint64: any number
	Limit  uint64 // jobs of those that are selected; zero: all of them
}

// A Tally is how far a Bulk is.
type Tally struct {
	ToLook  uint64 // jobs to be looked at, about, since others come and go; to count them first is to look twice
	Looked  uint64 // jobs that were looked at
	Matched uint64 // of those, that were selected
	Done    uint64 // of those, that were acted on, and are as safe as the journal makes it
	// Unconfirmed were acted on, and wait for the journal; at the end it has not confirmed
	// them in time.
	Unconfirmed uint64
	// Skipped are those that were not acted on, by the reason; of a dry run that would not
	// be. Ids of which there is no job count as StatusNotFound here, and are not Matched.
	Skipped  map[core.Status]uint64
	Selected *uint64 // how many are, if they were counted first
	AsOf     core.Time
}

// A Progress is the tally of a Bulk that runs. It may be asked by anyone at any time.
type Progress struct {
	mu sync.Mutex
	t  Tally
}

// Tally is a copy of how far it is.
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

// Moment is a value for Bulk.AsOf: what has entered its state by now is meant, and nothing
// that does so later. It lies just before now, since the shard that is visited next may
// have a change of this very moment yet to come.
func (o *Operator) Moment() core.Time { return o.opts.Host.Clock.Now() - 1 }

// RunBulk does b, and tells p how far it is; it returns once all that was done is durable, or
// with a problem. What was done before that stays done, so the same once more, with the same
// AsOf, does what is left. The end of ctx cancels it between two visits; its cause, if that
// is a problem, is what RunBulk returns.
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
	o.deeds.count(b.Action.Name(), t.Done, left, err)
}

// A bulkRun is a Bulk under way.
type bulkRun struct {
	o         *Operator
	b         *Bulk
	p         *Progress
	asOf      core.Time
	unsettled []unsettled // the oldest first
}

// An unsettled step has acted on so many jobs, and depends on a commit.
type unsettled struct{ commit, jobs uint64 }

// why is the problem of an operation that ended with an error: that it was cancelled, if
// that is why.
func (r *bulkRun) why(ctx context.Context, err error) error {
	full, ok := errors.AsType[*wire.Problem](err)
	switch done := r.p.Tally().Done; {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return stopped(ctx)
	case r.o.opts.Life.Failure() == "" && r.o.opts.Life.Phase() == Stopping:
		return wire.Cancelled.Problem("the server ends")
	case ok && full.Type == wire.ProblemPath+wire.DiskFull.Slug && done > 0:
		return wire.DiskFull.Problem(fmt.Sprintf("%d jobs were changed before it was", done))
	}
	return err
}

// stopped is the problem of what ctx has ended.
func stopped(ctx context.Context) error {
	if p, ok := context.Cause(ctx).(*wire.Problem); ok {
		return p
	}
	return wire.Cancelled.Problem("the server ends")
}

// run does it, but for what is on its way to the disk.
func (r *bulkRun) run(ctx context.Context) error {
	g, gathers := r.b.Action.(gathering)
	if gathers {
		if err := g.begin(ctx, r.o, r.b.Jobs.Tube); err != nil {
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
	if gathers && !r.b.DryRun {
		return r.gather(ctx, s)
	}
	for more := true; more; {
		if more, err = s.visit(ctx); err != nil {
			return err
		}
		goOn, err := r.take(ctx, s)
		if err != nil || !goOn {
			return err
		}
	}
	return nil
}

// count finds out whether more jobs are selected than are expected.
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
		return wire.MoreThanExpected.Problem(fmt.Sprintf("%d jobs are selected, and at most %d are expected", n, r.b.AtMost))
	}
	return nil
}

// match counts the jobs that a visit has found, and returns those that are to be acted on. It
// reports whether more may be wanted.
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

// take acts on the jobs that a visit has found. It reports whether more may be wanted.
func (r *bulkRun) take(ctx context.Context, s *selection) (goOn bool, err error) {
	rows, goOn := r.match(s)
	if r.b.DryRun || len(rows) == 0 {
		return goOn, nil
	}
	step := r.step(s)
	step.Rows = rows
	return goOn, r.act(ctx, step)
}

// step begins a step with jobs of the shard that s has visited last.
func (r *bulkRun) step(s *selection) *Step {
	// What a body contains was looked at, and is what it was unless somebody has edited the
	// job since.
	step := &Step{Shard: s.at, Filter: s.x.Filter}
	step.Filter.Contains = nil
	return step
}

// act does a step.
func (r *bulkRun) act(ctx context.Context, step *Step) error {
	err := r.b.Action.Do(ctx, r.o, step)
	r.did(step)
	if err == nil && len(r.unsettled) >= unsettledMost {
		err = r.o.opts.Gate.Committed(ctx, r.o.journal(), r.unsettled[0].commit)
		r.settle()
	}
	return err
}

// did notes what a step has done.
func (r *bulkRun) did(s *Step) {
	var n uint64
	r.p.change(func(t *Tally) {
		for _, why := range s.Results {
			if why == core.StatusOK {
				n++
			} else {
				t.Skipped[why]++
			}
		}
		t.Unconfirmed += n
	})
	r.unsettled = append(r.unsettled, unsettled{s.Commit, n})
	r.settle()
}

// settle counts as done what is durable by now.
func (r *bulkRun) settle() {
	acked := uint64(math.MaxUint64)
	if j := r.o.journal(); j != nil {
		j.CommitHere()
		acked = j.Acked()
	}
	var n uint64
	r.unsettled = slices.DeleteFunc(r.unsettled, func(u unsettled) bool {
		if u.commit <= acked {
			n += u.jobs
		}
		return u.commit <= acked
	})
	r.p.change(func(t *Tally) {
		t.Done += n
		t.Unconfirmed -= n
	})
}

// settleAll waits until all that was done is durable, and returns the error with which it
// ended, or that the disk has not confirmed it in time.
func (r *bulkRun) settleAll(ctx context.Context, err error) error {
	if len(r.unsettled) == 0 {
		return err
	}
	var last uint64
	for _, u := range r.unsettled {
		last = max(last, u.commit)
	}
	wait, stop := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cancelWithin, stop) })()
	late := r.o.opts.Gate.Committed(wait, r.o.journal(), last)
	r.settle()
	if late != nil && err == nil {
		return uncertain()
	}
	return err
}
