package direct

import (
	"bytes"

	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// ActOn does x.Act to one job: core.Op.ActOnMany says what may come of it. admitted is for
// how many bytes of its body the journal has made room. It reports on which commit the change
// depends.
func (c *Caller) ActOn(id core.JobID, admitted uint32, x *core.OperatorOp) (s core.Status, commit uint64) {
	shard, ok := c.m.OfJob(id)
	if !ok {
		return core.StatusNotFound, 0
	}
	ids := [1]core.JobID{id}
	op := c.Op()
	op.ActOnMany(ids[:], x)
	op.Admitted = admitted
	_, commit = c.operate(shard)
	return x.Results[0], commit
}

// Edit is core.Op.Edit; a new body is copied.
func (c *Caller) Edit(id core.JobID, expect uint64, body []byte, x *core.OperatorOp) (s core.Status, commit uint64) {
	shard, ok := c.m.OfJob(id)
	if !ok {
		return core.StatusNotFound, 0
	}
	body, large := stored(body)
	c.Op().Edit(id, expect, body, large, x)
	s, commit = c.operate(shard)
	op := c.Op()
	op.Body, op.Large = nil, nil
	return s, commit
}

// stored is a body as the core takes it: a large one is a copy, in pieces.
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

// ActOnMany is core.Op.ActOnMany on a shard. It reports on which commit the changes depend.
func (c *Caller) ActOnMany(shard int, ids []core.JobID, x *core.OperatorOp) (commit uint64) {
	c.Op().ActOnMany(ids, x)
	_, commit = c.operate(shard)
	return commit
}
