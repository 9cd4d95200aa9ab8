package http

import (
	"context"
	"net/http"
	"strconv"

	wire "polystalk/codec/admin"
	"polystalk/shard/core"
)

func (a *API) moveJob(c *Call) error { return transferJob(c, a.op.MoveJob) }
func (a *API) copyJob(c *Call) error { return transferJob(c, a.op.CopyJob) }

// transferJob moves or copies the job in the path to the tube in the body.
func transferJob(c *Call, do func(ctx context.Context, id core.JobID, to string) (core.JobID, error)) error {
	var in wire.NewTransfer
	if _, err := c.Query(); err != nil {
		return err
	}
	id, err := jobOf(c)
	if err != nil {
		return err
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	if in.To == nil {
		return noTarget()
	}
	is, err := do(c.Ctx, id, *in.To)
	if err != nil {
		return err
	}
	c.Affected = 1
	c.W.Header().Set("Location", "../"+strconv.FormatUint(uint64(is), 10))
	return c.Answer(http.StatusCreated, wire.Transfer{ID: uint64(is), From: uint64(id), Tube: wire.ShownName(*in.To), Path: wire.PathName(*in.To)})
}

// noTarget is the problem of a move or a copy to nowhere.
func noTarget() error {
	return wire.Invalid.With("to", "there is no tube to which", "give the name of a tube, which is made if need be")
}
