package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
	"polystalk/shard/stats"
)

var _ admin.Cluster = (*Member)(nil)

// statusWithin bounds the wait for a node that is busy.
const statusWithin = 2 * time.Second

// Status implements admin.Cluster.
func (m *Member) Status() *wire.Cluster {
	out := &wire.Cluster{ID: hex(m.cluster.Load()), Node: m.id.Name, Role: cluster.Following.String(), Members: []wire.ClusterMember{}, AsOf: time.Now().UTC()}
	n := m.node.Load()
	if n == nil {
		return out // the journal is being read
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusWithin)
	defer cancel()
	s, err := n.Status(ctx)
	if err != nil { // it has ended
		v, _ := n.View()
		s = cluster.Status{Term: v.Term, Leader: v.Leader, Members: v.Members}
	}
	out.Role, out.Term, out.Lease = s.Role.String(), s.Term, s.Lease > 0
	out.LastIndex, out.LastTerm, out.CommittedIndex, out.AppliedIndex = s.Last, s.LastTerm, s.Commit, s.Applied
	out.Outstanding = wire.ClusterOutstanding{Entries: s.Proposals, Bytes: s.ProposalBytes}
	out.Totals = wire.ClusterTotals{LeaderChanges: s.Elections, LeaseLapses: s.Lapses, Fetches: s.Fetches, Forwarded: m.clients.handed()}
	if one := s.Members.Find(s.Leader); one != nil {
		out.Leader = &one.Name
	}
	for i := range s.Members.List {
		out.Members = append(out.Members, memberValue(&s.Members.List[i], s.Leader))
	}
	slices.SortFunc(out.Members, func(a, b wire.ClusterMember) int { return strings.Compare(a.Name, b.Name) })
	m.addPeers(out, &s)
	m.addConnections(out)
	sending := m.source.Sending()
	for i := range out.Members {
		row := &out.Members[i]
		for _, one := range sending {
			if row.ID == hex(one.To) {
				row.Fetching = &wire.ClusterFetching{SentBytes: one.Sent, AllBytes: one.All, Begun: one.Begun.UTC()}
			}
		}
		if row.ID == hex(m.id.Node) {
			row.RoomBytes = new(m.room())
			if m.ways.security != nil {
				row.CertificateNotAfter = new(m.ways.security.Until().UTC())
			}
		}
		row.DiskFull = row.RoomBytes != nil && m.journal.FullWith(*row.RoomBytes)
	}
	return out
}

func memberValue(one *cluster.Member, leader uint64) wire.ClusterMember {
	kind := wire.MemberJoins
	switch {
	case one.Voter:
		kind = wire.MemberVotes
	case one.Standby:
		kind = wire.MemberStandby
	}
	return wire.ClusterMember{Name: one.Name, ID: hex(one.ID), Address: one.Addr, Kind: kind, Leads: one.ID == leader}
}

// Leader implements admin.Cluster. Who led when its node ended leads no more.
func (m *Member) Leader() (name string, here bool) {
	n := m.node.Load()
	if n == nil {
		return "", false // the journal is being read
	}
	v, _ := n.View()
	one := v.Members.Find(v.Leader)
	here = v.Leader == m.id.Node
	if one == nil || here && n.Ended() {
		return "", false
	}
	return one.Name, here
}

// Commits implements admin.Cluster.
func (m *Member) Commits() stats.Counts { return m.proposals.Times() }

// addPeers adds what the node knows of the others, and, if it leads, of itself.
func (m *Member) addPeers(out *wire.Cluster, s *cluster.Status) {
	rows := make(map[string]*wire.ClusterMember)
	for i := range out.Members {
		rows[out.Members[i].ID] = &out.Members[i]
	}
	if row := rows[hex(m.id.Node)]; row != nil {
		row.Connected = true
		if s.Role == cluster.Leading {
			row.MatchIndex, row.LagEntries, row.LagSeconds = new(s.Last), new(uint64(0)), new(0.0)
		}
	}
	for i := range s.Peers {
		p := &s.Peers[i]
		row := rows[hex(p.ID)]
		if row == nil {
			continue
		}
		if p.Heard >= 0 {
			row.HeardSeconds = new(p.Heard.Seconds())
		}
		if s.Role == cluster.Leading && !isNew(p) {
			row.MatchIndex, row.LagEntries, row.LagSeconds = new(p.Match), new(s.Last-min(p.Match, s.Last)), new(p.Lag.Seconds())
			if p.Match >= s.Commit {
				*row.LagSeconds = 0 // else it would be the time since it last said so
			}
		}
	}
}

// isNew reports whether a leader has heard of a node just now, and not yet how far that is: to
// show that as all of the log would frighten people.
func isNew(p *cluster.Peer) bool { return p.Match == 0 && p.Heard >= 0 && p.Heard < newFor }

// newFor is how long that takes at most, unless something is wrong.
const newFor = time.Second

// addConnections adds what is known of the ways to the others.
func (m *Member) addConnections(out *wire.Cluster) {
	ways := make(map[string]transport.PeerStatus)
	for _, p := range m.ways.transport.Status() {
		ways[hex(p.Node)] = p
	}
	for i := range out.Members {
		row := &out.Members[i]
		p, ok := ways[row.ID]
		if !ok {
			continue
		}
		row.Connected, row.Trouble = p.ConnectedTo, p.Trouble
		if p.ClockSamples > 0 {
			row.ClockAheadSeconds = new(p.ClockAhead.Seconds())
		}
		row.RoomBytes = p.Room
		if !p.CertificateUntil.IsZero() {
			row.CertificateNotAfter = new(p.CertificateUntil.UTC())
		}
		row.SentBytes, row.ReceivedBytes, row.Dropped = p.SentBytes, p.ReceivedBytes, p.Dropped
	}
}

// Remove implements admin.Cluster.
func (m *Member) Remove(ctx context.Context, node string) error {
	return m.change(ctx, node, cluster.Remove)
}

// Promote implements admin.Cluster.
func (m *Member) Promote(ctx context.Context, node string) error {
	return m.change(ctx, node, cluster.Promote)
}

// change changes what a member is.
func (m *Member) change(ctx context.Context, node string, kind cluster.ChangeKind) error {
	n, one, err := m.find(node)
	if err != nil {
		return err
	}
	c := cluster.Change{Kind: kind, Member: cluster.Member{ID: one.ID}}
	if err := m.call(ctx, n).mayChange(c); err != nil {
		return err
	}
	return m.explain(n.Change(ctx, c))
}

// Transfer implements admin.Cluster.
func (m *Member) Transfer(ctx context.Context, node string) error {
	if node == "" {
		n := m.node.Load()
		if n == nil {
			return wire.Starting.Problem("")
		}
		return m.explain(n.Transfer(ctx, 0))
	}
	n, one, err := m.find(node)
	if err != nil {
		return err
	}
	switch v, _ := n.View(); {
	case v.Leader == one.ID:
		return nil // as it was to be: who asks again because an answer was lost need not know better
	case !one.Voter:
		return wire.NotChanged.With("node", one.Name+" does not vote, so it cannot lead", "have it vote first: polystalk cluster promote "+one.Name)
	}
	if err := m.call(ctx, n).mayLead(one, m.journal.FullWith); err != nil {
		return err
	}
	err = n.Transfer(ctx, one.ID)
	if errors.Is(err, cluster.ErrBehind) {
		return wire.NotChanged.With("node", one.Name+" has not caught up within --cluster-timeout, so it cannot take over: this server still leads",
			"wait until polystalk cluster status shows that it lacks nothing, or name another one")
	}
	return m.explain(err)
}

// find is the member of a name.
func (m *Member) find(node string) (*cluster.Node, *cluster.Member, error) {
	n := m.node.Load()
	if n == nil {
		return nil, nil, wire.Starting.Problem("")
	}
	v, _ := n.View()
	one := v.Members.Named(node)
	if one == nil {
		return nil, nil, wire.NotFound.With("node", fmt.Sprintf("no server of the cluster is called %q", node), "look at the servers: GET /api/v1/cluster")
	}
	return n, one, nil
}

// explain is what operators are told of an error of the node's.
func (m *Member) explain(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return mayBeMade("the change was not made in time, and may be made yet")
	case errors.Is(err, cluster.ErrUncertain): // whatever has happened besides
		return mayBeMade("this server led when the change was asked for, and leads no more: it may be made yet")
	case errors.Is(err, cluster.ErrNotLeader):
		return m.srv.Operator().Following()
	case errors.Is(err, cluster.ErrSelf): // who asks may have asked another one
		return wire.NotChanged.With("node", m.id.Name+" leads", "have another one lead first: polystalk cluster transfer")
	case errors.Is(err, cluster.ErrEnded):
		return wire.Stopping.Problem("")
	}
	return err
}

// mayBeMade is the problem of a change of which nobody knows what becomes of it.
func mayBeMade(why string) error {
	return wire.Uncertain.With("", why, "look at the servers again: GET /api/v1/cluster")
}

// otherLeader is the server that leads, if that is known and not this one.
func (m *Member) otherLeader() uint64 {
	n := m.node.Load()
	if n == nil {
		return 0
	}
	if v, _ := n.View(); v.Leader != m.id.Node {
		return v.Leader
	}
	return 0
}
