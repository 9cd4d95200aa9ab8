package admin

import (
	"context"
	"errors"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// Options say what an Operator is for. All of them must be given, but for Turn, and what is for
// one of several servers: Followed and Cluster.
type Options struct {
	Host *session.Host
	Life *Life
	Gate *direct.Gate // which the journal wakes
	// Fronts are the protocols, in the order in which their kinds are counted.
	Fronts []session.Front
	// LoopsTurn waits until every event loop has had a turn; the error names those that
	// had none before ctx ended.
	LoopsTurn func(ctx context.Context) error
	// ConnectionLimit is how many clients are served at a time.
	ConnectionLimit func() (n int, from string)
	// SetDraining has new jobs refused, or taken again.
	SetDraining func(bool)
	// MaxJobSize is how many bytes the body of a job may have.
	MaxJobSize func() uint32
	// Turn, if it is not nil, is called wherever the operator would sleep to leave the shards
	// to others: see direct.Caller.TakeTurns.
	Turn func()
	// Cluster is that of the server; nil: it is alone.
	Cluster Cluster
	// Followed is where the jobs of another server are kept, in the phase Following.
	Followed func() commit.Storage
}

// callersMost operations run at a time: those that come meanwhile wait for one of them.
// More would not be quicker, since each takes a processor, of which the event loops need
// all.
const callersMost = 4

// An Operator does what operators ask for. It may be used by anyone at any time; before
// the server serves, only what says so may be called.
type Operator struct {
	opts    Options
	started time.Time
	callers chan *direct.Caller // those that are free
	samples samples
	alive   alive
	deeds   deeds
	steps   stats.Histogram // see Steps
}

// New makes the operator of a server.
func New(o Options) *Operator {
	op := &Operator{opts: o, started: time.Now(), callers: make(chan *direct.Caller, callersMost)}
	op.deeds.init()
	for range callersMost {
		c := direct.New(o.Host.Map, o.Host.Clock)
		c.Steps = &op.steps
		c.TakeTurns(o.Turn)
		op.callers <- c
	}
	return op
}

// Steps are how long its operations have had a shard, each time that they did. While one
// has it no client is served there.
func (o *Operator) Steps() stats.Counts { return o.steps.Read() }

// Started is when the server was made; at any time.
func (o *Operator) Started() time.Time { return o.started }

// Life is how far the server's life is; at any time.
func (o *Operator) Life() *Life { return o.opts.Life }

// Protocols are the names of those that are spoken; at any time.
func (o *Operator) Protocols() (names []string) {
	for _, f := range o.opts.Fronts {
		names = append(names, f.Name())
	}
	return names
}

// MaxJobSize is how many bytes the body of a job may have; at any time.
func (o *Operator) MaxJobSize() uint32 { return o.opts.MaxJobSize() }

// Ready is nil if operations are served; at any time.
func (o *Operator) Ready() error {
	switch life := o.opts.Life; {
	case life.Restarts():
		return wire.Following.With("", "this server leads no more, and begins anew", "try again: another server leads; GET /api/v1/cluster names it")
	case life.Failure() != "":
		return wire.Stopping.Problem("the journal has failed: " + life.Failure())
	case life.Phase() == Starting:
		return wire.Starting.Problem("")
	case life.Phase() == Following:
		return o.Following()
	case life.Phase() == Stopping:
		return wire.Stopping.Problem("")
	}
	return nil
}

// journal is where changes are kept; nil: nowhere.
func (o *Operator) journal() commit.Storage { return o.opts.Host.Journal }

// run runs f with a caller of its own, once one is free.
func (o *Operator) run(ctx context.Context, f func(c *direct.Caller) error) error {
	if err := o.Ready(); err != nil {
		return err
	}
	return o.finish(ctx, f)
}

// read is run for an f that only reads. read returns the result of f, also an error, only if no other server
// leads by then.
func (o *Operator) read(ctx context.Context, f func(c *direct.Caller) error) error {
	if err := o.Ready(); err != nil {
		return err
	}
	err := o.finish(ctx, f)
	if late := o.fence(ctx); late != nil {
		return late
	}
	return err
}

// Confirm returns nil if operations are served, and no other server led when Confirm was called: what was
// read before, of jobs or of this process, is as new as that. The error is a problem.
func (o *Operator) Confirm(ctx context.Context) error {
	if err := o.Ready(); err != nil {
		return err
	}
	return o.fence(ctx)
}

// fence is Confirm for a caller that has seen the server Ready. A server that is alone need not wait, nor a
// leader with a lease. A leader without one waits for a commit, as clients of the protocols do: see
// session.Host.LeaseFence.
func (o *Operator) fence(ctx context.Context) error {
	least := o.opts.Host.LeaseFence
	if least == nil || o.opts.Gate.Committed(ctx, o.journal(), least()) == nil {
		return nil
	}
	if err := o.Ready(); err != nil {
		return err
	}
	return wire.Following.With("", "no majority of the cluster has confirmed that this server leads",
		"try again: it is confirmed, or another server leads soon; GET /api/v1/cluster names it")
}

// finish is run for the end of what was begun, also when the server is about to end, which
// waits for that.
func (o *Operator) finish(ctx context.Context, f func(c *direct.Caller) error) error {
	var c *direct.Caller
	select {
	case c = <-o.callers:
	case <-ctx.Done():
		return wire.Busy.Problem("the operations before this one take too long")
	}
	defer func() { o.callers <- c }()
	return f(c)
}

// change is run for what takes space in the journal: it waits for room first, and for the
// journal afterwards. f reports the commit on which its change depends.
func (o *Operator) change(ctx context.Context, f func(c *direct.Caller) (commit uint64, err error)) error {
	if err := o.Ready(); err != nil {
		return err
	}
	if err := o.opts.Gate.Room(ctx, o.journal()); err != nil {
		return o.noRoom(err)
	}
	return o.durably(ctx, f)
}

// durably is change for what takes no space: it goes on when the disk is full. The caller
// is given back before the journal is waited for, so that many changes share a commit.
func (o *Operator) durably(ctx context.Context, f func(c *direct.Caller) (commit uint64, err error)) error {
	var n uint64
	err := o.run(ctx, func(c *direct.Caller) (err error) {
		n, err = f(c)
		return err
	})
	return o.settled(ctx, n, err)
}

// settled waits until what a change has done may be told. A change that did nothing has only read: see
// read.
func (o *Operator) settled(ctx context.Context, commit uint64, err error) error {
	if err == nil && commit != 0 {
		return o.committed(ctx, commit)
	}
	if late := o.fence(ctx); late != nil {
		return late
	}
	return err
}

// committed waits until a change is as safe as the journal makes it.
func (o *Operator) committed(ctx context.Context, commit uint64) error {
	if o.opts.Gate.Committed(ctx, o.journal(), commit) != nil {
		return uncertain()
	}
	return nil
}

// uncertain is the problem of who waited for the journal.
func uncertain() error {
	return wire.Uncertain.Problem("the journal has not acknowledged the change in time")
}

// isFull reports whether an error says that there is no room.
func isFull(err error) bool {
	p, ok := errors.AsType[*wire.Problem](err)
	return ok && p.Type == wire.ProblemPath+wire.DiskFull.Slug
}

// noRoom returns the problem of a change that waited for room in the journal.
func (o *Operator) noRoom(err error) error {
	if errors.Is(err, direct.ErrFull) {
		return wire.DiskFull.Problem("")
	}
	if err := o.Ready(); err != nil { // the journal has failed, or another server leads
		return err
	}
	return wire.Busy.Problem("the disk is behind")
}

// Draining reports whether new jobs are refused; at any time.
func (o *Operator) Draining() bool { return o.opts.Host.Draining.Load() }

// SetDraining has new jobs refused, or taken again.
func (o *Operator) SetDraining(on bool) {
	o.opts.SetDraining(on)
	action := "undrain"
	if on {
		action = "drain"
	}
	o.deeds.count(action, 0, 0, nil)
}

// DayOf is the time of day at a moment of the server's clock.
func (o *Operator) DayOf(t core.Time) time.Time {
	return time.Unix(0, int64(core.DayOf(t, o.ahead()))).UTC()
}

// AtDay is the moment of the server's clock at a time of day, as far as that is known now.
func (o *Operator) AtDay(day time.Time) core.Time {
	return core.DayOf(core.Time(day.UnixNano()), -o.ahead())
}

// ahead is how far the time of day is ahead of the server's clock.
func (o *Operator) ahead() core.Time {
	var b shard.Batch
	o.opts.Host.Clock.Stamp(&b)
	return b.Ahead
}
