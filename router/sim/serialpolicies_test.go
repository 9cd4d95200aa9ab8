package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/router/direct"
)

// TestManyShardsFollowPoliciesAsOne is TestManyShardsAnswerAnOperatorAsOne with policies of tubes,
// which change.
func TestManyShardsFollowPoliciesAsOne(t *testing.T) {
	did := map[string]int{}
	seeds(t, 200, func(seed uint64) error {
		s := newSerial(seed)
		for _, w := range s.worlds {
			s.operators = append(s.operators, w.newOperator())
		}
		s.cmds, s.polices = did, true
		if err := s.policies(); err != nil {
			return err
		}
		return s.run(150)
	})
	wantSeen(t, did, "policy: dead", "policy: delayed", "policy: expired", "policy: dropped", "policy: refused",
		"policy: held by running", "policy: held by rate")
}

// policies gives the servers of both worlds another set. A set takes effect in one shard after the
// other. So it is not changed while a client waits that might get jobs of several.
func (s *serial) policies() error {
	if slices.ContainsFunc(s.conns, func(c *serialConn) bool { return c.k[1].waiting() }) {
		return nil
	}
	var set []wire.PolicyView
	for _, match := range append([]string{"*", "tube-*", "d*"}, s.names...) {
		if s.rng.IntN(3) > 0 {
			continue
		}
		p := wire.Policy{Match: match}
		option := func(to *uint64, values ...uint64) {
			if s.rng.IntN(3) == 0 {
				*to = values[s.rng.IntN(len(values))]
			}
		}
		option(&p.Attempts, 1, 2, 3)
		option(&p.BackoffSeconds, 1, 2)
		option(&p.TTLSeconds, 2, 5, 20)
		option(&p.MaxJobs, 1, 2, 5)
		option(&p.MaxBytes, 1000, 100_000)
		option(&p.BuriedTTLSeconds, 2, 20)
		option(&p.MaxBuried, 1, 3)
		if s.rng.IntN(2) == 0 {
			p.Expired, p.Full = "bury", "drop-oldest"
		}
		switch s.rng.IntN(4) {
		case 0:
			p.PerSecond = []float64{0.1, 0.7, 3, 1000}[s.rng.IntN(4)]
			option(&p.Burst, 1, 2, 3)
		case 1:
			p.Running = new(uint64(s.rng.IntN(3)))
		}
		set = append(set, wire.PolicyView{Policy: p})
	}
	_, err := s.ask(fmt.Sprintf("policies %+v", set), func(o *operator, _ *direct.Caller) (string, error) {
		_, err := o.Admin.SetPolicies(context.Background(), set, admin.PolicyEdit{})
		return "", err
	})
	return err
}

// endPolicies removes all policies, so that nothing keeps tubes without clients and jobs.
func (s *serial) endPolicies() error {
	for i, o := range s.operators {
		o.Begin(func(*direct.Caller) error {
			_, err := o.Admin.SetPolicies(context.Background(), nil, admin.PolicyEdit{})
			return err
		})
		if err := s.worlds[i].rest(); err != nil {
			return err
		}
	}
	return nil
}

// comparePolicies compares what the policies of both worlds have done, and what they hold.
func (s *serial) comparePolicies() error {
	_, err := s.ask("what the policies did", func(o *operator, _ *direct.Caller) (string, error) {
		all, err := o.Admin.Tubes(context.Background(), 0)
		if err != nil {
			return "", err
		}
		var tubes []string
		for i := range all.Rows {
			row := &all.Rows[i]
			tubes = append(tubes, fmt.Sprintln(row.Name, row.Held, row.Policed))
			if o == s.operators[1] {
				s.cmds["policy: held by "+admin.HeldNames[row.Held]]++
				for e, name := range admin.PolicyEventNames {
					s.cmds["policy: "+name] += int(row.Policed[e])
				}
			}
		}
		slices.Sort(tubes)
		return strings.Join(tubes, ""), nil
	})
	return err
}
