package ops

import "polystalk/shard/core"

// A directory is what the core of one shard reports to. It is called by the shard's
// owner, and does not wait for a shard. It implements core.Directory by its Tubes,
// core.Finisher and core.BodyHearer.
type directory struct {
	*Tubes
	ended Finisher // the shard's owner's
	freed func(core.Large)
}

// JobFinished implements core.Finisher.
func (d *directory) JobFinished(id core.JobID) { d.ended.Finish(id) }

// BodyFreed implements core.BodyHearer.
func (d *directory) BodyFreed(body core.Large) { d.freed(body) }
