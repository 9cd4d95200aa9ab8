package core

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"polystalk/shard/record"
)

// A modelPolicy is a tube's policy in the twin.
type modelPolicy struct {
	p         *record.Policy // nil: none
	interval  Time
	burst     Time
	full      Time // of the bucket
	heldUntil Time
	spent     bool
	trimAt    Time
	events    [PolicyEvents]uint64
}

// policyOf is the policy with the longest match.
func policyOf(set []record.Policy, tube string) *record.Policy {
	var best *record.Policy
	for i := range set {
		p := &set[i]
		if p.Match == tube {
			return p
		}
		if prefix, ok := strings.CutSuffix(p.Match, "*"); ok && strings.HasPrefix(tube, prefix) && (best == nil || len(p.Match) > len(best.Match)) {
			best = p
		}
	}
	return best
}

// setPolicies changes the policies of all tubes, in the order of the core's handles.
func (m *model) setPolicies(set []record.Policy) {
	m.policies = set
	tubes := slices.Clone(m.tubes)
	slices.SortFunc(tubes, func(a, b *modelTube) int { return cmp.Compare(a.id, b.id) })
	for _, t := range tubes {
		m.applyPolicy(t)
	}
}

func (m *model) applyPolicy(t *modelTube) {
	x, p := &t.policy, policyOf(m.policies, t.name)
	switch {
	case p == nil && x.p == nil:
		return
	case p == nil:
		spent := x.spent
		*x = modelPolicy{}
		if spent {
			x.spent, x.full = true, m.now // it may go at the next moment
		}
		m.serve(t)
		return
	case x.p != nil && *x.p == *p:
		return
	case x.p == nil:
		x.spent, x.full = false, 0
	}
	x.p = p
	x.interval, x.burst = 0, 0
	if p.ThousandthsASecond > 0 {
		x.interval = Time((1_000_000_000_000 + p.ThousandthsASecond - 1) / p.ThousandthsASecond)
		if x.burst = Time(p.Burst); x.burst == 0 {
			x.burst = Time(max(1, p.ThousandthsASecond/10_000))
		}
		x.full = min(x.full, m.now+x.burst*x.interval)
		x.hold(m.now)
	} else {
		x.full, x.heldUntil, x.spent = 0, 0, false
	}
	if m.excess(t) != nil {
		x.trimAt = m.now
	}
	m.serve(t)
}

// hold holds the tube back until its bucket has a token.
func (x *modelPolicy) hold(now Time) {
	x.heldUntil = 0
	if free := x.burst*x.interval - max(0, x.full-now); free < x.interval {
		x.heldUntil = now + x.interval - free
	}
}

// holds reports whether the policy of t keeps its jobs from being reserved.
func (m *model) holds(t *modelTube) bool {
	x := &t.policy
	return x.heldUntil != 0 || x.p != nil && x.p.RunningPlus > 0 && len(m.in(t, Reserved)) >= int(x.p.RunningPlus-1)
}

// tookToken counts a reserve.
func (m *model) tookToken(t *modelTube) {
	if x := &t.policy; x.interval > 0 {
		x.full, x.spent = min(max(x.full, m.now)+x.interval, m.now+2*x.burst*x.interval), true
		x.hold(m.now)
	}
}

// serveFreed serves the tubes that have lost a reserved job, in the order in which they did.
func (m *model) serveFreed() {
	for len(m.freed) > 0 {
		t := m.freed[0]
		m.freed = m.freed[1:]
		if slices.Contains(m.tubes, t) {
			m.serve(t)
		}
	}
}

// byArrival are the jobs of a tube in a state, in the order in which they entered it.
func (m *model) byArrival(t *modelTube, s State) []*modelJob {
	list := m.in(t, s)
	slices.SortFunc(list, func(a, b *modelJob) int { return cmp.Compare(a.since, b.since) })
	return list
}

func bytesOf(m *model, t *modelTube) (n uint64) { return m.flowOf(t).Bytes }

// hasTooMany reports whether a tube may have fewer bytes; no limit applies during a flush.
func (m *model) hasTooMany(t *modelTube, bytes uint64) bool {
	p := t.policy.p
	return p.MaxBytes > 0 && bytes > p.MaxBytes && !m.isFlushing(t)
}

// admits makes room for a put, or refuses it.
func (m *model) admits(t *modelTube, size int) bool {
	x := &t.policy
	if x.p == nil {
		return true
	}
	waiting, bytes := uint64(len(m.in(t, Ready))+len(m.in(t, Delayed))), bytesOf(m, t)+uint64(size)
	ready := m.byArrival(t, Ready)
	var drop []*modelJob
	for x.p.MaxJobs > 0 && waiting >= x.p.MaxJobs || m.hasTooMany(t, bytes) {
		if x.p.Full != record.PolicyDropOldest || len(ready) == 0 || m.hasTooMany(t, uint64(size)) {
			x.events[PolicyRefused]++
			return false
		}
		drop = append(drop, ready[0])
		waiting, bytes, ready = waiting-1, bytes-uint64(len(ready[0].body)), ready[1:]
	}
	for _, j := range drop {
		x.events[PolicyDropped]++
		m.delete(j)
	}
	return true
}

// fails does what the policy says about a failed attempt, if anything.
func (m *model) fails(j *modelJob, keepsDelay bool) bool {
	x := &j.tube.policy
	if x.p == nil {
		return false
	}
	n := uint64(j.stats.Reserves)
	if x.p.Attempts > 0 {
		if n %= x.p.Attempts; n == 0 {
			x.events[PolicyDead]++
			m.bury(j, BuriedByAttempts)
			return true
		}
	}
	if x.p.Backoff == 0 || keepsDelay {
		return false
	}
	x.events[PolicyDelayed]++
	seconds := x.p.Backoff
	most := uint64(1<<31 - 1)
	if x.p.BackoffMax > 0 {
		most = x.p.BackoffMax
	}
	for ; n > 1 && seconds < most; n-- {
		seconds *= 2
	}
	seconds = min(seconds, most)
	b := binary.LittleEndian.AppendUint64(nil, uint64(j.id))
	b = binary.LittleEndian.AppendUint32(b, j.stats.Reserves)
	jitter := Time(xxhash.Sum64(b) % (seconds*250_000_000 + 1))
	m.leaves(j, Delayed)
	j.state = 0 // that was counted
	m.now = max(m.now, m.delayedAt+1)
	m.delayedAt = m.now
	j.delay = uint32(seconds) + uint32((jitter+Second-1)/Second)
	m.set(j, Delayed, nil, m.now+Time(seconds)*Second+jitter)
	return true
}

func (m *model) bury(j *modelJob, by BuriedBy) {
	j.by = by
	m.set(j, Buried, nil, 0)
}

// policyDue is the next moment at which a policy does something.
func (m *model) policyDue(t *modelTube) Time {
	x, at := &t.policy, Never
	if x.spent {
		at = x.full
	}
	if x.p == nil {
		return at
	}
	if x.heldUntil != 0 {
		at = min(at, x.heldUntil)
	}
	if x.trimAt != 0 {
		at = min(at, x.trimAt)
	}
	if ready := m.byArrival(t, Ready); x.p.TTL > 0 && len(ready) > 0 {
		at = min(at, ready[0].at+Time(x.p.TTL)*Second)
	}
	if buried := m.byArrival(t, Buried); x.p.BuriedTTL > 0 && len(buried) > 0 {
		at = min(at, buried[0].at+Time(x.p.BuriedTTL)*Second)
	}
	return at
}

// excess is the next job that the limits of t end, nil: none.
func (m *model) excess(t *modelTube) *modelJob {
	p, ready, buried := t.policy.p, m.byArrival(t, Ready), m.byArrival(t, Buried)
	switch {
	case p.MaxBuried > 0 && len(buried) > int(p.MaxBuried):
		return buried[0]
	case p.Full == record.PolicyDropOldest && len(ready) > 0 &&
		(p.MaxJobs > 0 && len(ready)+len(m.in(t, Delayed)) > int(p.MaxJobs) || m.hasTooMany(t, bytesOf(m, t))):
		return ready[0]
	}
	return nil
}

// runPolicy does one of the things that are due at a moment.
func (m *model) runPolicy(t *modelTube, at Time) {
	x := &t.policy
	ready, buried := m.byArrival(t, Ready), m.byArrival(t, Buried)
	switch {
	case x.spent && x.full <= at:
		x.spent = false
		if x.p == nil {
			x.full = 0
		}
		if x.heldUntil == 0 || x.heldUntil > at {
			m.forget(t)
		}
	case x.heldUntil != 0 && x.heldUntil <= at:
		x.heldUntil = 0
		m.serve(t)
		m.forget(t)
	case x.p.TTL > 0 && len(ready) > 0 && ready[0].at+Time(x.p.TTL)*Second <= at:
		if x.events[PolicyExpired]++; x.p.Expired == record.PolicyBury {
			m.bury(ready[0], BuriedByExpiry)
		} else {
			m.delete(ready[0])
		}
	case x.p.BuriedTTL > 0 && len(buried) > 0 && buried[0].at+Time(x.p.BuriedTTL)*Second <= at:
		x.events[PolicyExpired]++
		m.delete(buried[0])
	case x.trimAt != 0 && x.trimAt <= at:
		if j := m.excess(t); j != nil {
			x.events[PolicyDropped]++
			m.delete(j)
		} else {
			x.trimAt = 0
		}
	default:
		panic(fmt.Sprintf("tube %q has nothing to do at %d", t.name, at))
	}
}

// policies draws a set for the names of d.
func (d *driver) drawPolicies() (set []record.Policy) {
	matches := append([]string{"*", "t*", "d*", "default*"}, d.names...)
	for _, match := range matches {
		if d.pick(3) > 0 {
			continue
		}
		p := record.Policy{Match: match, Note: "drawn"}
		option := func(to *uint64, values ...uint64) {
			if d.pick(3) == 0 {
				*to = values[d.pick(len(values))]
			}
		}
		option(&p.Attempts, 1, 2, 3)
		option(&p.Backoff, 1, 2, 1<<31-1)
		option(&p.BackoffMax, 2, 3, 1<<31-1)
		option(&p.TTL, 1, 2, 5, 30)
		option(&p.Expired, record.PolicyBury)
		option(&p.MaxJobs, 1, 2, 3, 10)
		option(&p.MaxBytes, 1, 100, 2000, 200_000)
		option(&p.Full, record.PolicyDropOldest)
		option(&p.RunningPlus, 1, 2, 3, 4)
		option(&p.ThousandthsASecond, 1, 300, 1000, 3000, 1_000_000_000)
		option(&p.Burst, 1, 2, 3, 1_000_000)
		option(&p.BuriedTTL, 1, 3, 20)
		option(&p.MaxBuried, 1, 2, 3)
		set = append(set, p)
	}
	return set
}

// changePolicies gives both another set, or none.
func (d *driver) changePolicies() error {
	var set []record.Policy
	if d.pick(4) > 0 {
		set = d.drawPolicies()
	}
	d.trace = append(d.trace, fmt.Sprintf("%d policies %+v", d.now, set))
	op := new(Op)
	op.SetPolicies(NewPolicies(set), d.pick(2) == 0)
	d.core.Apply(d.now, op, new(Reply))
	d.twin.expire(d.now)
	for from := d.core.Classify(0); from > 0; {
		from = d.core.Classify(from)
	}
	d.twin.setPolicies(set)
	return d.compare()
}

// comparePolicies compares what holds the tubes and what their policies have done.
func (d *driver) comparePolicies() error {
	for _, t := range d.twin.tubes {
		row := d.core.tubeRow(d.core.names[t.name])
		held := NotHeld
		switch x := &t.policy; {
		case t.pauseUntil != 0:
			held = HeldByPause
		case d.twin.holds(t) && x.p.RunningPlus > 0 && len(d.twin.in(t, Reserved)) >= int(x.p.RunningPlus-1):
			held = HeldByRunning
		case d.twin.holds(t):
			held = HeldByRate
		}
		if row.Held != held || row.Policed != t.policy.events || (row.Policy == nil) != (t.policy.p == nil) {
			return fmt.Errorf("tube %q: held by %d, did %v, policy %v; want %d, %v, %v", t.name, row.Held, row.Policed, row.Policy, held, t.policy.events, t.policy.p)
		}
	}
	return nil
}
