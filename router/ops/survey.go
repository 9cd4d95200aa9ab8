package ops

import (
	"math"

	"polystalk/shard"
	"polystalk/shard/core"
)

const (
	// surveyShort is the length of a watch list up to which a survey looks at all
	// of it, each time.
	surveyShort = 32
	// LookMost entries are looked at at a time, unless a test says otherwise.
	LookMost = 1024
	// standMax entries of logs are read while a shard is owned.
	standMax = 256
	// logCost is how many entries of a list are looked at in the time in which an
	// entry of a log is looked up in it.
	logCost = 8
)

// A survey is what a client whose watch list reaches over several shards knows of
// the ready jobs on it: which shard has the best, and up to where it has followed
// each shard's ReadyLog. It is what makes a reserve take place at one moment,
// although the tubes are looked at one after the other.
//
// The proof. A survey notes the heads of the logs, then looks at tubes, each at its
// own moment, and takes the best key it finds. It is put before the shard A of that
// key, with the best key of the other shards as a bound. The shard is owned; J is
// the best job that it has for the client now. If J is behind the bound it is not
// served. Else Stands reads in the logs of the other shards what came since, and J
// is not served if an entry for a tube on the list goes before it. Served, it was the
// best job of all at the moment T at which Stands began: were K better and ready
// then, in a tube of another shard, its tube would have published K or better (a)
// before it was looked at, and until then, so the bound would be K or better; or (b)
// with an entry that the survey has not seen, which Stands would have found. And
// from T to the end of the visit A was owned, so J was there. That nothing is ready
// anywhere is proved alike: an empty survey, then a look at all logs that finds
// nothing; T is when that look begins.
//
// So every job that goes away, and every answer that there is none, has a moment
// between its command's beginning and its end; and so has every job that comes,
// namely when its entry is added or when a waiting client is given it. In the order of
// these moments each answer is that of a single queue. What registering does for
// those who wait is in Reserve.
//
// A wait for the right moment has no end only while others get on: each further
// look is owed to a better job that came, or to one that another client took. A turn's
// looks are bounded; the client goes on in a later turn.
//
// A long list is looked at in full once. From then on the logs tell which tubes may
// have something, and the others are not looked at, unless the session falls behind
// a log's end or the list changes. It is the client's, but Stands is called by
// whoever runs the visit, while the client waits for its answer.
type survey struct {
	r      *Reserve
	shards []followed // those with tubes on the list
	stale  bool       // it is to begin again

	best, bound core.Key
	where       int // the shard of best, -1: nothing is ready; bound is the best of the others

	// Of a long list. While live is not known to hold all entries that may have a job,
	// at is the number of those that were looked at so far.
	known bool
	at    int
	live  []int32  // positions in the list
	isIn  []uint64 // the same as bits
	next  int      // how many of live were considered
}

// A followed is a shard whose log a survey reads.
type followed struct {
	*shard.Shard
	log  *core.ReadyLog
	seen uint64 // entries that are accounted for
}

// surveyed is the client's survey.
func (r *Reserve) surveyed() *survey {
	if r.survey == nil {
		r.survey = &survey{r: r}
		r.list.changed = true
		r.Waiter.Guard = r.survey
	}
	return r.survey
}

// begin starts anew to look for the best job.
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

// look goes on looking. It reports false when the rest may be for a later turn.
func (v *survey) look() bool {
	r := v.r
	switch {
	case !r.list.Spread:
		// All of the list is in one shard, which must be asked.
		v.where = r.m.OfFace(r.list.faces[0])
		return true
	case len(r.list.faces) <= surveyShort:
		v.known = false
		v.noteHeads()
		for i := range r.list.faces {
			v.consider(i)
		}
		return true
	}
	if v.known && !v.follow(len(r.list.faces)/logCost) {
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

// explore looks at a part of a long list.
func (v *survey) explore() bool {
	r := v.r
	n := len(r.list.faces)
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
		if _, ok := r.list.faces[v.at].Load(); ok {
			v.enlist(v.at)
		}
	}
	if v.at < n {
		return false
	}
	v.at, v.known = 0, true
	return v.look()
}

// noteHeads: what the logs have up to here is seen in the Faces.
func (v *survey) noteHeads() {
	for i := range v.shards {
		w := &v.shards[i]
		w.seen = w.log.Head()
	}
}

// consider looks at an entry of the list. It reports whether there is a job.
func (v *survey) consider(at int) bool {
	k, ok := v.r.list.faces[at].Load()
	if !ok {
		return false
	}
	if !k.Less(v.bound) {
		return true
	}
	sh := v.r.m.OfFace(v.r.list.faces[at])
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

func (v *survey) enlist(at int) {
	if bit := uint64(1) << (at % 64); v.isIn[at/64]&bit == 0 {
		v.isIn[at/64] |= bit
		v.live = append(v.live, int32(at))
	}
}

// follow accounts for what the logs of a long list's shards have told since. It
// reports false when it cannot, or when looking at all of it is less work than most
// entries.
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
				v.consider(at) // it may have been one of the first of live
			}
		}
	}
	return true
}

// Stands implements core.Guard for the shard that the Reserve visits.
func (v *survey) Stands(k core.Key) bool { return v.quiet(k, v.r.shard) }

// quiet reports that no tube on the list has got a job before k since it was looked
// at, those of one shard excepted; then there was a moment, when it began, at which
// none of them had one, if the survey found none.
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
