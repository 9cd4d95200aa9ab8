// Package admin runs operators' requests on a server, without HTTP: package http calls it.
//
//	http ──► Operator ──► direct.Caller ──► shards
//	             ├──────► session.Loop: connections, a bounded number in each turn
//	             ├──────► Life: the phase of the server, and its failure
//	             └──────► Sample: the figures at one time, shared by all callers
//
// No caller is an event loop, so all may block: for a shard, the journal, or memory. Each
// operation visits shards for a bounded time, so clients are not delayed. A change is reported
// once the journal has acknowledged it. An operation of several visits that belong together, such
// as a move of jobs to another tube, is completed even after the end of its context. Errors are of
// type *admin.Problem (package codec/admin), each with a remedy.
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

// Options has the parts of a server that an Operator needs. All are required, except Turn,
// Cluster, and Followed without a Cluster.
type Options struct {
	Host   *session.Host
	Life   *Life
	Gate   *direct.Gate    // woken by the journal
	Fronts []session.Front // the protocols, in the order of their command counters
	// LoopsTurn waits until every event loop has had a turn. The error names the loops without a
	// turn before ctx ended.
	LoopsTurn       func(ctx context.Context) error
	ConnectionLimit func() (n int, from string)
	SetDraining     func(bool)    // refuses new jobs, or accepts them again
	MaxJobSize      func() uint32 // bytes of a job's body
	// Turn, if not nil, is called instead of time.Sleep: see direct.Caller.TakeTurns.
	Turn     func()
	Cluster  Cluster               // nil: the server is alone
	Followed func() commit.Storage // returns the journal in the phase Following
}

// callersMost is the largest number of operations that run at the same time; others wait. More
// would not be faster: each uses a processor, and the event loops need all processors.
const callersMost = 4

// An Operator runs operators' requests. Any goroutine may use it at any time. In other phases than
// Serving, most methods return the problem of Ready.
type Operator struct {
	opts    Options
	started time.Time
	callers chan *direct.Caller // the free callers
	samples cached[Sample]
	tubes   cached[TubeSample]
	checks  cached[[]wire.Check]
	counts  counts
	steps   stats.Histogram

	changedPolicies policyChanges
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

// Steps returns the times that operations have owned a shard, one for each visit. The shard serves
// no client meanwhile.
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
		return wire.Following.With("", "this server is not the leader any more, and restarts", "try again: another server leads; GET /api/v1/cluster names it")
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

// journal returns the journal; nil: there is none.
func (o *Operator) journal() commit.Storage { return o.opts.Host.Journal }

// run calls f with a free caller.
func (o *Operator) run(ctx context.Context, f func(c *direct.Caller) error) error {
	if err := o.Ready(); err != nil {
		return err
	}
	return o.finish(ctx, f)
}

// finish is run for the last part of an operation. It also works while the server stops, since the
// server waits for operations.
func (o *Operator) finish(ctx context.Context, f func(c *direct.Caller) error) error {
	var c *direct.Caller
	select {
	case c = <-o.callers:
	case <-ctx.Done():
		return wire.Busy.Problem("the operations before this one take too long")
	}
	defer func() {
		c.Op() // drop references to the values of f
		o.callers <- c
	}()
	return f(c)
}

// read is run for an f that changes nothing. It returns f's result, also an error, only if no other
// server leads after f.
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

// Confirm returns nil if the server runs operations, and no other server led at the time of the
// call. Then values that were read before were current when they were read. The error is a problem.
func (o *Operator) Confirm(ctx context.Context) error {
	if err := o.Ready(); err != nil {
		return err
	}
	return o.fence(ctx)
}

// fence is Confirm for a caller for which Ready has returned nil. A server that is alone, or leads
// with a lease, need not wait. A leader without a lease waits for a commit, like replies to clients
// of the protocols: see session.Host.LeaseFence.
func (o *Operator) fence(ctx context.Context) error {
	least := o.opts.Host.LeaseFence
	if least == nil || o.opts.Gate.Committed(ctx, o.journal(), least()) == nil {
		return nil
	}
	if err := o.Ready(); err != nil {
		return err
	}
	return wire.Following.With("", "no majority of the cluster has confirmed that this server leads",
		"try again: soon it is confirmed, or another server leads; GET /api/v1/cluster names it")
}

// change runs f once the journal has space, and waits until the commit that f returns is
// acknowledged. f may record at most size bytes of a body and a tube's name.
func (o *Operator) change(ctx context.Context, size int, f func(c *direct.Caller) (commit uint64, err error)) error {
	return o.withRoom(ctx, size, func() error { return o.durably(ctx, f) })
}

// withRoom calls f once the journal has space for size bytes of a body and a tube's name.
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
	if size > slab.MaxSize { // smaller records need no reserved space
		var claim commit.Claim
		if err := o.opts.Gate.Claim(ctx, storage, &claim, int64(size+claimHead)); err != nil {
			return o.noRoom(err)
		}
		defer storage.Release(&claim)
	}
	return f()
}

// claimHead is an upper bound of the size of a job's record without its body and the name of its
// tube, in bytes.
const claimHead = 256

// noRoom returns the problem of a change that has waited for space in the journal.
func (o *Operator) noRoom(err error) error {
	if errors.Is(err, direct.ErrFull) {
		return wire.DiskFull.Problem("")
	}
	if err := o.Ready(); err != nil { // the journal has failed, or another server leads
		return err
	}
	return wire.Busy.Problem("the disk is behind")
}

// durably is change for an f that needs no space: it works on a full disk. It frees the caller
// before it waits for the journal, so that many changes share a commit.
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

// restMost is the longest rest between two visits.
const restMost = time.Millisecond

// rest leaves a shard to others for as long as the visit that began at start.
func (o *Operator) rest(start time.Time) { o.sleep(min(time.Since(start), restMost)) }

// sleep leaves the shards to others for a while.
func (o *Operator) sleep(d time.Duration) {
	if o.opts.Turn != nil {
		o.opts.Turn()
		return
	}
	time.Sleep(d)
}

// await waits until done is closed. It returns false if ctx ends first.
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

// AtDay returns the moment of the server's clock at a time of day, by the current offset.
func (o *Operator) AtDay(day time.Time) core.Time {
	return core.DayOf(core.Time(day.UnixNano()), -o.ahead())
}

// ahead returns how far the time of day is ahead of the server's clock.
func (o *Operator) ahead() core.Time {
	var b shard.Batch
	o.opts.Host.Clock.Stamp(&b)
	return b.Ahead
}

// Used returns the jobs of a class of tubes, and the bytes of their bodies.
func (o *Operator) Used(class uint16) (jobs, bytes int64) { return o.opts.Host.Map.Used(class) }

// Awake returns the time of the server's clock that does not count suspends.
func (o *Operator) Awake() core.Time { return o.opts.Host.Clock.Awake() }
