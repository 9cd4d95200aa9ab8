package ops

import (
	"polystalk/shard/core"
)

// A Walk visits all shards, each until its reply is not StatusMore. The caller fills the core.Op,
// and resets its cursor when Next names another shard.
type Walk struct{ at, shards int }

// Start returns the first shard.
func (w *Walk) Start(m *Map) (shard int) {
	w.at, w.shards = 0, len(m.Shards())
	return 0
}

// Next returns the hop after a reply with status s: the same shard in a later turn if there is
// more, else the next shard.
func (w *Walk) Next(s core.Status) Hop {
	if s == core.StatusMore {
		return Hop{w.at, true}
	}
	if w.at++; w.at == w.shards {
		return walkOver
	}
	return Hop{Shard: w.at}
}

// A Kick moves jobs of one tube in bounded visits.
type Kick struct {
	Moved uint32 // jobs so far
}

// Start fills op for the first visit, which is to the shard of the tube.
func (k *Kick) Start(tube core.TubeID, most uint32, op *core.Op) {
	k.Moved = 0
	op.Kick(tube, most)
}

// Next takes a reply. more means that op must visit the same shard again, in a later turn.
func (k *Kick) Next(r *core.Reply, op *core.Op) (more bool) {
	k.Moved += r.N
	if r.Status != core.StatusMore {
		return false
	}
	op.KickOn(r)
	return true
}
