package core

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"

	"polystalk/shard/record"
)

// A policy makes tubes bury, delay, expire, refuse or hold back jobs. A tube without one pays a
// check for nil: where a job is put, is reserved, leaves its worker, and when a timer fires.
//
//	Attempts            every Nth failed attempt buries the job
//	Backoff, BackoffMax a failed attempt delays the job, doubled each time, plus up to a quarter
//	TTL, Expired        a job that has been ready for so long is deleted or buried
//	MaxJobs, MaxBytes   of the jobs that wait, and of all bodies: a put is refused, or with Full the
//	                    job that has been ready longest is deleted
//	Running             no more reserved jobs than that
//	rate, Burst         a token bucket over reserves, which begins full
//	BuriedTTL, MaxBuried  the oldest buried jobs are deleted
//
// An attempt fails when a reservation ends without a delete or a bury: the worker releases the
// job or reports its failure, its time to run ends, or the worker is lost. Reserve-job and operators
// are not held back, but count. Records state results, so a replay evaluates no policy.

// PolicyEvent is what a policy has done to a job.
type PolicyEvent uint8

// The events.
const (
	PolicyDead    PolicyEvent = iota // buried after its last attempt
	PolicyDelayed                    // delayed after a failed attempt
	PolicyExpired                    // deleted or buried after its TTL, or deleted after its BuriedTTL
	PolicyDropped                    // deleted to make room
	PolicyRefused                    // not put
	PolicyEvents
)

// A tubePolicy is the policy of one tube, with its state.
type tubePolicy struct {
	*policy
	full      Time   // when the bucket is full again; past: it is
	heldUntil Time   // when the empty bucket gets a token; zero: it has one
	spent     bool   // full is in the future, and the tube stays until then
	freed     bool   // the tube is in policing.freed
	trimAt    Time   // when jobs above a limit are deleted; zero: there may be none
	changed   uint64 // the commit of the last Update of a job, which the next reserves wait for
	events    [PolicyEvents]uint64
}

// Held is what holds a tube back from reserves.
type Held uint8

// The reasons. A pause comes first, then Running.
const (
	NotHeld Held = iota
	HeldByPause
	HeldByRunning
	HeldByRate
)

// held returns what holds t back.
func (t *tube) held() Held {
	p := t.policy
	switch {
	case t.pauseUntil != 0:
		return HeldByPause
	case p == nil:
		return NotHeld
	case p.RunningPlus != 0 && uint64(t.reserved)+1 >= p.RunningPlus:
		return HeldByRunning
	case p.heldUntil != 0:
		return HeldByRate
	}
	return NotHeld
}

// applyPolicy gives t the policy that its name has now. Its buckets, counters and limits go on.
func (c *Core) applyPolicy(t *tube) {
	p, was := c.policing.set.of(t.name), t.policy
	switch {
	case p == nil && was == nil:
		return
	case p == nil:
		t.policy = nil
		if was.spent {
			c.timers.want(&t.timer, c.now) // Expire closes t if only its bucket kept it
		}
	case was == nil:
		t.policy = &tubePolicy{policy: p}
	case was.Policy == p.Policy:
		was.policy = p
		return
	default:
		if was.policy = p; p.interval == 0 {
			was.full, was.heldUntil, was.spent = 0, 0, false
		} else {
			was.full = min(was.full, c.now+p.tolerance+p.interval)
			was.limit(c.now)
		}
	}
	if t.policy != nil {
		if t.excess() != 0 {
			t.policy.trimAt = c.now
		}
		c.timers.want(&t.timer, c.tubeDue(t))
	}
	c.refresh(t)
	c.matchAll(t)
}

// limit sets until when the bucket is empty.
func (p *tubePolicy) limit(now Time) {
	if p.heldUntil = p.full - p.tolerance; p.heldUntil <= now {
		p.heldUntil = 0
	}
}

// tookByPolicy counts a reserve of t.
func (c *Core) tookByPolicy(t *tube) {
	if p := t.policy; p.interval > 0 {
		// Reserve-job takes tokens that are not there, at most a bucket of them.
		p.full, p.spent = min(max(p.full, c.now)+p.interval, c.now+2*(p.tolerance+p.interval)), true
		p.limit(c.now)
		c.timers.want(&t.timer, p.full)
		if p.heldUntil != 0 {
			c.timers.want(&t.timer, p.heldUntil)
		}
	}
	c.refresh(t)
	c.publish(t)
}

// freeByPolicy notes that a reservation of t has ended. The job is not in its next place yet, so
// matchFreed serves waiting clients later.
func (c *Core) freeByPolicy(t *tube) {
	if t.policy.RunningPlus == 0 {
		return
	}
	c.refresh(t)
	if !t.policy.freed {
		t.policy.freed = true
		c.policing.freed = append(c.policing.freed, t)
	}
}

// matchFreed serves the waiting clients of the tubes that may have more reserved jobs again.
func (c *Core) matchFreed() {
	x := c.policing
	for n := 0; n < len(x.freed); n++ {
		t := x.freed[n]
		x.freed[n] = nil
		if t.policy != nil {
			t.policy.freed = false
		}
		if t.readyPos != 0 { // not if it is closed
			c.match(t)
		}
	}
	x.freed = x.freed[:0]
}

// admits reports whether t has room for a job with a body of that size. It may drop jobs, at most
// boundedMax of them. If more must go, the put is refused, and a later one finds room.
func (c *Core) admits(t *tube, size int) bool {
	p := t.policy
	waiting, bytes := uint64(t.ready.N+t.delay.N), t.bytes+uint64(size)
	drop, fits := 0, true
	for i := t.readyList.Head; p.MaxJobs > 0 && waiting >= p.MaxJobs || t.hasTooMany(bytes); drop++ {
		if p.Full != record.PolicyDropOldest || i == 0 || t.hasTooMany(uint64(size)) {
			p.events[PolicyRefused]++
			return false
		}
		if drop == boundedMax {
			p.events[PolicyRefused]++
			fits = false
			break
		}
		j := c.jobs.At(i)
		waiting, bytes, i = waiting-1, bytes-uint64(j.Size), j.Next
	}
	for ; drop > 0; drop-- {
		c.discard(t, t.readyList.Head, PolicyDropped)
	}
	return fits
}

// hasTooMany reports whether the policy of t allows fewer bytes. While flushed jobs are collected,
// t.bytes still has theirs, so there is no limit: newer jobs must not make room for them.
func (t *tube) hasTooMany(bytes uint64) bool {
	return t.policy.MaxBytes > 0 && bytes > t.policy.MaxBytes && t.flushed == nil
}

// discard deletes a job. The caller must need the tube, so that it stays.
func (c *Core) discard(t *tube, i uint32, why PolicyEvent) {
	t.policy.events[why]++
	t.using++
	c.endJob(t, i, c.jobs.At(i))
	t.using--
}

// fail applies the policy to a job after a failed attempt; it is in no container. It reports
// whether it has placed the job. keepsDelay says that the job has a delay of its own.
func (c *Core) fail(t *tube, i uint32, j *Job, keepsDelay bool) bool {
	p := t.policy
	n := uint64(j.Reserves)
	switch {
	case p == nil:
		return false
	case p.Attempts > 0:
		n %= p.Attempts
	}
	switch {
	case p.Attempts > 0 && n == 0:
		p.events[PolicyDead]++
		c.giveUp(t, i, j, BuriedByAttempts, true)
	case p.Backoff == 0 || keepsDelay:
		return false
	default:
		p.events[PolicyDelayed]++
		c.delayAfter(t, i, j, n)
		c.recordIfRoom(t, j)
	}
	return true
}

// delayAfter delays a job after attempt n of its series.
func (c *Core) delayAfter(t *tube, i uint32, j *Job, n uint64) {
	p := t.policy
	most := uint64(math.MaxInt32)
	if p.BackoffMax > 0 {
		most = min(most, p.BackoffMax)
	}
	seconds := most
	if n = max(n, 1); n <= 32 {
		seconds = min(p.Backoff<<(n-1), most)
	}
	var b [12]byte
	binary.LittleEndian.PutUint64(b[:], uint64(j.ID))
	binary.LittleEndian.PutUint32(b[8:], j.Reserves)
	jitter := Time(xxhash.Sum64(b[:]) % (seconds*uint64(Second)/4 + 1))
	until := c.delayUntil(uint32(seconds)) + jitter
	j.Delay = uint32((until - c.now + Second - 1) / Second)
	c.enterDelayed(t, i, j, until)
}

// recordsAttempts reports whether failed attempts of the jobs of t are recorded.
func (t *tube) recordsAttempts() bool {
	return t.policy != nil && (t.policy.Attempts > 0 || t.policy.Backoff > 0)
}

// reasonOf returns why a job of t is buried.
func (t *tube) reasonOf(j *Job) BuriedBy {
	by := j.buriedBy()
	if p := t.policy; by == BuriedUnknown && p != nil && p.Attempts > 0 && j.Timeouts+j.Releases > 0 && uint64(j.Reserves)%p.Attempts == 0 {
		return BuriedByAttempts
	}
	return by
}

// retriesFailure reports whether a job that a worker reports as failed has further attempts: a
// client that waits for the job learns of the failure instead.
func (c *Core) retriesFailure(t *tube, j *Job) bool {
	return t.policy != nil && t.policy.Attempts > 0 && (!j.isSubmitted() || c.submissionOf(j).is(Background))
}

// policyDue returns the next moment at which the policy of t does something.
func (c *Core) policyDue(t *tube) Time {
	p, at := t.policy, Never
	if p.trimAt != 0 {
		at = p.trimAt
	}
	if p.heldUntil != 0 {
		at = min(at, p.heldUntil)
	}
	if p.spent {
		at = min(at, p.full)
	}
	if p.TTL > 0 && t.readyList.Head != 0 {
		at = min(at, c.jobs.At(t.readyList.Head).Since+Time(p.TTL)*Second)
	}
	if p.BuriedTTL > 0 && t.buried.Head != 0 {
		at = min(at, c.jobs.At(t.buried.Head).Since+Time(p.BuriedTTL)*Second)
	}
	return at
}

// wantPolicy makes the timer of t fire for a job that has become ready or was buried.
func (c *Core) wantPolicy(t *tube) {
	if t.policy.trimAt == 0 && t.buriesTooMany() {
		t.policy.trimAt = c.now
	}
	c.timers.want(&t.timer, c.policyDue(t))
}

// buriesTooMany reports whether t has more buried jobs than its policy allows.
func (t *tube) buriesTooMany() bool {
	return t.policy.MaxBuried > 0 && uint64(t.buried.N) > t.policy.MaxBuried
}

// excess returns the oldest job that a changed policy does not allow, or zero. A limit that refuses
// puts ends no job.
func (t *tube) excess() uint32 {
	p := t.policy
	switch {
	case t.buriesTooMany():
		return t.buried.Head
	case p.Full == record.PolicyDropOldest && (p.MaxJobs > 0 && uint64(t.ready.N+t.delay.N) > p.MaxJobs || t.hasTooMany(t.bytes)):
		return t.readyList.Head
	}
	return 0
}

// runPolicy does what the policy of t does at the moment at, to at most limit jobs.
func (c *Core) runPolicy(t *tube, at Time, limit int) (done int) {
	p := t.policy
	if p.spent && p.full <= at {
		p.spent = false
	}
	if p.heldUntil != 0 && p.heldUntil <= at {
		p.heldUntil = 0
		c.refresh(t)
		c.match(t)
	}
	trims := p.trimAt != 0 && p.trimAt <= at
	t.using++ // it stays until Expire has moved its timer
	for ; done < limit; done++ {
		ready, buried := t.readyList.Head, t.buried.Head
		switch {
		case p.TTL > 0 && ready != 0 && c.jobs.At(ready).Since+Time(p.TTL)*Second <= at:
			c.expireReady(t, ready)
		case p.BuriedTTL > 0 && buried != 0 && c.jobs.At(buried).Since+Time(p.BuriedTTL)*Second <= at:
			c.discard(t, buried, PolicyExpired)
		case trims && t.excess() != 0:
			c.discard(t, t.excess(), PolicyDropped)
		default:
			if trims {
				p.trimAt = 0
			}
			t.using--
			return done
		}
	}
	t.using--
	return done
}

// expireReady expires a ready job.
func (c *Core) expireReady(t *tube, i uint32) {
	if t.policy.Expired == record.PolicyDelete {
		c.discard(t, i, PolicyExpired)
		return
	}
	t.policy.events[PolicyExpired]++
	j := c.jobs.At(i)
	c.leave(t, i, j)
	c.giveUp(t, i, j, BuriedByExpiry, true)
}
