package cluster

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// A ready is work for the owner of a Machine. The Appends of all readies must be done in order, and
// so must the Applys. The rest has no order.
type ready struct {
	Send   []Message // to send now
	Append *Append   // or nil
	Apply  *apply    // or nil
	Fetch  *Fetch    // or nil
}

// An Append is work for the disk.
type Append struct {
	Entries []Entry
	Commit  uint64
	Vote    *Vote // nil: unchanged
	// After are messages that wait until this Append and all earlier ones are synced. Then messages
	// to this node go to Done, and the others are sent. Without messages no sync is needed.
	After []Message
}

// An apply is a range of committed entries.
type apply struct {
	Entries []Entry
	Own     uint64 // the term in which this node leads; zero: it does not
	after   Message
}

// Done returns the message for Machine.Done when all entries are applied.
func (a *apply) Done() Message { return a.after }

// A Fetch says that this node must fetch the leader's journal and restart with it.
type Fetch struct {
	From        uint64
	Index, Term uint64 // the journal has at least this entry
}

// Ready returns the work to do now. It reports false if there is none.
func (m *Machine) Ready() (r ready, ok bool) {
	held := m.holding.release(m.store.applied)
	if !m.raft.HasReady() && m.fetch == nil && len(held) == 0 {
		return r, false
	}
	rd := m.raft.Ready()
	if s := rd.SoftState; s != nil {
		m.become(s)
	}
	commit := m.raft.BasicStatus().GetCommit()
	r = ready{Send: held, Fetch: m.fetch}
	m.fetch = nil
	m.noteOwn(rd.Entries)
	for _, state := range rd.ReadStates {
		m.lease.answered(state.RequestCtx)
	}
	for _, msg := range rd.Messages {
		switch msg.GetTo() {
		case raft.LocalAppendThread:
			r.Append = m.toAppend(msg, commit)
		case raft.LocalApplyThread:
			r.Apply = &apply{Entries: fromRaft(msg.GetEntries()), Own: m.Leads(), after: Message{msg.GetResponses()[0]}}
		default:
			switch msg.GetType() {
			case raftpb.MsgSnap:
				m.fetching[msg.GetTo()] = fetchTicks
				m.fetches++
			case raftpb.MsgTimeoutNow: // the others may elect that node, whatever they told this one
				m.lease.end()
				m.transferring = 2 * electionTicks
			}
			if m.role == Leading {
				msg = m.holding.take(msg, m.id, m.store.applied)
			}
			r.Send = append(r.Send, Message{msg})
		}
	}
	return r, true
}

// become records a new role or leader.
func (m *Machine) become(s *raft.SoftState) {
	was := m.role
	m.leader = s.Lead
	switch s.RaftState {
	case raft.StateLeader:
		m.role = Leading
	case raft.StateFollower:
		m.role = Following
	default:
		m.role = Campaigning
	}
	switch {
	case m.role == Leading && was != Leading:
		m.lease.begin()
	case m.role != Leading:
		m.lease.end()
		clear(m.fetching)
		clear(m.holding.messages)
	}
}

// noteOwn counts the entries that a leader appends: first the empty entry with which raft begins a
// term, then proposals.
func (m *Machine) noteOwn(entries []*raftpb.Entry) {
	if m.role != Leading || len(entries) == 0 {
		return
	}
	last := entries[len(entries)-1].GetIndex()
	switch {
	case entries[0].GetTerm() != entries[len(entries)-1].GetTerm():
		panic(fmt.Sprintf("a leader writes entries of the terms %d and %d", entries[0].GetTerm(), entries[len(entries)-1].GetTerm()))
	case m.ledTerm != entries[0].GetTerm():
		m.ledTerm = entries[0].GetTerm()
		m.last, m.change = last, last // earlier changes are applied before this entry
	case last != m.last:
		panic(fmt.Sprintf("the last entry was to be %d, and is %d", m.last, last))
	}
}

// toAppend converts raft's work for the disk.
func (m *Machine) toAppend(msg *raftpb.Message, commit uint64) *Append {
	a := &Append{Entries: fromRaft(msg.GetEntries()), Commit: commit}
	m.holding.note(a.Entries)
	if v := (Vote{msg.GetTerm(), msg.GetVote()}); v.Term != 0 && v != m.vote {
		m.vote = v
		a.Vote = &v
	}
	for _, after := range msg.GetResponses() {
		a.After = append(a.After, Message{after})
	}
	return a
}

// Leads returns the term in which this node leads, after the last Ready; zero: it does not.
func (m *Machine) Leads() uint64 {
	if m.role != Leading {
		return 0
	}
	return m.ledTerm
}

// Done returns a message to the Machine once its work is synced or applied.
func (m *Machine) Done(msg Message) error {
	if msg.pb.GetType() == raftpb.MsgStorageApplyResp {
		if n := len(msg.pb.GetEntries()); n > 0 {
			m.store.applied = msg.pb.GetEntries()[n-1].GetIndex()
		}
	}
	if err := m.raft.Step(msg.pb); err != nil && !errors.Is(err, raft.ErrStepPeerNotFound) {
		return err
	}
	return nil // raft drops messages of a node that is not a member, even to itself
}
