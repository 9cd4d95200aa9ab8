package admin

import (
	"bytes"
	"context"
	"fmt"
	"math"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// A NewJob is a job to put. Delay and TTR are seconds.
type NewJob struct {
	Tube            string
	Pri, Delay, TTR uint32
	Body            []byte
}

// Put puts a job into a tube, and returns its id once it is durable. The tube is created if it
// does not exist.
func (o *Operator) Put(ctx context.Context, j NewJob) (id core.JobID, err error) {
	defer o.did("put", &err)
	if err := checkSize(j.Body, o.opts.MaxJobSize()); err != nil {
		return 0, err
	}
	if err := checkName("tube", j.Tube); err != nil {
		return 0, err
	}
	err = o.change(ctx, len(j.Tube)+len(j.Body), func(c *direct.Caller) (uint64, error) {
		if o.Draining() {
			return 0, wire.Draining.Problem("")
		}
		m := o.opts.Host.Map
		name := []byte(j.Tube)
		shard := m.OfTube(name)
		id = m.Numbers(shard).NextID()
		c.Op().Use(name, 0)
		used := c.Do(shard).Tube
		body, large := stored(j.Body)
		c.Op().Put(used, id, j.Pri, j.Delay, max(1, j.TTR), body, large)
		r := c.Do(shard)
		status, commit := r.Status, r.Commit
		c.Op().Unuse(used)
		c.Do(shard)
		if status != core.StatusOK {
			m.IDs().Finish(id)
			id = 0
			return 0, notPut(status)
		}
		return commit, nil
	})
	return id, err
}

// notPut returns the problem of a job that was not put, for the reason s.
func notPut(s core.Status) *wire.Problem {
	if s == core.StatusFull {
		return wire.TubeFull.Problem("")
	}
	return wire.OutOfMemory.Problem("")
}

// pieceMax is the largest piece of a large body, in bytes.
const pieceMax = 1 << 20

// stored returns a body in the form that the core takes: a large body is copied, in pieces.
func stored(body []byte) ([]byte, core.Large) {
	if len(body) <= slab.MaxSize {
		return body, nil
	}
	var large core.Large
	for at := 0; at < len(body); at += pieceMax {
		large = append(large, bytes.Clone(body[at:min(at+pieceMax, len(body))]))
	}
	return nil, large
}

// checkSize refuses a body that is too large for a job.
func checkSize(body []byte, most uint32) error {
	if len(body) <= int(most) {
		return nil
	}
	return wire.TooLarge.With("body", fmt.Sprintf("the body has %d bytes, and the limit is %d", len(body), most), wire.TooLarge.Remedy)
}

// NoJob returns the problem of a request for a job that does not exist.
func NoJob(id core.JobID) error {
	return wire.NotFound.Problem(fmt.Sprintf("there is no job %d", id))
}

// Job returns a durable job, with at most body bytes of its body. The version changes with every
// change of the job, and is valid in this process only.
func (o *Operator) Job(ctx context.Context, id core.JobID, body uint32) (row JobRow, version uint64, err error) {
	row, large, version, err := o.job(ctx, id, body)
	if large != nil {
		row.Body = beginning(large, int(body))
	}
	return row, version, err
}

// WholeJob is Job with the whole body, in pieces. The caller must not change the body: a large
// one is the job's own memory.
func (o *Operator) WholeJob(ctx context.Context, id core.JobID) (row JobRow, body core.Large, version uint64, err error) {
	row, body, version, err = o.job(ctx, id, math.MaxUint32)
	if body == nil {
		body = core.Large{row.Body}
	}
	return row, body, version, err
}

// job is Job, but returns a large body in large.
func (o *Operator) job(ctx context.Context, id core.JobID, body uint32) (row JobRow, large core.Large, version uint64, err error) {
	var commit uint64
	err = o.read(ctx, func(c *direct.Caller) (err error) {
		x := core.OperatorOp{Body: body}
		c.Op().AskJob(id, &x)
		r := c.DoJob(id)
		if commit = r.Commit; r.Status != core.StatusOK {
			return NoJob(id)
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

// An Edit is a change of a job. A reserved job is not changed unless Force is set.
type Edit struct {
	core.Action
	Body   []byte // if Changes has ChangeBody
	Expect uint64 // the version that the job must have; zero: any
	// Limit returns an error if the tube has no room for bytes more in its bodies.
	Limit func(tube string, bytes int) error
}

// Edit changes a job and returns its new version once the change is durable; zero: the job was
// deleted meanwhile.
func (o *Operator) Edit(ctx context.Context, id core.JobID, e *Edit) (version uint64, err error) {
	defer o.did("set", &err)
	if err := checkSize(e.Body, o.opts.MaxJobSize()); err != nil {
		return 0, err
	}
	var size int
	if e.Changes&(core.ChangeBody|core.ChangeTTR) != 0 { // these record the whole job
		row, _, err := o.Job(ctx, id, 0)
		if err != nil {
			return 0, err
		}
		if more := len(e.Body) - int(row.Size); more > 0 && e.Limit != nil {
			if err := e.Limit(row.Tube, more); err != nil {
				return 0, err
			}
		}
		size = len(row.Tube) + max(len(e.Body), int(row.Size))
	}
	err = o.change(ctx, size, func(c *direct.Caller) (uint64, error) {
		x := core.OperatorOp{Act: e.Action}
		body, large := stored(e.Body)
		c.Op().Edit(id, e.Expect, body, large, &x)
		r := c.DoJob(id)
		version = x.Version
		return r.Commit, o.refused(c, id, r.Status)
	})
	return version, err
}

// Act deletes, kicks, releases or buries a job. With force, it also deletes or buries a reserved
// job. A worker that has lost its job can no longer change it. A delete works on a full disk.
func (o *Operator) Act(ctx context.Context, id core.JobID, verb core.Verb, force bool) (err error) {
	a := core.Action{Verb: verb, Force: force || verb == core.VerbRelease}
	defer o.did(Verb{a}.Name(), &err)
	var row JobRow
	if verb == core.VerbBury { // it records the whole job if a Gearman client waits for it
		if row, _, err = o.Job(ctx, id, 0); err != nil {
			return err
		}
	}
	act := func(c *direct.Caller) (uint64, error) {
		s, commit := actOn(c, id, row.Size, &core.OperatorOp{Act: a})
		return commit, o.refused(c, id, s)
	}
	if verb == core.VerbDelete {
		return o.durably(ctx, act)
	}
	return o.change(ctx, len(row.Tube)+int(row.Size), act)
}

// actOn runs x.Act on one job. It returns the result, and the commit that it depends on.
func actOn(c *direct.Caller, id core.JobID, admitted uint32, x *core.OperatorOp) (core.Status, uint64) {
	op := c.Op()
	op.ActOnMany([]core.JobID{id}, x)
	op.Admitted = admitted
	if r := c.DoJob(id); len(x.Results) > 0 {
		return x.Results[0], r.Commit
	}
	return core.StatusNotFound, 0
}

// refused returns the problem of a job that was not changed for the reason s; nil if s is OK.
func (o *Operator) refused(c *direct.Caller, id core.JobID, s core.Status) error {
	switch s {
	case core.StatusOK:
		return nil
	case core.StatusInUse:
		return wire.JobReserved.Problem(fmt.Sprintf("job %d is reserved", id))
	case core.StatusChanged, core.StatusUnadmitted: // another change came first
		return wire.Changed.Problem(fmt.Sprintf("job %d has changed meanwhile", id))
	case core.StatusMoving:
		return wire.JobMoved.Problem(fmt.Sprintf("job %d is being moved to another tube", id))
	case core.StatusAwaited:
		return wire.Awaited.Problem(fmt.Sprintf("a client waits for the result of job %d", id))
	case core.StatusOutOfMemory, core.StatusFull:
		return notPut(s)
	case core.StatusUnfit:
		var stats core.JobStats
		c.Op().StatsJob(0, id, &stats)
		if c.DoJob(id).Status == core.StatusOK {
			return wire.JobMoved.Problem(fmt.Sprintf("job %d is %v", id, stats.State))
		}
	}
	return NoJob(id)
}
