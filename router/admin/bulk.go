package admin

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// bulkStep is how many jobs are acted on in a visit.
const bulkStep = 256

// commitWithin is how long the journal has for what was done, also if it was cancelled then.
const commitWithin = 20 * time.Second

// A Bulk is the same to be done to many jobs: those that Jobs selects, of which only Tube or
// AllTubes, Filter and OlderThan count. A job is left alone that has entered its state after
// AsOf, so that it touches none but those that were counted.
type Bulk struct {
	Jobs   JobQuery
	Action core.Action // a verb that needs no room for bodies: neither ChangeTTR nor ChangeBody
	AsOf   core.Time   // zero: the moment at which it begins
	DryRun bool        // they are counted alone
	// AtMost jobs are expected: if there are more, nothing is changed.
	AtMost uint64 // math.MaxUint64: any number
	Limit  uint64 // zero: all of them
}

// A Tally is how far a Bulk is.
type Tally struct {
	Looked  uint64                 // jobs that were looked at
	Matched uint64                 // of those, that were selected
	Done    uint64                 // of those, that were acted on
	Skipped map[core.Status]uint64 // of those, that were not, by the reason
	AsOf    core.Time
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
	t.Skipped = make(map[core.Status]uint64, len(p.t.Skipped))
	for s, n := range p.t.Skipped {
		t.Skipped[s] = n
	}
	return t
}

func (p *Progress) change(f func(t *Tally)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.t)
}

// RunBulk does b, and tells p how far it is; it returns once all that was done is durable, or
// with a problem. What was done before that stays done. The end of ctx cancels it between two
// visits.
func (o *Operator) RunBulk(ctx context.Context, b *Bulk, p *Progress) error {
	err := o.runBulk(ctx, b, p)
	if !b.DryRun {
		t := p.Tally()
		var left uint64
		for _, n := range t.Skipped {
			left += n
		}
		o.deeds.count(verbActions[b.Action.Verb], t.Done, left, err)
	}
	return err
}

func (o *Operator) runBulk(ctx context.Context, b *Bulk, p *Progress) error {
	asOf := b.AsOf
	if asOf == 0 {
		asOf = o.opts.Host.Clock.Now()
	}
	p.change(func(t *Tally) { t.AsOf, t.Skipped = asOf, make(map[core.Status]uint64) })
	q := b.Jobs
	q.Order, q.Body, q.Limit = Scan, 0, bulkStep
	q.Filter.EnteredBy = asOf
	if !b.DryRun && b.AtMost != math.MaxUint64 {
		var n uint64
		err := o.eachPart(ctx, &q, asOf, func(part *JobPart, _ int) (bool, error) {
			n += uint64(len(part.Rows))
			return n <= b.AtMost, nil
		})
		if err != nil {
			return err
		}
		if n > b.AtMost {
			return wire.MoreThanExpected.Problem(fmt.Sprintf("more than %d jobs are selected", b.AtMost))
		}
	}
	var commit uint64
	err := o.eachPart(ctx, &q, asOf, func(part *JobPart, shard int) (bool, error) {
		return o.bulkPart(ctx, b, asOf, part, shard, p, &commit)
	})
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
	defer cancel()
	if o.opts.Gate.Committed(wait, o.journal(), commit) != nil && err == nil {
		err = wire.Uncertain.Problem("the journal has not acknowledged the change in time")
	}
	return err
}

// eachPart calls f with the jobs of each visit, and the shard that they are in, until that
// reports false.
func (o *Operator) eachPart(ctx context.Context, q *JobQuery, begun core.Time, f func(part *JobPart, shard int) (bool, error)) error {
	at := &Place{Begun: begun}
	for first := true; at != nil; first = false {
		if ctx.Err() != nil {
			return wire.Cancelled.Problem("")
		}
		start := time.Now()
		var part *JobPart
		shard := at.Shard
		err := o.run(ctx, func(c *direct.Caller) error {
			b := newBrowse(o, c, q, at)
			more, found := b.visit()
			if !found && first {
				return noTube(q.Tube)
			}
			b.take()
			if b.at.Cursor = b.x.Cursor; more {
				b.part.Next = &b.at
			}
			part = &b.part
			return nil
		})
		if err != nil {
			return err
		}
		o.rest(start)
		if !q.AllTubes {
			shard = o.opts.Host.Map.OfTube([]byte(q.Tube))
		}
		if goOn, err := f(part, shard); err != nil || !goOn {
			return err
		}
		at = part.Next
	}
	return nil
}

// bulkPart acts on the jobs that a visit has found.
func (o *Operator) bulkPart(ctx context.Context, b *Bulk, asOf core.Time, part *JobPart, shard int, p *Progress, commit *uint64) (goOn bool, err error) {
	ids := make([]core.JobID, 0, len(part.Rows))
	p.change(func(t *Tally) {
		t.Looked += uint64(part.Looked)
		for i := range part.Rows {
			if b.Limit > 0 && t.Matched == b.Limit {
				break
			}
			ids = append(ids, part.Rows[i].ID)
			t.Matched++
		}
		goOn = b.Limit == 0 || t.Matched < b.Limit
	})
	if b.DryRun || len(ids) == 0 {
		return goOn, nil
	}
	if b.Action.Verb != core.VerbDelete {
		if err := o.opts.Gate.Room(ctx, o.journal()); err != nil {
			return false, noRoom(err)
		}
	}
	// What a body contains was looked at, and is what it was unless somebody has edited the
	// job since.
	x := core.OperatorOp{Act: b.Action, Filter: b.Jobs.Filter}
	x.Filter.EnteredBy, x.Filter.Contains = asOf, nil
	start := time.Now()
	err = o.run(ctx, func(c *direct.Caller) error {
		*commit = max(*commit, c.ActOnMany(shard, ids, &x))
		return nil
	})
	if err != nil {
		return false, err
	}
	o.rest(start)
	for i, s := range x.Results {
		if s == core.StatusUnadmitted { // there must be room for its body
			if o.bury(ctx, ids[i], b.Action.Force) == nil {
				x.Results[i] = core.StatusOK
			}
		}
	}
	p.change(func(t *Tally) {
		for _, s := range x.Results {
			if s == core.StatusOK {
				t.Done++
			} else {
				t.Skipped[s]++
			}
		}
	})
	return goOn, nil
}
