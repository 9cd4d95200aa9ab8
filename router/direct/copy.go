package direct

import "polystalk/shard/core"

// Take does x.Act, of which the verb is VerbRead or VerbTake, to jobs of a shard, and appends
// them to x.Jobs: core.Op.ActOnMany says what may come of it. The journal has made room for
// so many bytes of a large body.
func (c *Caller) Take(shard int, ids []core.JobID, admitted uint32, x *core.OperatorOp) {
	op := c.Op()
	op.ActOnMany(ids, x)
	op.Admitted = admitted
	c.operate(shard)
}

// PutCopies is core.Op.PutCopies of the jobs in x, under new ids in their order: of those that
// were not put, the id is zero. It reports on which commit the copies depend.
func (c *Caller) PutCopies(tube []byte, x *core.OperatorOp) (ids []core.JobID, commit uint64) {
	shard, all := c.m.OfTube(tube), c.m.IDs()
	first := all.Take(len(x.Jobs))
	for k := range x.Jobs {
		id := first + core.JobID(k)
		all.Note(id, shard)
		ids = append(ids, id)
	}
	c.Op().PutCopies(tube, ids, x)
	_, commit = c.operate(shard)
	for k, s := range x.Results {
		if s != core.StatusOK {
			all.Finish(ids[k])
			ids[k] = 0
		}
	}
	return ids, commit
}
