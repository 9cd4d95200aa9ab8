package ops

import (
	"math"

	"polystalk/shard"
	"polystalk/shard/core"
)

const (
	// surveyShort is the longest watch list that each survey reads completely.
	surveyShort = 32
	// LookMost is how many entries of a list are read at a time, except in tests.
	LookMost = 1024
	// standMax is how many log entries may be read while a shard is owned.
	standMax = 256
	// logCost is the cost of finding the tube of a log entry in the list, relative to reading
	// an entry of the list.
	logCost = 8
)

// A survey has a client's knowledge of the ready jobs on a watch list with several shards: the
// shard with the best job, and the read position in each shard's ReadyLog. It makes a reserve
// atomic, although the tubes are read one after the other.
//
// The proof. A survey notes the heads of the logs, then reads tubes, each at its own
// moment, and takes the best key. It visits the shard A of that key, with the best key of
// the other shards as a bound. The shard is owned; J is the best job that it has for the
// client now. If J is behind the bound it is not served. Else Stands reads the new entries
// in the logs of the other shards, and J is not served if an entry for a tube on the list
// is before it. If J is served, it was the best job of all at the time T when Stands
// began: if a better job K was ready then, in a tube of another shard, its tube had
// published K or better (a) before the survey read the tube, and until then, so the bound
// would be K or better; or (b) with an entry that the survey has not read, which Stands
// would have found. And A was owned from T to the end of the visit, so J was there. The
// proof that no shard has a job is the same: an empty survey, then a read of all logs that
// finds nothing; T is when that read begins.
//
// So every job that leaves the queue, and every reply that there is none, has a moment
// between the beginning and the end of its command. Every job that becomes ready has one
// too: when its entry is added, or when a waiting client gets it. In the order of these
// moments, every reply is the reply of a single queue (linearizability). The comment of
// Reserve covers waiting clients.
//
// The survey repeats only while other clients make progress: each repetition follows a
// better job that became ready, or a job that another client took. The repetitions of a
// turn are bounded; the client continues in a later turn.
//
// A long list is read completely once. After that the logs name the tubes that may have a
// job, and only these are read, unless unread log entries are overwritten or the list
// changes. The survey belongs to the client, but the shard that runs the visit calls
// Stands while the client waits for the reply.
type survey struct {
	r      *Reserve
	shards []followed // shards with tubes on the list
	stale  bool       // it must begin again

	best, bound core.Key // bound is the best key of the shards other than where
	where       int      // the shard of best; -1: no job is ready

	// For a long list. known means that live has all entries that may have a job. Until then,
	// at is the number of entries that were read.
	known bool
	at    int
	live  []int32  // positions in the list
	isIn  []uint64 // live as a bit set
	next  int      // how many of live were considered
}

// A followed is a shard with a log that a survey reads.
type followed struct {
	*shard.Shard
	log  *core.ReadyLog
	seen uint64 // number of entries that were read
}

// surveyed returns the client's survey.
func (r *Reserve) surveyed() *survey {
	if r.survey == nil {
		r.survey = &survey{r: r}
		r.list.changed = true
		r.Waiter.Guard = r.survey
	}
	return r.survey
}

// begin starts a new search for the best job.
func (v *survey) begin() {
	r := v.r
	v.clear()
	v.stale = false
	if r.list.changed {
		r.list.changed = false
		v.known, v.at = false, 0
		v.shards = v.shards[:0]
		for i := range r.handles.list {
			if k := &r.handles.list[i]; k.Watching > 0 {
				sh := r.m.Shard(k.Shard())
				v.shards = append(v.shards, followed{sh, sh.Readied(), 0})
			}
		}
	}
	for i := range v.shards {
		v.shards[i].Catchup(r.batch)
	}
}

func (v *survey) clear() { v.best, v.bound, v.where, v.next = core.MaxKey, core.MaxKey, -1, 0 }

// look continues the search. It returns false if the search is not complete.
func (v *survey) look() bool {
	r := v.r
	switch {
	case !r.list.Spread:
		// The whole list is in one shard, which must be asked.
		v.where = r.m.ofFace(r.list.faces.List[0])
		return true
	case len(r.list.faces.List) <= surveyShort:
		v.known = false
		v.noteHeads()
		for i := range r.list.faces.List {
			v.consider(i)
		}
		return true
	}
	if v.known && !v.follow(len(r.list.faces.List)/logCost) {
		v.known = false
	}
	if !v.known {
		return v.explore()
	}
	left := r.pace.LookMost()
	for ; v.next < len(v.live) && left > 0; left-- {
		at := v.live[v.next]
		if v.consider(int(at)) {
			v.next++
			continue
		}
		v.isIn[at/64] &^= 1 << (at % 64)
		n := len(v.live) - 1
		v.live[v.next] = v.live[n]
		v.live = v.live[:n]
	}
	r.pace.Spend((r.pace.LookMost() - left) / 16)
	return v.next == len(v.live)
}

// explore reads the next part of a long list.
func (v *survey) explore() bool {
	r := v.r
	n := len(r.list.faces.List)
	if v.at == 0 {
		v.clear()
		v.noteHeads()
		v.live = v.live[:0]
		if need := (n + 63) / 64; cap(v.isIn) < need {
			v.isIn = make([]uint64, need)
		} else {
			v.isIn = v.isIn[:need]
			clear(v.isIn)
		}
	} else if !v.follow(math.MaxInt) {
		v.at = 0
		return false
	}
	end := min(n, v.at+r.pace.LookMost())
	r.pace.Spend((end - v.at) / 16)
	for ; v.at < end; v.at++ {
		if _, ok := r.list.faces.List[v.at].Load(); ok {
			v.enlist(v.at)
		}
	}
	if v.at < n {
		return false
	}
	v.at, v.known = 0, true
	return v.look()
}

// noteHeads marks all log entries up to now as read: the Faces already include them.
func (v *survey) noteHeads() {
	for i := range v.shards {
		w := &v.shards[i]
		w.seen = w.log.Head()
	}
}

// consider updates best and bound by the best key of a tube. It reports whether the tube has a job.
func (v *survey) consider(at int) bool {
	k, ok := v.r.list.faces.List[at].Load()
	if !ok {
		return false
	}
	if !k.Less(v.bound) {
		return true
	}
	sh := v.r.m.ofFace(v.r.list.faces.List[at])
	switch {
	case k.Less(v.best):
		if sh != v.where {
			v.bound = v.best
		}
		v.best, v.where = k, sh
	case sh != v.where:
		v.bound = k
	}
	return true
}

// enlist adds an entry of the list to live.
func (v *survey) enlist(at int) {
	if bit := uint64(1) << (at % 64); v.isIn[at/64]&bit == 0 {
		v.isIn[at/64] |= bit
		v.live = append(v.live, int32(at))
	}
}

// follow reads the new log entries for a long list. It returns false if some were overwritten, or
// if there are more than most: then reading the whole list is less work.
func (v *survey) follow(most int) bool {
	r := v.r
	for i := range v.shards {
		w := &v.shards[i]
		head := w.log.Head()
		n := head - w.seen
		if n > uint64(most) {
			return false
		}
		most -= int(n)
		r.pace.Spend(int(n) / 4)
		for ; w.seen != head; w.seen++ {
			f, _, ok := w.log.At(w.seen)
			if !ok {
				return false
			}
			at := r.list.findFace(f)
			if at < 0 {
				continue
			}
			v.enlist(at)
			if v.next > 0 {
				v.consider(at) // live may have it before next
			}
		}
	}
	return true
}

// Stands implements core.Guard for the shard that the Reserve visits.
func (v *survey) Stands(k core.Key) bool { return v.quiet(k, v.r.shard) }

// quiet reports whether no tube on the list, except tubes in one shard, has got a job better than k
// since the survey read it. If so, and the survey found no job, no tube had a job when quiet began.
func (v *survey) quiet(k core.Key, except int) bool {
	r := v.r
	if !r.list.Spread {
		return true
	}
	left := standMax
	for i := range v.shards {
		w := &v.shards[i]
		if w.Index == except {
			continue
		}
		for n, head := w.seen, w.log.Head(); n != head; n++ {
			f, key, ok := w.log.At(n)
			if left--; left < 0 || !ok || key.Less(k) && r.list.findFace(f) >= 0 {
				return false
			}
		}
	}
	return true
}
