package cluster

import (
	"testing"
	"time"
)

// client makes the leader execute operations at random times.
func (w *world) client() error {
	if w.still {
		return nil
	}
	w.in(max(time.Duration(20+w.rng.IntN(w.pace)), w.idle-w.now), w.client)
	for _, s := range w.nodes {
		if s.hand == nil || s.away || s.hand.Leads() == 0 || !s.props.Room() {
			continue
		}
		var err error
		if w.rng.IntN(40) == 0 && len(w.history) > 5 {
			err = s.rep.giveUp(min(s.hand.Machine().store.applied, s.log.first+uint64(w.rng.IntN(60))))
		} else {
			err = s.rep.do(w.rng.IntN(4), 1+w.rng.IntN(2))
		}
		if err == nil {
			err = s.hand.Propose()
		}
		if err := s.after(err); err != nil {
			return err
		}
	}
	return nil
}

// mischief injects faults and operators' changes at random times.
func (w *world) mischief() error {
	if w.calm {
		return nil
	}
	w.in(time.Duration(w.rng.IntN(w.pause)), w.mischief)
	s := w.nodes[w.rng.IntN(len(w.nodes))]
	switch w.rng.IntN(17) {
	case 0, 1:
		if s.hand != nil {
			return s.stop(true)
		}
	case 2:
		s.doomed = s.hand != nil
	case 3:
		if s.hand != nil && !s.away {
			s.away = true
			w.tell("node %d stands still", s.id)
			w.in(time.Duration(w.rng.IntN(6*int(timeoutTime))), s.goOn)
		}
	case 4, 5:
		if l := w.leader(); l != nil && w.rng.IntN(2) == 0 {
			s = l
		}
		w.isolate(s)
	case 6:
		for range 3 {
			w.cut[[2]uint64{1 + w.rng.Uint64N(uint64(len(w.nodes))), 1 + w.rng.Uint64N(uint64(len(w.nodes)))}] = true
		}
	case 7, 8, 9:
		clear(w.cut)
	case 10:
		return w.transfer(s)
	case 11, 12:
		w.miss()
	case 13:
		w.contest(s)
	default:
		return w.changeMembers(s)
	}
	return nil
}

func (s *simNode) goOn() error {
	s.away = false
	return nil
}

// isolate cuts the links of a node, from it, to it or both.
func (w *world) isolate(s *simNode) {
	how := w.rng.IntN(3)
	w.tell("node %d is cut off, way %d", s.id, how)
	for _, o := range w.nodes {
		if how != 1 {
			w.cut[[2]uint64{s.id, o.id}] = true
		}
		if how != 0 {
			w.cut[[2]uint64{o.id, s.id}] = true
		}
	}
}

// leader returns a node that believes that it leads.
func (w *world) leader() *simNode {
	for _, s := range w.nodes {
		if s.hand != nil && !s.away && s.hand.Leads() != 0 {
			return s
		}
	}
	return nil
}

func (w *world) transfer(to *simNode) error {
	s := w.leader()
	if s == nil {
		return nil
	}
	return s.after(s.hand.Do(func(m *Machine) {
		if m.Transfer(to.id) == nil {
			w.seen["transfers"]++
			w.tell("node %d hands over to %d", s.id, to.id)
		}
	}))
}

// changeMembers adds, promotes, moves or removes a member.
func (w *world) changeMembers(other *simNode) error {
	s := w.leader()
	if s == nil {
		return nil
	}
	if w.rng.IntN(4) == 0 {
		other = w.nodes[len(w.nodes)-1] // the newest
	}
	m := s.hand.Machine().Members()
	c := Change{Member: Member{ID: other.id, Name: other.name, Addr: "x"}}
	switch one := m.Find(other.id); {
	case one == nil && other.life == 0:
		c.Kind = Add
	case one == nil:
		w.again(other)
		return nil
	case other.gone && other.life == 0:
		return other.join(s)
	case !one.Voter:
		c.Kind = Promote
	case m.Voters() > 3 || m.Voters() > 1 && w.rng.IntN(3) == 0:
		c.Kind = Remove
	default:
		c.Kind, c.Member.Addr = Move, "y"
	}
	return s.after(s.hand.Do(func(m *Machine) {
		if _, err := m.ProposeChange(c); err == nil {
			w.seen["changes"]++
			w.tell("node %d proposes %+v", s.id, c)
		}
	}))
}

// again brings a removed node back under its name with a new ID: an ID is used once.
func (w *world) again(s *simNode) {
	if s.next || len(w.nodes) == nodesMax {
		return
	}
	s.next = true
	w.spare(s.name).back = true
}

// join starts a new node with the journal of the leader.
func (s *simNode) join(leader *simNode) error {
	s.gone = false
	s.log = leader.log.copyOf()
	s.create(leader.hand.Machine().Members())
	s.w.tell("node %d joins", s.id)
	if s.back {
		s.w.seen["rejoins"]++
	}
	return s.start()
}

// sabotage plants a fault in a node that starts.
func (s *simNode) sabotage() {
	m := s.hand.engine.machine
	switch s.w.fault {
	case noSilence:
		m.quiet = 0
	case longLease:
		m.lease.length *= 2
	case entriesNotSynced:
		s.log.lazy = true
	case voteNotSynced:
		st := s.hand.engine.disk.state
		st.file = &lazyState{st.file, st, st.members}
	}
}

// spoil changes the disk of a stopped node: it finds less, or more, than it had.
func (s *simNode) spoil() error {
	if s.w.fault == commitBeyond {
		s.log.committed = s.log.Last()
	}
	if s.w.fault != membersLate {
		return nil
	}
	st, err := OpenState(s.disk)
	if err != nil {
		return err
	}
	defer st.Close()
	return st.SaveMembers(s.was)
}

// TestFaultyNodesAreSeen: each planted fault breaks a rule within a few seeds.
func TestFaultyNodesAreSeen(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for name, f := range map[string]fault{
		"entries are told before they are synced": entriesNotSynced,
		"votes are told before they are synced":   voteNotSynced,
		"no silence after a start":                noSilence,
		"a reply before the commit":               replyEarly,
		"own entries are applied again":           ownTwice,
		"a commit beyond the log":                 commitBeyond,
		"a lease that is too long":                longLease,
		"members that are not synced":             membersLate,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(400) {
				if err := newWorld(t, seed+1, f).run(); err != nil {
					t.Logf("seed %d: %v", seed+1, err)
					return
				}
			}
			t.Error("no seed has found the fault")
		})
	}
}

// TestLeaseEndsWhenAVoterIsToldToCampaign: from then on the others may elect that node. A transfer
// to a voter that lacks a part of the log does not end the lease.
func TestLeaseEndsWhenAVoterIsToldToCampaign(t *testing.T) {
	w := newWorld(t, 1, honest)
	w.calm = true
	w.in(10*tickTime, w.client)
	tick := func() {
		if err := w.until(w.now + tickTime); err != nil || w.now > 1000*timeoutTime {
			t.Fatalf("at %d: %v", w.now, err)
		}
	}
	l := w.leader()
	for ; l == nil || !l.hand.Leased(); l = w.leader() {
		tick()
	}
	b := w.nodes[l.id%3]
	lacks := func() bool {
		m := l.hand.Machine()
		return m.raft.Status().Progress[b.id].Match < m.last
	}
	transfer := func() {
		if err := l.hand.Do(func(m *Machine) { m.Transfer(b.id) }); err != nil {
			t.Fatal(err)
		}
	}
	w.cut[[2]uint64{l.id, b.id}] = true
	for !lacks() {
		tick()
	}
	transfer()
	if !l.hand.Leased() {
		t.Error("a transfer to a voter that lacks a part of the log has ended the lease")
	}
	for l.hand.Machine().Transferring() {
		tick()
	}
	if !l.hand.Leased() {
		t.Error("there is no lease after a transfer that failed")
	}
	clear(w.cut)
	w.still = true
	for lacks() {
		tick()
	}
	transfer()
	if l.hand.Leased() {
		t.Error("there is a lease after a voter was told to campaign")
	}
}
