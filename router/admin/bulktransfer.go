package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// A move of a job takes three visits (file move.go of package core). The job is taken, a copy is
// put, and once the copy is durable, the taken job is dropped. A move that has begun is finished,
// even if its context has ended or the server refuses new operations.

const (
	// transferBytes is the largest size of the copies in a visit; a larger one has its own visit.
	transferBytes = 256 << 10
	// dropAgain is the interval of checks whether the server still runs, while taken jobs wait
	// for the journal to acknowledge their copies.
	dropAgain = time.Second
)

// A Transfer is the Action that moves or copies jobs to another tube. The copies have new ids;
// everything else is as before. A move skips reserved jobs, and jobs that a Gearman client waits
// for.
type Transfer struct {
	To   string // the tube; it is created if it does not exist
	Copy bool
	// Limit returns an error if the tube has no room for the jobs; it may wait. nil: there is no limit.
	Limit func(ctx context.Context, jobs []core.JobRow) error
}

// Name implements Action.
func (t Transfer) Name() string {
	if t.Copy {
		return "copy"
	}
	return "move"
}

// Foresee implements Action. It does not know about waiting clients.
func (t Transfer) Foresee(row *core.JobRow) core.Status {
	switch {
	case t.Copy:
		return core.StatusOK
	case row.Moving:
		return core.StatusMoving
	case row.State == core.Reserved:
		return core.StatusInUse
	case row.Tube == t.To:
		return core.StatusUnfit
	}
	return core.StatusOK
}

// check refuses a tube into which the jobs of the tube from cannot be transferred.
func (t Transfer) check(ctx context.Context, o *Operator, from string) error {
	return o.run(ctx, func(*direct.Caller) error {
		if !t.Copy && t.To == from {
			return wire.Invalid.With("to", "the jobs are already in this tube", "give another tube")
		}
		if t.Copy && o.Draining() {
			return wire.Draining.Problem("")
		}
		return checkName("to", t.To)
	})
}

// Do implements Action. When it returns, the copies of moved jobs are durable.
func (t Transfer) Do(ctx context.Context, o *Operator, s *Step) error {
	_, err := t.do(ctx, o, s)
	return err
}

// do is Do, but also returns the id of the last copy.
func (t Transfer) do(ctx context.Context, o *Operator, s *Step) (last core.JobID, err error) {
	r := &transferRun{t: t, o: o, s: s}
	for err == nil && len(s.Results) < len(s.Rows) {
		err = r.batch(ctx, s.Rows[len(s.Results):])
	}
	if !t.Copy {
		if e := r.drop(ctx); err == nil {
			err = e
		}
	}
	return r.last, err
}

// A transferRun runs a Transfer on one step.
type transferRun struct {
	t     Transfer
	o     *Operator
	s     *Step
	x     core.OperatorOp
	taken []core.JobID // taken jobs that have copies
	last  core.JobID   // id of the last copy
}

// batch transfers the first rows: as many as fit into a visit.
func (r *transferRun) batch(ctx context.Context, rows []core.JobRow) error {
	size := func(row *core.JobRow) int { return len(r.t.To) + int(row.Size) + claimHead }
	n, all := 0, 0
	for ; n < len(rows) && n < bulkStep; n++ {
		next := size(&rows[n])
		if n > 0 && (all+next > transferBytes || rows[n].Size > slab.MaxSize) {
			break
		}
		all += next
	}
	put := func() error {
		return r.o.visit(ctx, func(c *direct.Caller) {
			for ids := idsOf(rows[:n]); len(ids) > 0; {
				ids = ids[r.visit(c, ids, rows[0].Size):]
			}
		})
	}
	if limit := r.t.Limit; limit != nil {
		if err := limit(ctx, rows[:n]); err != nil {
			return err
		}
	}
	err := r.o.withRoom(ctx, all, put)
	if wire.DiskFull.Is(err) && n > 1 {
		n = 1 // perhaps there is space for one
		err = r.o.withRoom(ctx, size(&rows[0]), put)
	}
	return err
}

// visit transfers as many jobs as one visit can, and returns their number. The journal has space
// reserved for a large body of large bytes.
func (r *transferRun) visit(c *direct.Caller, ids []core.JobID, large uint32) (n int) {
	x := &r.x
	x.Act, x.Filter = core.Action{Verb: core.VerbTake}, r.s.Filter
	if r.t.Copy {
		x.Act.Verb = core.VerbRead
	}
	x.Jobs, x.Bodies = x.Jobs[:0], x.Bodies[:0]
	op := c.Op()
	op.ActOnMany(ids, x)
	op.Admitted = large
	c.Do(r.s.Shard)
	n = reached(x)
	results := slices.Clone(x.Results[:n])
	var copies, back []core.JobID
	if len(x.Jobs) > 0 {
		copies = r.putCopies(c)
	}
	for k, why := range results {
		if why == core.StatusOK {
			if copies[0] == 0 {
				why = x.Results[len(x.Results)-len(copies)]
				back = append(back, ids[k])
			} else {
				r.last = copies[0]
				r.taken = append(r.taken, ids[k])
			}
			copies = copies[1:]
		}
		r.s.Results = append(r.s.Results, why)
	}
	for i := range x.Jobs {
		x.Jobs[i].Large = nil // so that the collector can free it
	}
	if !r.t.Copy {
		putBack(c, r.s.Shard, back)
	}
	return n
}

// putCopies puts copies of the jobs in r.x. It returns their new ids in the jobs' order; zero for
// a copy that was not put.
func (r *transferRun) putCopies(c *direct.Caller) []core.JobID {
	m, x, to := r.o.opts.Host.Map, &r.x, []byte(r.t.To)
	ids := make([]core.JobID, len(x.Jobs))
	first := m.IDs().Take(len(ids))
	for k := range ids {
		ids[k] = first + core.JobID(k)
		m.IDs().Note(ids[k], m.OfTube(to))
	}
	c.Op().PutCopies(to, ids, x)
	r.s.did(c.Do(m.OfTube(to)).Commit)
	for k, s := range x.Results {
		if s != core.StatusOK {
			m.IDs().Finish(ids[k])
			ids[k] = 0
		}
	}
	return ids
}

// reached returns the number of jobs that a visit has acted on.
func reached(x *core.OperatorOp) int {
	n := len(x.Results)
	if x.Results[n-1] == core.StatusMore {
		n--
	}
	return n
}

// putBack returns taken jobs to their tube.
func putBack(c *direct.Caller, shard int, ids []core.JobID) {
	slices.Reverse(ids)
	x := core.OperatorOp{Act: core.Action{Verb: core.VerbPutBack}}
	for len(ids) > 0 {
		c.Op().ActOnMany(ids, &x)
		c.Do(shard)
		ids = ids[reached(&x):]
	}
}

// drop drops the taken jobs once their copies are durable. If the journal does not acknowledge
// the copies in time, the jobs stay taken until it does. If the server stops first, the jobs
// exist after the next start, perhaps together with their copies.
func (r *transferRun) drop(ctx context.Context) error {
	if len(r.taken) == 0 {
		return nil
	}
	if err := r.o.lastCommit(ctx, r.s.Commit); err != nil {
		go r.o.dropLater(r.s.Shard, r.taken, r.s.Commit)
		return err
	}
	r.s.did(r.o.drop(r.s.Shard, r.taken))
	return nil
}

// drop drops taken jobs, even while the server stops. It returns the commit of the changes.
func (o *Operator) drop(shard int, ids []core.JobID) (commit uint64) {
	x := core.OperatorOp{Act: core.Action{Verb: core.VerbDrop}}
	o.finish(context.Background(), func(c *direct.Caller) error {
		for some := range slices.Chunk(ids, bulkStep) {
			start := time.Now()
			c.Op().ActOnMany(some, &x)
			commit = max(commit, c.Do(shard).Commit)
			o.rest(start)
		}
		return nil
	})
	return commit
}

// dropLater drops taken jobs once a commit is acknowledged.
func (o *Operator) dropLater(shard int, ids []core.JobID, commit uint64) {
	for o.Ready() == nil {
		wait, stop := context.WithTimeout(context.Background(), dropAgain)
		err := o.opts.Gate.Committed(wait, o.journal(), commit)
		stop()
		if err == nil {
			o.drop(shard, ids)
			return
		}
	}
}

// TransferJob transfers a job, and returns its new id once the change is durable. The copy of a
// reserved job is ready.
func (o *Operator) TransferJob(ctx context.Context, id core.JobID, t Transfer) (copied core.JobID, err error) {
	defer o.did(t.Name(), &err)
	row, _, err := o.Job(ctx, id, 0)
	if err != nil {
		return 0, err
	}
	if err := t.check(ctx, o, row.Tube); err != nil {
		return 0, err
	}
	shard, ok := o.opts.Host.Map.OfJob(id)
	if !ok {
		return 0, NoJob(id)
	}
	s := &Step{Shard: shard, Rows: []core.JobRow{row.JobRow}}
	if copied, err = t.do(ctx, o, s); err != nil {
		return 0, err
	}
	switch why := s.Results[0]; why {
	case core.StatusOK:
		return copied, o.durably(ctx, func(*direct.Caller) (uint64, error) { return s.Commit, nil })
	case core.StatusUnfit:
		return 0, wire.JobMoved.Problem(fmt.Sprintf("job %d has a Gearman reducer, so it cannot be moved to another tube", id))
	default:
		return 0, o.run(ctx, func(c *direct.Caller) error { return o.refused(c, id, why) })
	}
}

const (
	// gatheredMost is the largest number of jobs that are sorted together; each takes 24 bytes.
	gatheredMost = 1 << 20
	// gatheredStep is the number of sorted jobs in a Step.
	gatheredStep = 4 * bulkStep
)

// A gathered value is a job that was found and is not transferred yet.
type gathered struct {
	id    core.JobID
	since core.Time // when it entered its state
	size  uint32    // bytes of its body
	state core.State
}

// before is the order of a transfer. The new ids have this order, so jobs of the same priority
// or delay are served in the same order as before.
func (g gathered) before(h gathered) int {
	if g.state == core.Buried && h.state == core.Buried {
		return cmp.Compare(g.since, h.since)
	}
	return cmp.Or(cmp.Compare(g.state, h.state), cmp.Compare(g.id, h.id))
}

// transferAll transfers all jobs that s finds. It sorts them first, because a scan does not find
// them in the order in which they would be served.
func (r *bulkRun) transferAll(ctx context.Context, s *selection) error {
	var list []gathered
	for more, goOn := true, true; more && goOn; {
		var err error
		if more, err = s.visit(ctx); err != nil {
			return err
		}
		var rows []core.JobRow
		rows, goOn = r.match(s)
		r.p.change(func(t *Tally) {
			for i := range rows {
				row := &rows[i]
				if why := r.b.Action.Foresee(row); why != core.StatusOK {
					t.Skipped[why]++
					continue
				}
				list = append(list, gathered{row.ID, row.Since, row.Size, row.State})
			}
		})
		if more && goOn && s.shard == s.at && len(list) < gatheredMost {
			continue
		}
		slices.SortFunc(list, gathered.before)
		for some := range slices.Chunk(list, gatheredStep) {
			if err := r.b.goesOn(ctx); err != nil {
				return err
			}
			step := s.step(nil)
			for _, g := range some {
				step.Rows = append(step.Rows, core.JobRow{JobStats: core.JobStats{ID: g.id, State: g.state}, Since: g.since, Size: g.size})
			}
			if err := r.act(ctx, step); err != nil {
				return err
			}
		}
		list = list[:0]
	}
	return nil
}
