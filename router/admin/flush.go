package admin

import (
	"context"
	"fmt"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// A Flush ends all jobs of a tube that are in some states. What workers hold is left alone.
type Flush struct {
	Tube   string
	States core.States // of ready, delayed and buried; none means all of these
	DryRun bool        // they are counted alone
	// AsOf is that of a dry run: a job that has entered its state after it is left alone. Zero:
	// all that are there.
	AsOf core.Time
}

// Flushed are the jobs that a Flush has ended, or counted, by the state that they were in.
type Flushed struct {
	Ready, Delayed, Buried uint64
	AsOf                   core.Time // of a dry run
}

// All is how many there are.
func (f *Flushed) All() uint64 { return f.Ready + f.Delayed + f.Buried }

// of is the number of those that were in a state.
func (f *Flushed) of(s core.State) *uint64 {
	switch s {
	case core.Ready:
		return &f.Ready
	case core.Delayed:
		return &f.Delayed
	}
	return &f.Buried
}

// flushed are those that a visit has condemned.
func flushed(x *core.Condemned) Flushed {
	return Flushed{Ready: uint64(x.Ready), Delayed: uint64(x.Delayed), Buried: uint64(x.Buried)}
}

// Flush does f, and returns once none of the jobs that it has ended can come back. They are
// gone at one moment, unless some have come since f.AsOf: then the others go one after the
// other, and the end of ctx ends that. It goes on when the disk is full.
func (o *Operator) Flush(ctx context.Context, f *Flush) (n Flushed, err error) {
	if f.DryRun {
		return o.countFlush(ctx, f)
	}
	defer func() { o.deeds.count("flush", n.All(), 0, err) }()
	x := core.OperatorOp{Filter: core.Filter{EnteredBy: f.AsOf}}
	var s core.Status
	err = o.run(ctx, func(c *direct.Caller) error {
		s = c.Condemn([]byte(f.Tube), f.States, &x)
		return nil
	})
	switch {
	case err != nil:
		return n, err
	case s == core.StatusNotFound:
		return n, o.settled(ctx, 0, noTube(f.Tube))
	case s == core.StatusChanged:
		return o.sweep(ctx, f)
	}
	n = flushed(&x.Condemned)
	if o.journal() == nil || n.All() == 0 {
		return n, o.settled(ctx, 0, nil)
	}
	return n, o.reclaimed(ctx, f.Tube, x.Condemned.Ticket)
}

// countFlush counts the jobs that there are for f.
func (o *Operator) countFlush(ctx context.Context, f *Flush) (n Flushed, err error) {
	var x core.OperatorOp
	err = o.read(ctx, func(c *direct.Caller) error {
		if !c.CountCondemned([]byte(f.Tube), f.States, &x) {
			return noTube(f.Tube)
		}
		return nil
	})
	n = flushed(&x.Condemned)
	n.AsOf = x.Condemned.At
	return n, err
}

// reclaimEvery is how often it is asked whether all that was condemned is reclaimed.
const reclaimEvery = time.Millisecond

// reclaimed waits until the ends of all condemned jobs are durable, also when the server is
// about to end: they are gone for everybody, and would be there again with the next start.
func (o *Operator) reclaimed(ctx context.Context, tube string, ticket uint64) error {
	for {
		var commit uint64
		var all bool
		err := o.finish(ctx, func(c *direct.Caller) error {
			commit, all = c.Reclaimed([]byte(tube), ticket)
			return nil
		})
		switch {
		case all:
			return o.committed(ctx, commit)
		case err != nil, ctx.Err() != nil, o.opts.Life.Failure() != "":
			return wire.Uncertain.Problem("the jobs are not gone from the journal in time")
		}
		o.sleep(reclaimEvery)
	}
}

// sweep does f while others come.
func (o *Operator) sweep(ctx context.Context, f *Flush) (n Flushed, err error) {
	var last uint64 // commit
	x := core.OperatorOp{Act: core.Action{Verb: core.VerbDelete}, Filter: core.Filter{EnteredBy: f.AsOf}}
	for _, s := range []core.State{core.Ready, core.Delayed, core.Buried} {
		for more := f.States.Has(s); more && err == nil; {
			if ctx.Err() != nil {
				err = wire.Cancelled.With("", fmt.Sprintf("it takes too long, since others came meanwhile; %d jobs are deleted", n.All()),
					"send it again with the same as_of: it goes on with what is left")
				break
			}
			start := time.Now()
			err = o.run(ctx, func(c *direct.Caller) error {
				status, did, commit := c.Sweep([]byte(f.Tube), s, &x)
				*n.of(s) += uint64(did)
				last = max(last, commit)
				more = status == core.StatusMore
				return nil
			})
			o.rest(start)
		}
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
	defer cancel()
	if e := o.committed(wait, last); err == nil {
		err = e
	}
	return n, err
}
