package admin

import (
	"context"
	"fmt"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// An Edit is what is to be changed in a job. What workers have is left alone unless Force is
// set.
type Edit struct {
	core.Action
	Body   []byte // if Changes has ChangeBody
	Expect uint64 // the version that the job must have; zero: any
}

// Edit changes a job, and returns its new version once that is durable; zero: it is gone by
// then.
func (o *Operator) Edit(ctx context.Context, id core.JobID, e *Edit) (version uint64, err error) {
	defer o.did("set", &err)
	if err := checkSize(e.Body, o.opts.MaxJobSize()); err != nil {
		return 0, err
	}
	var size int
	if e.Changes&(core.ChangeBody|core.ChangeTTR) != 0 { // then it is recorded as a whole
		row, _, err := o.Job(ctx, id, 0)
		if err != nil {
			return 0, err
		}
		size = len(row.Tube) + max(len(e.Body), int(row.Size))
	}
	err = o.withRoom(ctx, size, func(c *direct.Caller) (uint64, error) {
		x := core.OperatorOp{Act: e.Action}
		s, n := c.Edit(id, e.Expect, e.Body, &x)
		version = x.Version
		return n, refused(c, id, s)
	})
	return version, err
}

// checkSize refuses a body that is too large for a job.
func checkSize(body []byte, most uint32) error {
	if len(body) <= int(most) {
		return nil
	}
	return wire.TooLarge.With("body", fmt.Sprintf("the body has %d bytes, at most %d are taken", len(body), most), wire.TooLarge.Remedy)
}

// withRoom is change for what may have so many bytes recorded, of a body and the name of a
// tube: for many there must be room before anything is changed.
func (o *Operator) withRoom(ctx context.Context, size int, f func(c *direct.Caller) (commit uint64, err error)) error {
	if err := o.Ready(); err != nil {
		return err
	}
	var claim commit.Claim
	if storage := o.journal(); storage != nil && size > slab.MaxSize {
		if err := o.opts.Gate.Claim(ctx, storage, &claim, int64(size+claimHead)); err != nil {
			return o.noRoom(err)
		}
		defer storage.Release(&claim)
	}
	return o.change(ctx, f)
}

// Delete deletes a job; force: also one that a worker has, whose word is not heard any more
// then. It goes on when the disk is full.
func (o *Operator) Delete(ctx context.Context, id core.JobID, force bool) (err error) {
	defer o.did("delete", &err)
	return o.durably(ctx, act(id, core.Action{Verb: core.VerbDelete, Force: force}, 0))
}

// KickJob makes a buried or delayed job ready.
func (o *Operator) KickJob(ctx context.Context, id core.JobID) (err error) {
	defer o.did("kick", &err)
	return o.change(ctx, act(id, core.Action{Verb: core.VerbKick}, 0))
}

// ReleaseJob takes a job from the worker that has it: it is ready again.
func (o *Operator) ReleaseJob(ctx context.Context, id core.JobID) (err error) {
	defer o.did("release", &err)
	return o.change(ctx, act(id, core.Action{Verb: core.VerbRelease, Force: true}, 0))
}

// BuryJob puts a job aside; force: also one that a worker has, whose word is not heard any
// more then.
func (o *Operator) BuryJob(ctx context.Context, id core.JobID, force bool) (err error) {
	defer o.did("bury", &err)
	return o.bury(ctx, id, force)
}

func (o *Operator) bury(ctx context.Context, id core.JobID, force bool) error {
	row, _, err := o.Job(ctx, id, 0)
	if err != nil {
		return err
	}
	// One that was submitted, and was not kept so far, is recorded as a whole.
	return o.withRoom(ctx, len(row.Tube)+int(row.Size), act(id, core.Action{Verb: core.VerbBury, Force: force}, row.Size))
}

// act does something to a job, for whose body there is so much room.
func act(id core.JobID, a core.Action, room uint32) func(c *direct.Caller) (uint64, error) {
	return func(c *direct.Caller) (uint64, error) {
		s, n := c.ActOn(id, room, &core.OperatorOp{Act: a})
		return n, refused(c, id, s)
	}
}

// refused is the problem of what was not done to a job, and nil of what was.
func refused(c *direct.Caller, id core.JobID, s core.Status) error {
	switch s {
	case core.StatusOK:
		return nil
	case core.StatusInUse:
		return wire.JobReserved.Problem(fmt.Sprintf("job %d is reserved", id))
	case core.StatusChanged:
		return wire.Changed.Problem(fmt.Sprintf("job %d is not what it was", id))
	case core.StatusMoving:
		return wire.JobMoved.Problem(fmt.Sprintf("job %d is being moved to another tube", id))
	case core.StatusAwaited:
		return wire.Awaited.Problem(fmt.Sprintf("job %d has a client that waits for its result", id))
	case core.StatusOutOfMemory:
		return wire.OutOfMemory.Problem("")
	case core.StatusUnfit:
		if row, ok := c.StatsJob(id); ok {
			return wire.JobMoved.Problem(fmt.Sprintf("job %d is %v", id, row.State))
		}
	case core.StatusUnadmitted: // its body has changed meanwhile
		return wire.Changed.Problem(fmt.Sprintf("job %d is not what it was", id))
	}
	return noJob(id)
}
