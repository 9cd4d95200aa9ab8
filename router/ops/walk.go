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

// A Leave releases everything that a client has, and makes the shards forget it. The order is
// beanstalkd's (conn.c, connclose), because clients can see it in list-tubes: first the jobs become
// ready again, then the watch list is emptied, then the used tube is released.
//
// A client known to one shard needs one visit, or several bounded visits if there is much to do.
type Leave struct {
	m       *Map
	handles *Handles
	list    *WatchList
	used    Tube

	next int // index of the next handle for which jobs must be returned
	at   int // the shard that was visited last
	step leaving
}

// leaving is the purpose of a visit.
type leaving uint8

const (
	leaveJobs  leaving = iota // the reserved jobs of one shard become ready again
	leaveTube                 // remove one entry of the watch list
	leaveUsed                 // release the used tube
	leaveShard                // one shard forgets the client
)

// leaveMax is how many tubes of the watch list are removed in one turn.
const leaveMax = 1024

// Start fills op for the first visit. A client may have no list (nil) and no used tube (the zero
// Tube).
func (l *Leave) Start(m *Map, h *Handles, list *WatchList, used Tube, op *core.Op) Hop {
	*l = Leave{m: m, handles: h, list: list, used: used}
	switch {
	case h.Len() == 0 && used.ID == 0:
		return walkOver
	case list == nil:
		return l.shard(0, op)
	case h.Len() == 1 && used.Shard == h.At(0).Shard():
		return l.shard(used.ID, op)
	}
	return l.giveBack(op)
}

// Next takes the reply of a visit, and fills op for the next visit.
func (l *Leave) Next(r *core.Reply, op *core.Op) Hop {
	if r.Status == core.StatusMore {
		return Hop{l.at, true}
	}
	switch l.step {
	case leaveJobs:
		return l.giveBack(op)
	case leaveTube:
		return l.unwatch(op)
	case leaveShard:
		l.handles.drop()
	}
	if l.handles.Len() == 0 {
		return walkOver
	}
	return l.shard(0, op)
}

// giveBack visits the next shard in which the client holds jobs or waits, to end both.
func (l *Leave) giveBack(op *core.Op) Hop {
	for l.next < l.handles.Len() {
		k := l.handles.At(l.next)
		l.next++
		if k.Held > 0 || k.Waiting {
			l.step, l.at = leaveJobs, k.Shard()
			op.ReturnJobs(k.Client)
			return Hop{Shard: k.Shard()}
		}
	}
	return l.unwatch(op)
}

// unwatch removes the first entry of the watch list, or else releases the used tube.
func (l *Leave) unwatch(op *core.Op) Hop {
	if l.list.Len() > 0 {
		l.step, l.at = leaveTube, l.list.Remove(l.m, l.handles, 0, op)
		return Hop{l.at, l.list.Len()%leaveMax == leaveMax-1}
	}
	if l.used.ID == 0 {
		return l.shard(0, op)
	}
	l.step, l.at = leaveUsed, l.used.Shard
	op.Unuse(l.used.ID)
	return Hop{Shard: l.at}
}

// shard makes the shard of the last handle forget the client and its used tube.
func (l *Leave) shard(used core.TubeID, op *core.Op) Hop {
	k := l.handles.At(l.handles.Len() - 1)
	l.step, l.at = leaveShard, k.Shard()
	op.Close(k.Client, used)
	return Hop{Shard: k.Shard()}
}
