package cluster

import (
	"context"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// A Status describes a node for operators.
type Status struct {
	Role            role
	Term, Leader    uint64
	Leads           bool          // with its replica: it serves clients
	Lease           time.Duration // time left; zero: it has none
	Commit, Applied uint64
	Last, LastTerm  uint64 // of its last entry
	Members         *Members
	Peers           []Peer // the others; the leader knows most

	Proposals     int // not committed
	ProposalBytes int
	Elections     uint64 // changes of the leader since the start
	Lapses        uint64 // of the lease, while it led
	Fetches       uint64 // requests to others to fetch the journal
}

// Peer returns another member, or nil.
func (s *Status) Peer(id uint64) *Peer {
	for i := range s.Peers {
		if s.Peers[i].ID == id {
			return &s.Peers[i]
		}
	}
	return nil
}

// A Peer is another member, as a node sees it.
type Peer struct {
	ID    uint64
	Heard time.Duration // since its last message; negative: there was none
	// Only the leader knows the fields below.
	Match  uint64        // the last entry that it has
	Lag    time.Duration // since it last had all committed entries
	Active bool          // it has answered within the last timeout
}

// figures are a node's counters. The Machine's goroutine owns them.
type figures struct {
	elections, lapses uint64
	heard             map[uint64]time.Duration
	reached           map[uint64]mark
	leased            bool
}

// A mark is the commit index at one time, for one follower. Once the follower has reached the index,
// its lag counts from that time.
type mark struct {
	index      uint64
	at, caught time.Duration
}

func (f *figures) init() {
	f.heard, f.reached = map[uint64]time.Duration{}, map[uint64]mark{}
}

// hear records a message of a node.
func (f *figures) hear(id uint64, now time.Duration) { f.heard[id] = now }

// turnOver counts changes of the leader.
func (f *figures) turnOver(was, is *View, self uint64) {
	if is.Leader != was.Leader && is.Leader != 0 {
		f.elections++
	}
	if is.Leader != self {
		clear(f.reached)
	}
}

// noteProgress records the progress of the followers. It is called once a tick.
func (n *Node) noteProgress() {
	m, now := n.engine.machine, n.now()
	if m.Leads() == 0 {
		n.figures.leased = false
		return
	}
	held := now < m.leaseUntil()
	if n.figures.leased && !held {
		n.figures.lapses++
	}
	n.figures.leased = held
	commit := m.raft.BasicStatus().GetCommit()
	m.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		k, known := n.figures.reached[id]
		if !known {
			k = mark{commit, now, now}
		}
		if p.Match >= k.index {
			k = mark{commit, now, k.at}
		}
		n.figures.reached[id] = k
	})
}

// Status returns the status of the node.
func (n *Node) Status(ctx context.Context) (Status, error) {
	var s Status
	if err := n.do(ctx, func(m *Machine) { s = n.status(m) }); err != nil {
		return Status{}, err
	}
	return s, nil
}

func (n *Node) status(m *Machine) Status {
	now := n.now()
	b := m.raft.BasicStatus()
	v, _ := n.View()
	s := Status{
		Role: m.role, Term: b.GetTerm(), Leader: m.leader, Leads: v.Leads,
		Lease: max(0, m.leaseUntil()-now), Commit: b.GetCommit(), Applied: b.Applied,
		Last: m.store.log.Last(), Members: m.Members(),
		Elections: n.figures.elections, Lapses: n.figures.lapses, Fetches: m.fetches,
	}
	s.LastTerm, _ = m.store.log.Term(s.Last) // fails if the entry was replaced just now
	s.Proposals, s.ProposalBytes = n.opts.Proposals.Outstanding()
	progress := map[uint64]tracker.Progress{}
	if m.Leads() != 0 {
		m.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) { progress[id] = p })
	}
	for i := range s.Members.List {
		id := s.Members.List[i].ID
		if id == m.id {
			continue
		}
		p := Peer{ID: id, Heard: -1, Match: progress[id].Match, Active: progress[id].RecentActive}
		if at, is := n.figures.heard[id]; is {
			p.Heard = now - at
		}
		if k, is := n.figures.reached[id]; is {
			p.Lag = now - k.caught
		}
		s.Peers = append(s.Peers, p)
	}
	return s
}
