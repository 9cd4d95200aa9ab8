package ops

import "polystalk/shard/core"

// Numbers gives out ids for jobs of one shard, one at a time. It implements
// core.Numbers, and may be called by the shard's owner.
type Numbers struct {
	ids   *IDs
	shard int
}

// NextID gives out an id and notes its shard.
func (n *Numbers) NextID() core.JobID {
	id := n.ids.Take(1)
	n.ids.Note(id, n.shard)
	return id
}
