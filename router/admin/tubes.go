package admin

import (
	"context"
	"fmt"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/router/ops"
	"polystalk/shard/core"
)

// noTube returns the problem of a request for a tube that does not exist.
func noTube(name string) error {
	return wire.NotFound.Problem(fmt.Sprintf("there is no tube \"%s\"", wire.ShownName(name))) // %q would escape it twice
}

// checkName refuses the name of a tube into which no job can be put. A Gearman function may
// have any bytes in its name, so any bytes are accepted here: jobs that one server exports,
// another one imports.
func checkName(field, name string) error {
	if name != "" && len(name) <= wire.TubeNameMax {
		return nil
	}
	return wire.Invalid.With(field, fmt.Sprintf("the name has %d bytes", len(name)), fmt.Sprintf("give 1 to %d bytes", wire.TubeNameMax))
}

// tubeStats returns the statistics of a tube; false: it does not exist.
func tubeStats(c *direct.Caller, name string) (s core.TubeStats, ok bool) {
	c.Op().StatsTube([]byte(name), &s)
	return s, c.DoTube(name).Status == core.StatusOK
}

// Pause keeps clients from reserving jobs of a tube for some seconds; zero ends a pause.
func (o *Operator) Pause(ctx context.Context, name string, seconds uint32) (err error) {
	defer func() { o.counts.add("pause", 0, 0, err) }()
	return o.change(ctx, 0, func(c *direct.Caller) (uint64, error) {
		c.Op().Pause([]byte(name), seconds)
		r := c.DoTube(name)
		if r.Status != core.StatusOK {
			return 0, noTube(name)
		}
		return r.Commit, nil
	})
}

// Kick makes up to count jobs of a tube ready: the buried ones if there are any, else the
// delayed ones. The end of ctx ends it between two visits.
func (o *Operator) Kick(ctx context.Context, name string, count uint32) (kicked uint32, err error) {
	defer func() { o.counts.add("kick", uint64(kicked), 0, err) }()
	broken := false
	err = o.change(ctx, 0, func(c *direct.Caller) (commit uint64, err error) {
		if _, ok := tubeStats(c, name); !ok { // Use would make it
			return 0, noTube(name)
		}
		c.Op().Use([]byte(name), 0)
		used := c.DoTube(name).Tube
		var k ops.Kick
		k.Start(used, count, c.Op())
		for more := true; more && !broken; {
			start := time.Now()
			r := c.DoTube(name)
			commit = max(commit, r.Commit)
			if more = k.Next(r, c.Op()); more {
				o.rest(start)
				broken = ctx.Err() != nil
			}
		}
		c.Op().Unuse(used)
		c.DoTube(name)
		kicked = k.Moved
		return commit, nil
	})
	if err == nil && broken {
		err = wire.Cancelled.With("", fmt.Sprintf("it takes too long; %d jobs are kicked", kicked), "send it again for the rest")
	}
	return kicked, err
}

// A Flush deletes the jobs of a tube that are in some states, but no reserved jobs.
type Flush struct {
	Tube   string
	States core.States // of ready, delayed and buried; none means all of these
	DryRun bool        // only count the jobs
	// AsOf is Flushed.At of a dry run: jobs that entered their state after it are skipped. Zero:
	// no job is.
	AsOf core.Time
}

// Flush runs f, and returns once no deleted job can come back. The jobs go at one moment,
// unless others came after f.AsOf: then they go one after the other, and the end of ctx ends
// that. It works when the disk is full.
func (o *Operator) Flush(ctx context.Context, f *Flush) (n core.Flushed, err error) {
	tube := []byte(f.Tube)
	if f.DryRun {
		var x core.OperatorOp
		err = o.read(ctx, func(c *direct.Caller) error {
			c.Op().CountFlush(tube, f.States, &x)
			if c.DoTube(f.Tube).Status != core.StatusOK {
				return noTube(f.Tube)
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
		return n, o.settled(ctx, 0, noTube(f.Tube))
	case s == core.StatusChanged:
		return o.flushBySteps(ctx, f)
	}
	n = x.Flushed
	if o.journal() == nil || n.All() == 0 {
		return n, o.settled(ctx, 0, nil)
	}
	return n, o.flushCollected(ctx, f.Tube, x.Flushed.Ticket)
}

// collectedEvery is how often a flush checks whether the shard has collected all jobs.
const collectedEvery = time.Millisecond

// flushCollected waits until the ends of all flushed jobs are durable, even while the server
// stops: nobody sees the jobs any more, but the next start would bring them back.
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
			return wire.Uncertain.Problem("the jobs are not gone from the journal in time")
		}
		o.sleep(collectedEvery)
	}
}

// flushBySteps runs f while other jobs come.
func (o *Operator) flushBySteps(ctx context.Context, f *Flush) (n core.Flushed, err error) {
	var last uint64 // commit
	x := core.OperatorOp{Filter: core.Filter{EnteredBy: f.AsOf}}
	for _, s := range []core.State{core.Ready, core.Delayed, core.Buried} {
		for more := f.States.Has(s); more && err == nil; {
			if ctx.Err() != nil {
				err = wire.Cancelled.With("", fmt.Sprintf("it takes too long, since others came meanwhile; %d jobs are deleted", n.All()),
					"send it again with the same as_of: it goes on with what is left")
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
