package direct

import "polystalk/shard/core"

// AskHolders fills in what clients of a shard have there.
func (c *Caller) AskHolders(shard int, list []core.Holder) {
	x := core.OperatorOp{Holders: list}
	for more := true; more; {
		c.Op().AskHolders(&x)
		status, _ := c.operate(shard)
		more = status == core.StatusMore
	}
}

// ListHeld is one visit of core.Op.ListHeld; more asks for the same once more.
func (c *Caller) ListHeld(shard int, client core.ClientID, conn uint64, x *core.OperatorOp) (more bool) {
	c.Op().ListHeld(client, conn, x)
	status, _ := c.operate(shard)
	return status == core.StatusMore
}
