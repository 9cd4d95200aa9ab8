package admin

import (
	"context"
	"slices"
	"time"

	"polystalk/router/direct"
	"polystalk/shard/core"
)

// A selection finds the jobs of a Bulk. It stores only the jobs of one visit.
type selection struct {
	o      *Operator
	q      *JobQuery
	ids    [][]core.JobID // by shard; nil: all jobs are scanned
	gone   uint64         // number of ids that no shard has
	toLook uint64         // jobs to examine, approximately

	// The jobs that the last visit has found, its shard, and how many of its ids have no job.
	// They are valid until the next visit.
	rows    []core.JobRow
	at      int
	missing uint64

	shard  int // of the next visit
	visits uint64
	x      core.OperatorOp
}

// newSelection returns a selection of the jobs of b that were in their states at asOf. A tube that
// does not exist is a problem, unless it may have been removed since a dry run.
func (o *Operator) newSelection(ctx context.Context, b *Bulk, asOf core.Time) (*selection, error) {
	s := &selection{o: o, q: &b.Jobs}
	f := &s.x.Filter
	*f = b.Jobs.Filter
	f.EnteredBy, f.LargeAreSearched = asOf, true
	if b.Jobs.OlderThan != 0 {
		f.CreatedBy = longAgo(asOf, b.Jobs.OlderThan)
	}
	s.x.Limit = bulkStep
	m := o.opts.Host.Map
	if b.IDs != nil {
		s.ids = make([][]core.JobID, len(m.Shards()))
		all := slices.Clone(b.IDs)
		slices.Sort(all)
		for _, id := range slices.Compact(all) {
			if i, ok := m.OfJob(id); ok {
				s.ids[i] = append(s.ids[i], id)
				s.toLook++
			} else {
				s.gone++
			}
		}
	}
	err := o.read(ctx, func(c *direct.Caller) error {
		var there uint64
		if b.Jobs.AllTubes {
			n := c.Counts()
			there = n.Ready + n.Delayed + n.Reserved + n.Buried
		} else {
			t, ok := tubeStats(c, b.Jobs.Tube)
			if !ok && b.AsOf == 0 {
				return noTube(b.Jobs.Tube)
			}
			there = t.Ready + t.Delayed + t.Reserved + t.Buried
		}
		if s.ids == nil {
			s.toLook = there
		}
		return nil
	})
	s.rewind()
	return s, err
}

// rewind restarts the selection at its first job.
func (s *selection) rewind() {
	s.x.Cursor, s.visits, s.missing = core.Cursor{}, 0, s.gone
	s.shard = 0
	if s.nextIDs(); s.ids == nil && !s.q.AllTubes {
		s.shard = s.o.opts.Host.Map.OfTube([]byte(s.q.Tube))
	}
}

// nextIDs skips shards without ids.
func (s *selection) nextIDs() {
	for s.shard < len(s.ids) && len(s.ids[s.shard]) == 0 {
		s.shard++
	}
}

// visit finds the next jobs. It reports whether there may be more.
func (s *selection) visit(ctx context.Context) (more bool, err error) {
	if ctx.Err() != nil {
		return false, stopped(ctx)
	}
	if s.visits > 0 {
		s.missing = 0
	}
	s.visits++
	s.at = s.shard
	x := &s.x
	x.Jobs, x.Looked, s.rows = x.Jobs[:0], 0, nil
	if s.ids != nil && s.shard == len(s.ids) {
		return false, nil // none of the ids has a job
	}
	before := x.Cursor.At
	start := time.Now()
	err = s.o.read(ctx, func(c *direct.Caller) error {
		if s.ids == nil {
			more, _ = s.o.scan(c, s.q, &s.shard, x)
			return nil
		}
		c.Op().PickJobs(s.ids[s.shard], x)
		more = c.Do(s.shard).Status == core.StatusMore
		s.missing += x.Cursor.At - before - uint64(x.Looked)
		if !more {
			x.Cursor = core.Cursor{}
			s.shard++
			s.nextIDs()
			more = s.shard < len(s.ids)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	s.o.rest(start)
	return more, s.keep(ctx)
}

// keep applies the conditions that the shard has not checked. It searches large bodies here, where
// no shard is owned.
func (s *selection) keep(ctx context.Context) error {
	s.rows = slices.DeleteFunc(s.x.Jobs, func(row core.JobRow) bool {
		return !s.q.AllTubes && row.Tube != s.q.Tube || row.Large != nil && (ctx.Err() != nil || !contains(row.Large, s.x.Filter.Contains))
	})
	for i := range s.rows {
		s.rows[i].Large = nil // so that the collector can free it
	}
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	return nil
}

// step returns a step with rows of the shard that was visited last.
func (s *selection) step(rows []core.JobRow) *Step {
	// The bodies were searched already. Only an edit by an operator changes a body.
	step := &Step{Shard: s.at, Rows: rows, Filter: s.x.Filter}
	step.Filter.Contains = nil
	return step
}
