package direct

import "polystalk/shard/core"

// Condemn is core.Op.Condemn.
func (c *Caller) Condemn(tube []byte, states core.States, x *core.OperatorOp) core.Status {
	c.Op().Condemn(tube, states, x)
	s, _ := c.operate(c.m.OfTube(tube))
	return s
}

// CountCondemned is core.Op.CountCondemned; false: there is no such tube.
func (c *Caller) CountCondemned(tube []byte, states core.States, x *core.OperatorOp) (found bool) {
	c.Op().CountCondemned(tube, states, x)
	s, _ := c.operate(c.m.OfTube(tube))
	return s == core.StatusOK
}

// Reclaimed is core.Op.AskReclaimed in the shard of a tube. Once all is, it reports on which
// commit that depends.
func (c *Caller) Reclaimed(tube []byte, ticket uint64) (commit uint64, all bool) {
	c.Op().AskReclaimed(ticket)
	s, commit := c.operate(c.m.OfTube(tube))
	return commit, s == core.StatusOK
}

// Sweep is one visit of core.Op.Sweep. It reports to how many jobs it has done x.Act, and on
// which commit that depends.
func (c *Caller) Sweep(tube []byte, s core.State, x *core.OperatorOp) (status core.Status, n uint32, commit uint64) {
	c.Op().Sweep(tube, s, x)
	r := c.Do(c.m.OfTube(tube))
	status, n, commit = r.Status, r.N, r.Commit
	c.Op().Operator = nil
	return status, n, commit
}
