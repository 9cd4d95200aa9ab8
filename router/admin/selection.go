package admin

import (
	"context"
	"slices"
	"time"

	"polystalk/router/direct"
	"polystalk/shard/core"
)

// A selection finds the jobs of a Bulk, a visit's worth at a time, and holds no more of them
// than that.
type selection struct {
	o      *Operator
	q      *JobQuery
	ids    [][]core.JobID // of each shard; nil: all jobs are scanned
	gone   uint64         // ids that no shard has
	toLook uint64         // jobs, about

	// What the last visit has found, where, and how many of the ids it came to have no job.
	// They are good until the next one; their bodies were looked at, and are not held.
	rows    []core.JobRow
	at      int
	missing uint64

	shard int // of the next visit
	come  uint64
	x     core.OperatorOp
}

// newSelection begins to find the jobs of b that were in their states at asOf. A tube that is
// not there is a problem, unless it may be gone since then.
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
			t, ok := c.StatsTube([]byte(b.Jobs.Tube))
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

// rewind begins again.
func (s *selection) rewind() {
	s.x.Cursor, s.come, s.missing = core.Cursor{}, 0, s.gone
	switch s.shard = 0; {
	case s.ids != nil:
		s.nextIDs()
	case !s.q.AllTubes:
		s.shard = s.o.opts.Host.Map.OfTube([]byte(s.q.Tube))
	}
}

// nextIDs passes shards that have none of the ids.
func (s *selection) nextIDs() {
	for s.shard < len(s.ids) && len(s.ids[s.shard]) == 0 {
		s.shard++
	}
}

// visit looks at the next jobs. It reports whether there are more to be looked at.
func (s *selection) visit(ctx context.Context) (more bool, err error) {
	if ctx.Err() != nil {
		return false, stopped(ctx)
	}
	if s.come > 0 {
		s.missing = 0
	}
	s.come++
	s.at = s.shard
	x := &s.x
	x.Jobs, x.Looked, s.rows = x.Jobs[:0], 0, nil
	if s.ids != nil && s.shard == len(s.ids) {
		return false, nil // of all the ids there is no job
	}
	before := x.Cursor.At
	start := time.Now()
	err = s.o.read(ctx, func(c *direct.Caller) error {
		switch {
		case s.ids != nil:
			more = c.PickJobs(s.shard, s.ids[s.shard], x)
		case s.q.AllTubes:
			more = c.ScanShard(s.shard, x)
		default:
			more, _ = c.ScanTube([]byte(s.q.Tube), x)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	s.o.rest(start)
	if s.ids != nil {
		s.missing += x.Cursor.At - before - uint64(x.Looked)
	}
	if !more {
		more = s.nextShard()
	}
	return more, s.keep(ctx)
}

// nextShard goes on to the next shard, if there is one.
func (s *selection) nextShard() bool {
	s.x.Cursor = core.Cursor{}
	switch s.shard++; {
	case s.ids != nil:
		s.nextIDs()
	case !s.q.AllTubes:
		return false
	}
	return s.shard < len(s.o.opts.Host.Map.Shards())
}

// keep leaves those that are wanted, of which the shard could not tell: large bodies are
// searched here, where nobody waits.
func (s *selection) keep(ctx context.Context) error {
	s.rows = slices.DeleteFunc(s.x.Jobs, func(row core.JobRow) bool {
		return !s.q.AllTubes && row.Tube != s.q.Tube || row.Large != nil && (ctx.Err() != nil || !contains(row.Large, s.x.Filter.Contains))
	})
	for i := range s.rows {
		s.rows[i].Large = nil // so that nothing holds it
	}
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	return nil
}
