package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// A job is moved by three visits, of which file move.go of package core tells: it is taken, a
// copy is put, and once that is durable what was taken is dropped. What was begun with a job
// is ended, whoever has given up waiting for it and whatever else is refused by then.

const (
	// batchBytes of bodies are copied in a visit, or one body.
	batchBytes = 256 << 10
	// dropAgain is how often it is looked whether the server has ended, while jobs wait to be
	// dropped until a journal that is late acknowledges their copies.
	dropAgain = time.Second
)

// A Transfer is the Action that moves jobs to another tube, or puts copies of them there. They
// have ids of their own then, and all else that they had. What a worker has is not moved, nor
// what was submitted by somebody who waits for it.
type Transfer struct {
	To   string // the tube, made if need be
	Copy bool
}

// Name implements Action.
func (t Transfer) Name() string {
	if t.Copy {
		return "copy"
	}
	return "move"
}

// Foresee implements Action. It does not know who waits for a job.
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

// begin implements gathering: it refuses a tube where nothing can be put.
func (t Transfer) begin(ctx context.Context, o *Operator, from string) error {
	return o.run(ctx, func(*direct.Caller) error {
		if !t.Copy && t.To == from {
			return wire.Invalid.With("to", "the jobs are there already", "give another tube")
		}
		if t.Copy && o.Draining() {
			return wire.Draining.Problem("")
		}
		return checkName("to", t.To)
	})
}

// Do implements Action. What it has put it has also waited for.
func (t Transfer) Do(ctx context.Context, o *Operator, s *Step) error {
	return t.do(ctx, o, s, func(int, core.JobID) {})
}

// do is Do, and tells of each row that was transferred the id of its copy.
func (t Transfer) do(ctx context.Context, o *Operator, s *Step, copied func(row int, id core.JobID)) (err error) {
	r := &transferRun{t: t, o: o, s: s, copied: copied}
	for err == nil && len(s.Results) < len(s.Rows) {
		err = r.batch(ctx, s.Rows[len(s.Results):])
	}
	if t.Copy {
		return err
	}
	if e := r.drop(ctx); err == nil {
		err = e
	}
	return err
}

// A transferRun is a Transfer of a step's jobs under way.
type transferRun struct {
	t      Transfer
	o      *Operator
	s      *Step
	copied func(row int, id core.JobID)
	x      core.OperatorOp
	taken  []core.JobID // those of which there are copies
}

// batch puts copies of the first of some rows, and takes the jobs before if they are moved:
// of as many as a visit may.
func (r *transferRun) batch(ctx context.Context, rows []core.JobRow) error {
	n, size := 0, 0
	for ; n < len(rows) && n < bulkStep; n++ {
		next := r.recorded(&rows[n])
		if n > 0 && (size+next > batchBytes || rows[n].Size > slab.MaxSize) {
			break
		}
		size += next
	}
	put := func() error { return r.put(ctx, rows[:n]) }
	err := r.o.claimed(ctx, size, put)
	if isFull(err) && n > 1 {
		n = 1 // perhaps there is room for one
		err = r.o.claimed(ctx, r.recorded(&rows[0]), put)
	}
	return err
}

// recorded is how many bytes of records a copy takes at most.
func (r *transferRun) recorded(row *core.JobRow) int {
	return len(r.t.To) + int(row.Size) + claimHead
}

// put is batch of rows for which there is room.
func (r *transferRun) put(ctx context.Context, rows []core.JobRow) error {
	ids := make([]core.JobID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	start := time.Now()
	err := r.o.run(ctx, func(c *direct.Caller) error {
		for len(ids) > 0 {
			ids = ids[r.visit(c, ids, rows[0].Size):]
		}
		return nil
	})
	r.o.rest(start)
	return err
}

// visit is put of as many jobs as one visit takes. It reports how many that are. A large body
// may have so many bytes.
func (r *transferRun) visit(c *direct.Caller, ids []core.JobID, large uint32) (n int) {
	x := &r.x
	x.Act, x.Filter = core.Action{Verb: core.VerbTake}, r.s.Filter
	if r.t.Copy {
		x.Act.Verb = core.VerbRead
	}
	x.Jobs, x.Bodies = x.Jobs[:0], x.Bodies[:0]
	c.Take(r.s.Shard, ids, large, x)
	if n = len(x.Results); x.Results[n-1] == core.StatusMore {
		n--
	}
	results := slices.Clone(x.Results[:n])
	var copies, back []core.JobID
	if len(x.Jobs) > 0 {
		var commit uint64
		copies, commit = c.PutCopies([]byte(r.t.To), x)
		r.s.Commit = max(r.s.Commit, commit)
	}
	for k, why := range results {
		if why == core.StatusOK {
			if copies[0] == 0 {
				why = core.StatusOutOfMemory
				back = append(back, ids[k])
			} else {
				r.copied(len(r.s.Results), copies[0])
				r.taken = append(r.taken, ids[k])
			}
			copies = copies[1:]
		}
		r.s.Results = append(r.s.Results, why)
	}
	for i := range x.Jobs {
		x.Jobs[i].Large = nil // so that nothing holds it
	}
	if !r.t.Copy {
		putBack(c, r.s.Shard, back)
	}
	return n
}

// putBack brings jobs that were taken to where they were.
func putBack(c *direct.Caller, shard int, ids []core.JobID) {
	slices.Reverse(ids)
	x := core.OperatorOp{Act: core.Action{Verb: core.VerbPutBack}}
	for len(ids) > 0 {
		c.ActOnMany(shard, ids, &x)
		n := len(x.Results)
		if x.Results[n-1] == core.StatusMore {
			n--
		}
		ids = ids[n:]
	}
}

// drop ends what was taken, once the copies are durable. If the journal does not say so in
// time, the jobs stay taken until it does, or for good if the server ends before that: then
// they are there with the next start, and perhaps the copies are too.
func (r *transferRun) drop(ctx context.Context) error {
	if len(r.taken) == 0 {
		return nil
	}
	o, s := r.o, r.s
	wait, stop := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cancelWithin, stop) })()
	if o.opts.Gate.Committed(wait, o.journal(), s.Commit) != nil {
		go o.dropLater(s.Shard, r.taken, s.Commit)
		return uncertain()
	}
	s.Commit = max(s.Commit, o.drop(s.Shard, r.taken))
	return nil
}

// drop ends jobs that were taken, also when the server is about to end. It reports on which
// commit that depends.
func (o *Operator) drop(shard int, ids []core.JobID) (commit uint64) {
	c := <-o.callers
	defer func() { o.callers <- c }()
	x := core.OperatorOp{Act: core.Action{Verb: core.VerbDrop}}
	for some := range slices.Chunk(ids, bulkStep) {
		start := time.Now()
		commit = max(commit, c.ActOnMany(shard, some, &x))
		o.rest(start)
	}
	return commit
}

// dropLater is drop once a commit is acknowledged.
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

// MoveJob moves a job to another tube, and returns the id that it has there, once that is
// durable.
func (o *Operator) MoveJob(ctx context.Context, id core.JobID, to string) (moved core.JobID, err error) {
	return o.transferJob(ctx, id, Transfer{To: to})
}

// CopyJob puts a job like another one into a tube, and returns its id once that is durable.
// The copy of one that a worker has is ready.
func (o *Operator) CopyJob(ctx context.Context, id core.JobID, to string) (copied core.JobID, err error) {
	return o.transferJob(ctx, id, Transfer{To: to, Copy: true})
}

func (o *Operator) transferJob(ctx context.Context, id core.JobID, t Transfer) (copied core.JobID, err error) {
	defer o.did(t.Name(), &err)
	row, _, err := o.Job(ctx, id, 0)
	if err != nil {
		return 0, err
	}
	if err := t.begin(ctx, o, row.Tube); err != nil {
		return 0, err
	}
	shard, ok := o.opts.Host.Map.OfJob(id)
	if !ok {
		return 0, noJob(id)
	}
	s := &Step{Shard: shard, Rows: []core.JobRow{row.JobRow}}
	if err := t.do(ctx, o, s, func(_ int, is core.JobID) { copied = is }); err != nil {
		return 0, err
	}
	switch why := s.Results[0]; why {
	case core.StatusOK:
		return copied, o.durably(ctx, func(*direct.Caller) (uint64, error) { return s.Commit, nil })
	case core.StatusUnfit:
		return 0, wire.JobMoved.Problem(fmt.Sprintf("job %d was submitted with a reducer, which a job in another tube cannot have", id))
	default:
		return 0, o.run(ctx, func(c *direct.Caller) error { return refused(c, id, why) })
	}
}
