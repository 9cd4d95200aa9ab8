package ops

import (
	"polystalk/shard/core"
)

// A Walk visits all shards, each until it has no more: what they have is added up, or
// shown part by part. What is asked for is the caller's; so are the fields of the core.Op
// that a shard leaves off and goes on with, which are to be reset when Visit names
// another shard.
type Walk struct {
	at, shards int
}

// Start names the first shard.
func (w *Walk) Start(m *Map) (shard int) {
	w.at, w.shards = 0, len(m.Shards())
	return 0
}

// Next is what follows a reply with that status: the same shard again, later, when there
// is more; else the next one.
func (w *Walk) Next(s core.Status) Hop {
	if s == core.StatusMore {
		return Hop{w.at, true}
	}
	if w.at++; w.at == w.shards {
		return walkOver
	}
	return Hop{Shard: w.at}
}

// A Kick moves jobs of one tube, in as many visits as the work is bounded to.
type Kick struct {
	Moved uint32 // jobs so far
}

// Start fills op for the first visit, which is to the shard of the tube.
func (k *Kick) Start(tube core.TubeID, most uint32, op *core.Op) {
	k.Moved = 0
	op.Kick(tube, most)
}

// Next takes a reply, and reports whether the same shard is to be visited again, later:
// op says with what.
func (k *Kick) Next(r *core.Reply, op *core.Op) (more bool) {
	k.Moved += r.N
	if r.Status != core.StatusMore {
		return false
	}
	op.KickOn(r)
	return true
}
