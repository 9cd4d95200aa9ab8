package admin

import (
	"context"
	"slices"
	"time"

	"polystalk/router/direct"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// An Action is what a Bulk does to the jobs that it has found. It is a value, and is used by
// one Bulk at a time.
type Action interface {
	// Name is that of the action in requests, in answers and in metrics.
	Name() string
	// Foresee says what would become of a job as it was seen: core.StatusOK, or why it would
	// be left alone.
	Foresee(row *core.JobRow) core.Status
	// Do does it to the jobs of a step, in visits that are bounded, with Operator.rest
	// between them. What takes space in the journal asks for it before it changes anything.
	// Jobs that are not in Step.Results after an error were not come to.
	Do(ctx context.Context, o *Operator, s *Step) error
}

// A Step is some jobs of one shard, bulkStep at most or gatheredStep, to be acted on. It is
// good until Do returns.
type Step struct {
	Shard  int
	Rows   []core.JobRow // as they were seen
	Filter core.Filter   // what must still hold of each, or it is left alone as core.StatusUnwanted

	// Results say what became of the rows, in their order: core.StatusOK, or why a job was
	// left alone.
	Results []core.Status
	Commit  uint64 // on which that depends; zero: on none
}

// A Verb is the Action that does what a verb of the core's does, but for a new body: that
// would be the same one for all.
type Verb struct{ core.Action }

// Name implements Action.
func (v Verb) Name() string { return verbActions[v.Verb] }

// Foresee implements Action.
func (v Verb) Foresee(row *core.JobRow) core.Status {
	waits := row.State == core.Ready || row.State == core.Delayed
	fits := true
	switch v.Verb {
	case core.VerbKick:
		fits = row.State == core.Buried || row.State == core.Delayed
	case core.VerbBury:
		fits = row.State != core.Buried
	case core.VerbRelease, core.VerbTouch:
		fits = row.State == core.Reserved
	case core.VerbSet:
		fits = waits || v.Changes&core.ChangeDelay == 0
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

// Do implements Action.
func (v Verb) Do(ctx context.Context, o *Operator, s *Step) error {
	if v.Changes&core.ChangeTTR != 0 {
		return v.doWhole(ctx, o, s)
	}
	if v.Verb != core.VerbDelete { // which goes on when the disk is full
		if err := o.opts.Gate.Room(ctx, o.journal()); err != nil {
			return o.noRoom(err)
		}
	}
	for rows := range slices.Chunk(s.Rows, actMost) {
		if err := v.act(ctx, o, s, rows); err != nil {
			return err
		}
	}
	for i, why := range s.Results {
		if why == core.StatusUnadmitted {
			if err := v.admit(ctx, o, s, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// act does it to some of the rows of s, those that come next.
func (v Verb) act(ctx context.Context, o *Operator, s *Step, rows []core.JobRow) error {
	ids := make([]core.JobID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	x := core.OperatorOp{Act: v.Action, Filter: s.Filter}
	start := time.Now()
	err := o.run(ctx, func(c *direct.Caller) error {
		s.Commit = max(s.Commit, c.ActOnMany(s.Shard, ids, &x))
		return nil
	})
	if err != nil {
		return err
	}
	o.rest(start)
	s.Results = append(s.Results, x.Results...)
	return nil
}

// actMost jobs are acted on in a visit: to delete as many, from a heap of a million, takes
// about a quarter of a millisecond.
const actMost = 128

// wholeMost bytes of bodies are recorded in a visit, so that it is about as long as others.
const wholeMost = 256 << 10

// doWhole does what has jobs recorded as a whole, for which there must be room.
func (v Verb) doWhole(ctx context.Context, o *Operator, s *Step) error {
	for at := 0; at < len(s.Rows); {
		n, size := at, 0
		for ; n < min(len(s.Rows), at+actMost) && (n == at || size+recorded(&s.Rows[n]) <= wholeMost); n++ {
			size += recorded(&s.Rows[n])
		}
		err := o.claimed(ctx, size, func() error { return v.act(ctx, o, s, s.Rows[at:n]) })
		if err != nil {
			return err
		}
		at = n
	}
	return nil
}

// recorded is how many bytes of records a job takes at most.
func recorded(row *core.JobRow) int { return len(row.Tube) + int(row.Size) + claimHead }

// claimed is f, once there is room for so many bytes of records.
func (o *Operator) claimed(ctx context.Context, size int, f func() error) error {
	storage := o.journal()
	if storage == nil {
		return f()
	}
	if err := o.opts.Gate.Room(ctx, storage); err != nil {
		return o.noRoom(err)
	}
	if size > slab.MaxSize { // others come in one piece
		var claim commit.Claim
		if err := o.opts.Gate.Claim(ctx, storage, &claim, int64(size)); err != nil {
			return o.noRoom(err)
		}
		defer storage.Release(&claim)
	}
	return f()
}

// admit does it to a job whose large body is recorded with that, and was not before.
func (v Verb) admit(ctx context.Context, o *Operator, s *Step, i int) error {
	row := &s.Rows[i]
	return o.claimed(ctx, recorded(row), func() error {
		x := core.OperatorOp{Act: v.Action, Filter: s.Filter}
		start := time.Now()
		err := o.run(ctx, func(c *direct.Caller) error {
			why, n := c.ActOn(row.ID, row.Size, &x)
			s.Results[i], s.Commit = why, max(s.Commit, n)
			return nil
		})
		if err == nil {
			o.rest(start)
		}
		return err
	})
}
