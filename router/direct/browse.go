package direct

import "polystalk/shard/core"

// operate runs the operation of an operator that is in Op.
func (c *Caller) operate(shard int) (s core.Status, commit uint64) {
	r := c.Do(shard)
	s, commit = r.Status, r.Commit
	c.Op().Operator = nil
	return s, commit
}

// ListHead is one visit of core.Op.ListHead; false: there is no such tube.
func (c *Caller) ListHead(tube []byte, s core.State, x *core.OperatorOp) (found bool) {
	c.Op().ListHead(tube, s, x)
	status, _ := c.operate(c.m.OfTube(tube))
	return status != core.StatusNotFound
}

// ListArrivals is one visit of core.Op.ListArrivals; more asks for the same once more. Not
// found: there is no such tube.
func (c *Caller) ListArrivals(tube []byte, s core.State, x *core.OperatorOp) (more, found bool) {
	c.Op().ListArrivals(tube, s, x)
	status, _ := c.operate(c.m.OfTube(tube))
	return status == core.StatusMore, status != core.StatusNotFound
}

// ScanTube is one visit of core.Op.ScanJobs of a tube; more asks for the same once more. Not
// found: there is no such tube.
func (c *Caller) ScanTube(tube []byte, x *core.OperatorOp) (more, found bool) {
	c.Op().ScanJobs(tube, x)
	status, _ := c.operate(c.m.OfTube(tube))
	return status == core.StatusMore, status != core.StatusNotFound
}

// ScanShard is ScanTube of all tubes of a shard.
func (c *Caller) ScanShard(shard int, x *core.OperatorOp) (more bool) {
	c.Op().ScanJobs(nil, x)
	status, _ := c.operate(shard)
	return status == core.StatusMore
}

// PickJobs is one visit of core.Op.PickJobs, of jobs that live in a shard; more asks for the
// same once more.
func (c *Caller) PickJobs(shard int, ids []core.JobID, x *core.OperatorOp) (more bool) {
	c.Op().PickJobs(ids, x)
	status, _ := c.operate(shard)
	return status == core.StatusMore
}

// AskJob appends a job to x.Jobs; false: there is none of that id. It reports on which commit
// depends what it tells.
func (c *Caller) AskJob(id core.JobID, x *core.OperatorOp) (commit uint64, found bool) {
	shard, ok := c.m.OfJob(id)
	if !ok {
		return 0, false
	}
	c.Op().AskJob(id, x)
	status, commit := c.operate(shard)
	return commit, status == core.StatusOK
}
