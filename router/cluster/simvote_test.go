package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"polystalk/shard/wal"
)

// A ballot is the vote that a node has in a term.
type ballot struct{ node, term uint64 }

// heed checks the promises in a message that a node sends: in all its lives it votes for one node in
// a term, and never goes back to a term before its last vote or acknowledgement.
func (w *world) heed(s *simNode, m Message) error {
	term := m.pb.GetTerm()
	candidate := uint64(0)
	switch m.pb.GetType() {
	case raftpb.MsgPreVote: // this and its answer are for a term that has not begun
		if w.rng.IntN(2) == 0 {
			w.in(0, func() error { return w.ambush(s) })
		}
		return nil
	case raftpb.MsgPreVoteResp:
		return nil
	case raftpb.MsgVote:
		candidate = s.id // its own vote counts once it is synced, which is not visible here
	case raftpb.MsgVoteResp:
		if !m.pb.GetReject() {
			candidate = m.To()
			s.voted = candidate
		}
	}
	if was := w.ballots[ballot{s.id, term}]; candidate != 0 && was != 0 && was != candidate {
		return fmt.Errorf("node %d votes for %d in term %d, and has voted for %d", s.id, candidate, term, was)
	}
	switch m.pb.GetType() {
	case raftpb.MsgVoteResp, raftpb.MsgAppResp:
		if candidate != 0 {
			w.ballots[ballot{s.id, term}] = candidate
		}
		s.promised = max(s.promised, term)
	}
	if term < s.promised {
		return fmt.Errorf("node %d is in term %d, and has made a promise in term %d", s.id, term, s.promised)
	}
	return nil
}

// forget restarts a node that has just voted, before it syncs anything else; perhaps it loses its
// candidate's messages.
func (w *world) forget(s *simNode) error {
	if w.rng.IntN(2) == 0 {
		w.cut[[2]uint64{s.voted, s.id}] = true
	}
	w.in(time.Duration(1+w.rng.IntN(int(tickTime))), s.start)
	return s.stop(false)
}

// A lazyState is the file of a State that syncs the members, but no votes.
type lazyState struct {
	wal.File
	state  *State
	synced *Members
}

func (f *lazyState) Sync() error {
	if f.synced == f.state.members {
		return nil
	}
	f.synced = f.state.members
	return f.File.Sync()
}

// miss makes a node lose the leader's messages. Often clients do nothing meanwhile, so that it
// misses no entries.
func (w *world) miss() {
	l := w.leader()
	if l == nil {
		return
	}
	if w.rng.IntN(4) > 0 {
		w.idle = w.now + 4*timeoutTime
	}
	if all := w.voters(l); len(all) > 0 {
		b := all[w.rng.IntN(len(all))]
		w.tell("node %d misses %d", b.id, l.id)
		w.in(3*tickTime, func() error {
			b.missed, b.missing = l.id, w.now+3*timeoutTime
			return nil
		})
	}
}

// ambush cuts the leader off while another node campaigns, and perhaps restarts the others: they
// have lost the time for which they must not vote.
func (w *world) ambush(b *simNode) error {
	l := w.leader()
	if w.calm || l == nil || l == b || !l.hand.Leased() {
		return nil
	}
	w.isolate(l)
	if w.rng.IntN(4) == 0 {
		return nil
	}
	for _, a := range w.voters(l) {
		if a == b {
			continue
		}
		w.in(time.Duration(1+w.rng.IntN(10)), a.start)
		if err := a.stop(false); err != nil {
			return err
		}
	}
	return nil
}

// voters returns the voters that are up, without the leader.
func (w *world) voters(leader *simNode) (all []*simNode) {
	for _, one := range leader.hand.Machine().Members().List {
		if s := w.node(one.ID); one.Voter && s != leader && s.hand != nil && !s.away {
			all = append(all, s)
		}
	}
	return all
}

// contest makes two nodes campaign at once, after their election timeout. They hear neither each
// other nor the leader, and the messages of one are late.
func (w *world) contest(b *simNode) {
	a, l := w.nodes[w.rng.IntN(len(w.nodes))], w.leader()
	if a == b || a == l || b == l || l == nil {
		return
	}
	for _, link := range [][2]*simNode{{a, b}, {b, a}, {l, a}, {l, b}} {
		w.cut[[2]uint64{link[0].id, link[1].id}] = true
	}
	w.in(timeoutTime+time.Duration(w.rng.IntN(int(timeoutTime)/2)), func() error {
		for _, s := range []*simNode{b, a} {
			if w.calm || s.hand == nil || s.away || s.hand.Machine().quiet > 0 {
				return nil
			}
		}
		w.tell("nodes %d and %d want to lead", a.id, b.id)
		b.slow = w.now + time.Duration(w.rng.IntN(int(timeoutTime)))
		for _, s := range []*simNode{b, a} {
			if err := s.after(s.hand.Do(func(m *Machine) { _ = m.raft.Campaign() })); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestLastOtherVoterGoes: of two voters the follower is removed, and the leader loses power at the
// moment in which the follower ends. The leader leads again, alone.
func TestLastOtherVoterGoes(t *testing.T) {
	for seed := range uint64(60) {
		if err := removeAll(newWorld(t, seed+1, honest)); err != nil {
			t.Fatalf("seed %d: %v", seed+1, err)
		}
	}
}

func removeAll(w *world) error {
	w.calm = true
	wait := func(what string, is func() bool) error {
		for end := w.now + 10*timeoutTime; !is(); {
			if w.now >= end {
				return errors.New(what)
			}
			if err := w.until(w.now + 1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := wait("nobody leads", func() bool { return w.leader() != nil }); err != nil {
		return err
	}
	l := w.leader()
	for _, s := range w.nodes {
		if s == l || s.gone {
			continue
		}
		err := wait("it cannot be removed", func() bool {
			var refused error
			if err := l.after(l.hand.Do(func(m *Machine) {
				_, refused = m.ProposeChange(Change{Kind: Remove, Member: Member{ID: s.id}})
			})); err != nil {
				w.broken = err
			}
			return refused == nil
		})
		if err != nil {
			return err
		}
		if wait("it does not end", func() bool { return s.gone }) != nil { // it had not caught up
			s.gone = true
			if err := s.stop(false); err != nil {
				return err
			}
		}
	}
	if w.broken != nil || l.hand == nil {
		return w.broken
	}
	if err := l.stop(false); err != nil {
		return err
	}
	if err := l.start(); err != nil {
		return err
	}
	return wait("it does not lead alone", func() bool { return l.hand != nil && l.hand.Leads() != 0 })
}
