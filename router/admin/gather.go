package admin

import (
	"cmp"
	"context"
	"slices"

	"polystalk/shard/core"
)

// A gathering Action is given jobs in the order in which they would be served or kicked, which
// is not the one in which they are found, and more of them at a time.
type gathering interface {
	Action
	// begin is asked before any job is looked at; all are in the tube from, unless it is empty.
	begin(ctx context.Context, o *Operator, from string) error
}

const (
	// gatheredMost jobs of a shard are put in order; of more, so many at a time. Each takes 24
	// bytes meanwhile.
	gatheredMost = 1 << 20
	// gatheredStep is how many a Step has then.
	gatheredStep = 4 * bulkStep
)

// A gathered job is one that was found.
type gathered struct {
	id    core.JobID
	since core.Time // when it entered its state
	size  uint32    // bytes of its body
	state core.State
}

// before orders jobs that are put elsewhere under new ids, which follow that order: what their
// priorities and delays do not decide is as it was.
func (g gathered) before(h gathered) int {
	if g.state == core.Buried && h.state == core.Buried {
		return cmp.Compare(g.since, h.since)
	}
	return cmp.Or(cmp.Compare(g.state, h.state), cmp.Compare(g.id, h.id))
}

// gather acts on all jobs that s finds, in their order.
func (r *bulkRun) gather(ctx context.Context, s *selection) error {
	var list []gathered
	for more, goOn := true, true; more && goOn; {
		var err error
		if more, err = s.visit(ctx); err != nil {
			return err
		}
		var rows []core.JobRow
		rows, goOn = r.match(s)
		skipped := make(map[core.Status]uint64)
		for i := range rows {
			row := &rows[i]
			if why := r.b.Action.Foresee(row); why != core.StatusOK {
				skipped[why]++
				continue
			}
			list = append(list, gathered{row.ID, row.Since, row.Size, row.State})
		}
		r.p.change(func(t *Tally) {
			for why, n := range skipped {
				t.Skipped[why] += n
			}
		})
		if !more || !goOn || s.shard != s.at || len(list) >= gatheredMost {
			if err := r.actInOrder(ctx, s, list); err != nil {
				return err
			}
			list = list[:0]
		}
	}
	return nil
}

// actInOrder acts on jobs of the shard that s has visited last.
func (r *bulkRun) actInOrder(ctx context.Context, s *selection, list []gathered) error {
	slices.SortFunc(list, gathered.before)
	for some := range slices.Chunk(list, gatheredStep) {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		step := r.step(s)
		for _, g := range some {
			step.Rows = append(step.Rows, core.JobRow{JobStats: core.JobStats{ID: g.id, State: g.state}, Since: g.since, Size: g.size})
		}
		if err := r.act(ctx, step); err != nil {
			return err
		}
	}
	return nil
}
