package core

import (
	"math"

	"polystalk/shard/record"
)

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

// policing is the part of a core for policies.
type policing struct {
	set      *Policies // of all tubes
	recorded *Policies // the set in the records; only in the core that records it
	freed    []*tube   // tubes with a reservation that has ended since the last matchFreed
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
