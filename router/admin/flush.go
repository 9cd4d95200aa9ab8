package admin

import (
	"context"
	"fmt"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// A Flush deletes the jobs of a tube that are in some states, except reserved jobs.
type Flush struct {
	Tube   string
	States core.States // of ready, delayed and buried; none means all of these
	DryRun bool        // only count the jobs
	// AsOf is Flushed.At of a dry run: jobs that entered their state later are skipped. Zero: no
	// job is skipped.
	AsOf core.Time
}

// Flush runs f, and returns once the deletes are durable. The jobs are deleted at once, unless
// others entered their states after f.AsOf. Then the jobs are deleted in steps, and the end of ctx
// stops that. Flush works on a full disk.
func (o *Operator) Flush(ctx context.Context, f *Flush) (n core.Flushed, err error) {
	tube := []byte(f.Tube)
	if f.DryRun {
		var x core.OperatorOp
		err = o.read(ctx, func(c *direct.Caller) error {
			c.Op().CountFlush(tube, f.States, &x)
			if c.DoTube(f.Tube).Status != core.StatusOK {
				return NoTube(f.Tube)
			}
			return nil
		})
		return x.Flushed, err
	}
	defer func() { o.counts.add("flush", n.All(), 0, err) }()
	x := core.OperatorOp{Filter: core.Filter{EnteredBy: f.AsOf}}
	var s core.Status
	err = o.run(ctx, func(c *direct.Caller) error {
		c.Op().Flush(tube, f.States, &x)
		s = c.DoTube(f.Tube).Status
		return nil
	})
	switch {
	case err != nil:
		return n, err
	case s == core.StatusNotFound:
		return n, o.settled(ctx, 0, NoTube(f.Tube))
	case s == core.StatusChanged:
		return o.flushBySteps(ctx, f)
	}
	n = x.Flushed
	if o.journal() == nil || n.All() == 0 {
		return n, o.settled(ctx, 0, nil)
	}
	return n, o.flushCollected(ctx, f.Tube, x.Flushed.Ticket)
}

// collectedEvery is the interval at which a flush checks whether the shard has collected all jobs.
const collectedEvery = time.Millisecond

// flushCollected waits until the deletes of all flushed jobs are durable, even while the server
// stops: clients do not see the jobs any more, but the next start would bring them back.
func (o *Operator) flushCollected(ctx context.Context, tube string, ticket uint64) error {
	for {
		var commit uint64
		var all bool
		err := o.finish(ctx, func(c *direct.Caller) error {
			c.Op().AskFlushed(ticket)
			r := c.DoTube(tube)
			commit, all = r.Commit, r.Status == core.StatusOK
			return nil
		})
		switch {
		case all:
			return o.committed(ctx, commit)
		case err != nil, ctx.Err() != nil, o.opts.Life.Failure() != "":
			return wire.Uncertain.Problem("the journal has not confirmed the deletes in time")
		}
		o.sleep(collectedEvery)
	}
}

// flushBySteps runs f when other jobs have entered the states after f.AsOf.
func (o *Operator) flushBySteps(ctx context.Context, f *Flush) (n core.Flushed, err error) {
	var last uint64 // commit
	x := core.OperatorOp{Filter: core.Filter{EnteredBy: f.AsOf}}
	for _, s := range []core.State{core.Ready, core.Delayed, core.Buried} {
		for more := f.States.Has(s); more && err == nil; {
			if ctx.Err() != nil {
				err = wire.Cancelled.With("", fmt.Sprintf("it took too long, because other jobs were added meanwhile; %d jobs were deleted", n.All()),
					"send it again with the same as_of, to delete the rest")
				break
			}
			err = o.visit(ctx, func(c *direct.Caller) {
				c.Op().FlushStep([]byte(f.Tube), s, &x)
				r := c.DoTube(f.Tube)
				*n.In(s) += uint64(r.N)
				last = max(last, r.Commit)
				more = r.Status == core.StatusMore
			})
		}
	}
	if e := o.lastCommit(ctx, last); err == nil {
		err = e
	}
	return n, err
}
