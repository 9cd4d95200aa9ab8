// Package admin does what operators ask of a server, however they ask: package http serves
// it.
//
//	http ──► Operator ──► direct.Caller ──► shards
//	             ├──────► session.Loop: connections, a bounded number in each turn
//	             ├──────► Life: how far the start is, and why the server ends
//	             └──────► Sample: the figures of one moment, shared by all callers
//
// No caller is an event loop, so all may block: for a shard, the journal, or memory. Each
// operation visits shards for a bounded time, so clients are not delayed. A change is
// reported once the journal has acknowledged it. An operation of several visits that belong
// together, such as moving jobs to another tube, runs to its end even if its caller has
// gone. Errors are of type *admin.Problem (package codec/admin), each with a remedy.
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
	"polystalk/shard/slab"
	"polystalk/shard/stats"
)

// Options are the parts of a server that an Operator works on. All must be given, except
// Turn, Cluster, and Followed without a Cluster.
type Options struct {
	Host   *session.Host
	Life   *Life
	Gate   *direct.Gate    // the journal wakes it
	Fronts []session.Front // the protocols, in the order in which their kinds are counted
	// LoopsTurn waits until every event loop has had a turn. The error names the loops that
	// had none before ctx ended.
	LoopsTurn       func(ctx context.Context) error
	ConnectionLimit func() (n int, from string)
	SetDraining     func(bool)    // refuses new jobs, or accepts them again
	MaxJobSize      func() uint32 // bytes of a job's body
	// Turn, if not nil, is called instead of sleeping: see direct.Caller.TakeTurns.
	Turn     func()
	Cluster  Cluster               // nil: the server is alone
	Followed func() commit.Storage // keeps the leader's jobs in the phase Following
}

// callersMost is how many operations run at a time; others wait. More would not be quicker:
// each uses a processor, and the event loops need them all.
const callersMost = 4

// An Operator runs operators' requests. Any goroutine may use it at any time. Before the
// server serves, most methods return the problem that Ready reports.
type Operator struct {
	opts    Options
	started time.Time
	callers chan *direct.Caller // the free ones
	samples cached[Sample]
	tubes   cached[TubeSample]
	checks  cached[[]wire.Check]
	counts  counts
	steps   stats.Histogram
}

// New makes the operator of a server.
func New(o Options) *Operator {
	if o.Cluster == nil {
		o.Cluster = alone{}
	}
	op := &Operator{opts: o, started: time.Now(), callers: make(chan *direct.Caller, callersMost)}
	op.counts.init()
	for range callersMost {
		c := direct.New(o.Host.Map, o.Host.Clock)
		c.Steps = &op.steps
		c.TakeTurns(o.Turn)
		op.callers <- c
	}
	return op
}

// Steps returns how long operations have owned shards, one value for each visit. A shard
// serves no client meanwhile.
func (o *Operator) Steps() stats.Counts { return o.steps.Read() }

// Started returns when the server was made.
func (o *Operator) Started() time.Time { return o.started }

// Life returns the server's phase.
func (o *Operator) Life() *Life { return o.opts.Life }

// Protocols returns the names of the server's protocols.
func (o *Operator) Protocols() (names []string) {
	for _, f := range o.opts.Fronts {
		names = append(names, f.Name())
	}
	return names
}

// MaxJobSize returns the largest size of a job's body in bytes.
func (o *Operator) MaxJobSize() uint32 { return o.opts.MaxJobSize() }

// Ready returns nil if the server runs operations.
func (o *Operator) Ready() error {
	switch life := o.opts.Life; {
	case life.restarts():
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

// journal returns where changes are kept; nil: nowhere.
func (o *Operator) journal() commit.Storage { return o.opts.Host.Journal }

// run calls f with a free caller.
func (o *Operator) run(ctx context.Context, f func(c *direct.Caller) error) error {
	if err := o.Ready(); err != nil {
		return err
	}
	return o.finish(ctx, f)
}

// finish is run for the end of an operation that has begun. It works while the server stops,
// too: the server waits for it.
func (o *Operator) finish(ctx context.Context, f func(c *direct.Caller) error) error {
	var c *direct.Caller
	select {
	case c = <-o.callers:
	case <-ctx.Done():
		return wire.Busy.Problem("the operations before this one take too long")
	}
	defer func() {
		c.Op() // so that the caller refers to nothing of f
		o.callers <- c
	}()
	return f(c)
}

// read is run for an f that changes nothing. It returns f's result, even an error, only if
// no other server leads by then.
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

// Confirm returns nil if the server runs operations, and no other server led when Confirm
// was called. Then everything that was read before, of jobs or of this process, is as new as
// that. The error is a problem.
func (o *Operator) Confirm(ctx context.Context) error {
	if err := o.Ready(); err != nil {
		return err
	}
	return o.fence(ctx)
}

// fence is Confirm for a caller that has seen the server Ready. A server that is alone, or
// leads with a lease, need not wait. A leader without a lease waits for a commit, as clients
// of the protocols do: see session.Host.LeaseFence.
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

// change runs f, which records at most size bytes of a body and a tube's name, once there is
// room in the journal, and waits until the commit that f returns is acknowledged.
func (o *Operator) change(ctx context.Context, size int, f func(c *direct.Caller) (commit uint64, err error)) error {
	return o.withRoom(ctx, size, func() error { return o.durably(ctx, f) })
}

// withRoom calls f once the journal has room for size bytes of a body and a tube's name.
func (o *Operator) withRoom(ctx context.Context, size int, f func() error) error {
	if err := o.Ready(); err != nil {
		return err
	}
	storage := o.journal()
	if storage == nil {
		return f()
	}
	if err := o.opts.Gate.Room(ctx, storage); err != nil {
		return o.noRoom(err)
	}
	if size > slab.MaxSize { // smaller records come in one piece
		var claim commit.Claim
		if err := o.opts.Gate.Claim(ctx, storage, &claim, int64(size+claimHead)); err != nil {
			return o.noRoom(err)
		}
		defer storage.Release(&claim)
	}
	return f()
}

// claimHead bytes are more than a job takes in the journal besides its body and the name
// of its tube.
const claimHead = 256

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

// isProblem reports whether err is a problem of a kind.
func isProblem(err error, kind *wire.Kind) bool {
	p, ok := errors.AsType[*wire.Problem](err)
	return ok && p.Type == wire.ProblemPath+kind.Slug
}

// durably is change for an f that takes no space: it works when the disk is full. It gives
// the caller back before it waits for the journal, so that many changes share a commit.
func (o *Operator) durably(ctx context.Context, f func(c *direct.Caller) (commit uint64, err error)) error {
	var n uint64
	err := o.run(ctx, func(c *direct.Caller) (err error) {
		n, err = f(c)
		return err
	})
	return o.settled(ctx, n, err)
}

// settled waits until the result of a change may be reported. If nothing was changed, the
// result counts as a read.
func (o *Operator) settled(ctx context.Context, commit uint64, err error) error {
	if err == nil && commit != 0 {
		return o.committed(ctx, commit)
	}
	if late := o.fence(ctx); late != nil {
		return late
	}
	return err
}

// committed waits until the journal acknowledges a commit.
func (o *Operator) committed(ctx context.Context, commit uint64) error {
	if o.opts.Gate.Committed(ctx, o.journal(), commit) != nil {
		return wire.Uncertain.Problem("the journal has not acknowledged the change in time")
	}
	return nil
}

// restMost is how long a shard is left to others at most between two visits.
const restMost = time.Millisecond

// rest leaves a shard to others for as long as the visit that began at start has taken.
func (o *Operator) rest(start time.Time) { o.sleep(min(time.Since(start), restMost)) }

// sleep leaves the shards to others for a while.
func (o *Operator) sleep(d time.Duration) {
	if o.opts.Turn != nil {
		o.opts.Turn()
		return
	}
	time.Sleep(d)
}

// await waits until done is closed. It returns false if ctx has ended before.
func (o *Operator) await(ctx context.Context, done <-chan struct{}) bool {
	for o.opts.Turn != nil && ctx.Err() == nil {
		select {
		case <-done:
			return true
		default:
			o.opts.Turn()
		}
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Draining reports whether the server refuses new jobs.
func (o *Operator) Draining() bool { return o.opts.Host.Draining.Load() }

// SetDraining makes the server refuse new jobs, or accept them again.
func (o *Operator) SetDraining(on bool) {
	o.opts.SetDraining(on)
	action := "undrain"
	if on {
		action = "drain"
	}
	o.counts.add(action, 0, 0, nil)
}

// DayOf returns the time of day at a moment of the server's clock.
func (o *Operator) DayOf(t core.Time) time.Time {
	return time.Unix(0, int64(core.DayOf(t, o.ahead()))).UTC()
}

// AtDay returns the moment of the server's clock at a time of day, as far as it is known now.
func (o *Operator) AtDay(day time.Time) core.Time {
	return core.DayOf(core.Time(day.UnixNano()), -o.ahead())
}

// ahead returns how far the time of day is ahead of the server's clock.
func (o *Operator) ahead() core.Time {
	var b shard.Batch
	o.opts.Host.Clock.Stamp(&b)
	return b.Ahead
}
