package admin

import (
	"context"
	"time"

	"polystalk/router/direct"
	"polystalk/shard/core"
)

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
