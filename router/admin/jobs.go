package admin

import (
	"context"
	"fmt"
	"math"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// claimHead bytes are more than a job takes in the journal besides its body and the name
// of its tube.
const claimHead = 256

// A NewJob is a job to be put. Delay and time to run are seconds.
type NewJob struct {
	Tube            string
	Pri, Delay, TTR uint32
	Body            []byte
}

// Put adds a job, and returns its id once that is durable.
func (o *Operator) Put(ctx context.Context, j NewJob) (id core.JobID, err error) {
	defer o.did("put", &err)
	if err := checkSize(j.Body, o.opts.MaxJobSize()); err != nil {
		return 0, err
	}
	if err := checkName("tube", j.Tube); err != nil {
		return 0, err
	}
	if err := o.Ready(); err != nil {
		return 0, err
	}
	var claim commit.Claim
	if storage := o.journal(); storage != nil && len(j.Body) > slab.MaxSize {
		if err := o.opts.Gate.Claim(ctx, storage, &claim, int64(len(j.Body)+len(j.Tube)+claimHead)); err != nil {
			return 0, o.noRoom(err)
		}
		defer storage.Release(&claim)
	}
	err = o.change(ctx, func(c *direct.Caller) (uint64, error) {
		if o.Draining() {
			return 0, wire.Draining.Problem("")
		}
		var n uint64
		var ok bool
		if id, n, ok = c.Put([]byte(j.Tube), j.Pri, j.Delay, max(1, j.TTR), j.Body); !ok {
			return 0, wire.OutOfMemory.Problem("")
		}
		return n, nil
	})
	return id, err
}

// noJob is the problem of who names a job that is not there.
func noJob(id core.JobID) error {
	return wire.NotFound.Problem(fmt.Sprintf("there is no job %d", id))
}

// Job is what there is to tell about one, once that is durable, and at most so many bytes of
// its body. The version is another whenever anything about the job is, and that of this
// process alone.
func (o *Operator) Job(ctx context.Context, id core.JobID, body uint32) (row JobRow, version uint64, err error) {
	row, large, version, err := o.job(ctx, id, body)
	if large != nil {
		row.Body = beginning(large, int(body))
	}
	return row, version, err
}

// WholeJob is Job with all of its body, in pieces: of a large one those of the job itself, which
// are not to be changed.
func (o *Operator) WholeJob(ctx context.Context, id core.JobID) (row JobRow, body core.Large, version uint64, err error) {
	row, body, version, err = o.job(ctx, id, math.MaxUint32)
	if body == nil {
		body = core.Large{row.Body}
	}
	return row, body, version, err
}

// job is Job, without what there is of a large body.
func (o *Operator) job(ctx context.Context, id core.JobID, body uint32) (row JobRow, large core.Large, version uint64, err error) {
	var commit uint64
	err = o.read(ctx, func(c *direct.Caller) (err error) {
		x := core.OperatorOp{Body: body}
		var ok bool
		if commit, ok = c.AskJob(id, &x); !ok {
			return noJob(id)
		}
		row, version = JobRow{JobRow: x.Jobs[0], Body: x.Bodies}, x.Version
		large, row.Large = row.Large, nil
		return nil
	})
	if err == nil {
		err = o.committed(ctx, commit)
	}
	if err == nil && row.Conn != 0 {
		row.Peer = o.peers(ctx, []uint64{row.Conn})[row.Conn]
	}
	return row, large, version, err
}
