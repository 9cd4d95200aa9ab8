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
//	BuriedTTL, MaxBuried the oldest buried jobs are deleted
//
// An attempt fails when a reservation ends without a delete or a bury: the worker releases the
// job or reports its failure, its time to run ends, or the worker is lost. Reserve-job and operators
// are not held back, but count. Records state results, so a replay evaluates no policy.

// Policies is an immutable set of policies, which all cores share.
type Policies struct {
	list     []record.Policy
	exact    map[string]*policy // by name
	prefixes map[string]*policy // by prefix, without the "*"
	lengths  [record.MatchMax]bool
}

// A policy is a record.Policy with its rate in core time.
type policy struct {
	record.Policy
	interval  Time // between two reserves; zero: there is no rate
	tolerance Time // by how much the bucket may run ahead
}

// NewPolicies makes a set, which must be valid. The caller must not change the list any more.
func NewPolicies(list []record.Policy) *Policies {
	s := &Policies{list: list, exact: map[string]*policy{}, prefixes: map[string]*policy{}}
	for _, r := range list {
		p := &policy{Policy: r}
		if r.ThousandthsASecond > 0 {
			p.interval = Time(math.Ceil(1000 * float64(Second) / float64(r.ThousandthsASecond)))
			// Without a Burst the bucket holds the tokens of 0.1 s, so that a timer that fires
			// late costs no reserve.
			burst := max(r.Burst, 1)
			if r.Burst == 0 {
				burst = max(burst, r.ThousandthsASecond/10_000)
			}
			p.tolerance = Time(burst-1) * p.interval
		}
		if n := len(r.Match) - 1; r.Match[n] == '*' {
			s.prefixes[r.Match[:n]] = p
			s.lengths[n] = true
		} else {
			s.exact[r.Match] = p
		}
	}
	return s
}

// List returns the policies. The caller must not change them. A nil set has none.
func (s *Policies) List() []record.Policy {
	if s == nil {
		return nil
	}
	return s.list
}

// Of returns the policy of a tube, the one with the longest match, or nil.
func (s *Policies) Of(tube string) *record.Policy {
	if p := s.of(tube); p != nil {
		return &p.Policy
	}
	return nil
}

func (s *Policies) of(tube string) *policy {
	if s == nil {
		return nil
	}
	if p := s.exact[tube]; p != nil {
		return p
	}
	for n := min(len(tube), len(s.lengths)-1); n >= 0; n-- {
		if s.lengths[n] {
			if p := s.prefixes[tube[:n]]; p != nil {
				return p
			}
		}
	}
	return nil
}

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

// policing is the part of a core for policies.
type policing struct {
	set      *Policies // of all tubes
	recorded *Policies // the set in the records; only in the core that records it
	freed    []*tube   // tubes with a reservation that has ended since the last matchFreed
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

// SetPolicies makes the core use a set for tubes that are opened from now on; Classify applies it
// to the others. With record, the core also records the set: one core of a server does.
func (o *Op) SetPolicies(set *Policies, record bool) {
	o.onOperator(opSetPolicies, nil, &OperatorOp{policies: set})
	o.Wait = record
}

// InstallPolicies makes the core use a set for all its tubes, before it has clients.
func (c *Core) InstallPolicies(set *Policies) {
	if len(set.List()) == 0 && c.policing == nil {
		return
	}
	c.police().use(set)
	for _, t := range c.tubes {
		if t != nil {
			c.applyPolicy(t)
		}
	}
}

// RecordedPolicies returns the set in the records of the core; nil: there is none.
func (c *Core) RecordedPolicies() *Policies {
	if c.policing == nil {
		return nil
	}
	return c.policing.recorded
}

// police returns the part of the core for policies. It makes it before the first set.
func (c *Core) police() *policing {
	if c.policing == nil {
		c.policing = new(policing)
	}
	return c.policing
}

// use makes a set the current one. An empty set costs nothing.
func (x *policing) use(set *Policies) {
	if x.set = set; len(set.List()) == 0 {
		x.set = nil
	}
}

// keepPolicies makes a set the recorded one. Its size counts as what a journal must keep, so that a
// full disk has room for the record of no policies, which is smaller.
func (c *Core) keepPolicies(set *Policies) {
	size := func(s *Policies) int64 {
		if len(s.List()) == 0 {
			return 0
		}
		return int64(len(record.AppendPolicies(nil, s.list)))
	}
	x := c.police()
	c.pauses += size(set) - size(x.recorded)
	x.recorded = set
}

// recordPolicies records the set.
func (c *Core) recordPolicies() {
	if c.buf != nil {
		c.buf.Policies(c.policing.recorded.list)
	}
}

// setPolicies runs a SetPolicies.
func (c *Core) setPolicies(op *Op) {
	set := op.Operator.policies
	c.police().use(set)
	if op.Wait {
		c.keepPolicies(set)
		c.recordPolicies()
	}
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
		t.policy.trimAt = c.now
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
	if p := t.policy; p.MaxBuried > 0 && uint64(t.buried.N) > p.MaxBuried && p.trimAt == 0 {
		p.trimAt = c.now
	}
	c.timers.want(&t.timer, c.policyDue(t))
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
		case trims && p.MaxBuried > 0 && uint64(t.buried.N) > p.MaxBuried:
			c.discard(t, buried, PolicyDropped)
		case trims && ready != 0 && p.Full == record.PolicyDropOldest &&
			(p.MaxJobs > 0 && uint64(t.ready.N+t.delay.N) > p.MaxJobs || t.hasTooMany(t.bytes)):
			c.discard(t, ready, PolicyDropped)
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
