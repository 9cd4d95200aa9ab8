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
	"polystalk/shard/record"
	"polystalk/shard/stats"
)

var _ admin.Cluster = (*Member)(nil)

const (
	statusWithin = 2 * time.Second // for a node that is busy
	// newFor is how long a new leader may not know the match index of a server. Until then the
	// status omits the lag: it would be the whole log.
	newFor = time.Second
)

// Status implements admin.Cluster.
func (m *Member) Status() *wire.Cluster {
	out := &wire.Cluster{ID: hex(m.cluster.Load()), Node: m.id.Name, Role: cluster.Following.String(), Members: []wire.ClusterMember{}, AsOf: time.Now().UTC()}
	n, v := m.view()
	if n == nil {
		return out
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusWithin)
	defer cancel()
	s, err := n.Status(ctx)
	if err != nil { // the node has ended
		s = cluster.Status{Term: v.Term, Leader: v.Leader, Members: v.Members}
	}
	out.Role, out.Term, out.Lease = s.Role.String(), s.Term, s.Lease > 0
	out.LastIndex, out.LastTerm, out.CommittedIndex, out.AppliedIndex = s.Last, s.LastTerm, s.Commit, s.Applied
	out.Outstanding = wire.ClusterOutstanding{Entries: s.Proposals, Bytes: s.ProposalBytes}
	out.Totals = wire.ClusterTotals{LeaderChanges: s.Elections, LeaseLapses: s.Lapses, Fetches: s.Fetches, Forwarded: m.clients.forwarded()}
	if one := s.Members.Find(s.Leader); one != nil {
		out.Leader = &one.Name
	}
	links, sending := m.links.transport.Status(), m.source.Sending()
	for i := range s.Members.List {
		one := &s.Members.List[i]
		row := memberRow(one, s.Leader)
		if one.ID == m.id.Node {
			row.Connected, row.RoomBytes = true, new(m.room())
			if s.Role == cluster.Leading {
				row.MatchIndex, row.LagEntries, row.LagSeconds = new(s.Last), new(uint64(0)), new(0.0)
			}
			if m.links.security != nil {
				row.CertificateNotAfter = new(m.links.security.Expiry().At.UTC())
			}
		}
		if p := s.Peer(one.ID); p != nil {
			addPeer(&row, p, &s)
		}
		for j := range links {
			if links[j].Node == one.ID {
				addLink(&row, &links[j])
			}
		}
		for _, to := range sending {
			if to.To == one.ID {
				row.Fetching = &wire.ClusterFetching{SentBytes: to.Sent, AllBytes: to.All, Begun: to.Begun.UTC()}
			}
		}
		row.DiskFull = row.RoomBytes != nil && m.journal.FullWith(*row.RoomBytes)
		out.Members = append(out.Members, row)
	}
	m.addRules(out.Members)
	slices.SortFunc(out.Members, func(a, b wire.ClusterMember) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func memberRow(one *cluster.Member, leader uint64) wire.ClusterMember {
	kind := wire.MemberJoins
	switch {
	case one.Voter:
		kind = wire.MemberVotes
	case one.Standby:
		kind = wire.MemberStandby
	}
	return wire.ClusterMember{Name: one.Name, ID: hex(one.ID), Address: one.Addr, Kind: kind, Leads: one.ID == leader}
}

// addPeer adds what consensus knows of a server.
func addPeer(row *wire.ClusterMember, p *cluster.Peer, s *cluster.Status) {
	if p.Heard >= 0 {
		row.HeardSeconds = new(p.Heard.Seconds())
	}
	isNew := p.Match == 0 && p.Heard >= 0 && p.Heard < newFor
	if s.Role == cluster.Leading && !isNew {
		row.MatchIndex, row.LagEntries, row.LagSeconds = new(p.Match), new(s.Last-min(p.Match, s.Last)), new(p.Lag.Seconds())
		if p.Match >= s.Commit {
			*row.LagSeconds = 0 // else it would be the time since the last answer
		}
	}
}

// addLink adds what the transport knows of a server.
func addLink(row *wire.ClusterMember, p *transport.PeerStatus) {
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

// Leader implements admin.Cluster. A leader with an ended node leads no more.
func (m *Member) Leader() (name string, here bool) {
	n, v := m.view()
	if n == nil {
		return "", false
	}
	one := v.Members.Find(v.Leader)
	here = v.Leader == m.id.Node
	if one == nil || here && n.Ended() {
		return "", false
	}
	return one.Name, here
}

// Commits implements admin.Cluster.
func (m *Member) Commits() stats.Counts { return m.proposals.Times() }

// CheckPolicies implements admin.Cluster. It asks the other servers. The last answer of a server that
// cannot be reached still counts.
func (m *Member) CheckPolicies(ctx context.Context) error {
	n, v := m.view()
	if n == nil {
		return wire.Starting.Problem("")
	}
	m.eachOther(v.Members, func(one *cluster.Member) error {
		_, err := m.askMembership(ctx, one)
		return err
	})
	return m.checkRecords(v.Members)
}

// checkRecords refuses policies while a member has not answered that it reads their records.
func (m *Member) checkRecords(members *cluster.Members) error {
	var old, silent []string
	for _, one := range members.List {
		switch reads, answered := m.links.records.Load(one.ID); {
		case one.ID == m.id.Node || answered && reads.(record.Kind) >= record.KindPolicies:
		case answered:
			old = append(old, one.Name)
		default:
			silent = append(silent, one.Name)
		}
	}
	slices.Sort(old)
	slices.Sort(silent)
	var why, remedy []string
	if old != nil {
		names := strings.Join(old, ", ")
		why, remedy = append(why, "too old to read policies: "+names), append(remedy, "bring "+names+" to this release")
	}
	if silent != nil {
		names := strings.Join(silent, ", ")
		why, remedy = append(why, "not reached, so perhaps too old: "+names), append(remedy, "start "+names+", or remove what will not come back: polystalk cluster remove "+silent[0])
	}
	if why == nil {
		return nil
	}
	return wire.MembersTooOld.With("", strings.Join(why, "; "), strings.Join(remedy, "; ")+"; then try again")
}

// Remove implements admin.Cluster.
func (m *Member) Remove(ctx context.Context, node string) error {
	return m.change(ctx, node, cluster.Remove)
}

// Promote implements admin.Cluster.
func (m *Member) Promote(ctx context.Context, node string) error {
	return m.change(ctx, node, cluster.Promote)
}

func (m *Member) change(ctx context.Context, node string, kind cluster.ChangeKind) error {
	n, one, err := m.find(node)
	if err != nil {
		return err
	}
	c := cluster.Change{Kind: kind, Member: cluster.Member{ID: one.ID}}
	if err := m.askQuorum(ctx, n).checkChange(c); err != nil {
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
		return nil // the operator may ask again because an answer was lost
	case !one.Voter:
		return wire.NotChanged.With("node", one.Name+" does not vote, so it cannot lead", "make it a voter first: polystalk cluster promote "+one.Name)
	}
	if err := m.askQuorum(ctx, n).checkLeader(one, m.journal.FullWith); err != nil {
		return err
	}
	err = n.Transfer(ctx, one.ID)
	if errors.Is(err, cluster.ErrBehind) {
		return wire.NotChanged.With("node", one.Name+" has not caught up within --cluster-timeout, so it cannot take over: this server still leads",
			"wait until polystalk cluster status shows that it lacks nothing, or name another one")
	}
	return m.explain(err)
}

// find returns the member with a name.
func (m *Member) find(node string) (*cluster.Node, *cluster.Member, error) {
	n, v := m.view()
	if n == nil {
		return nil, nil, wire.Starting.Problem("")
	}
	one := v.Members.Named(node)
	if one == nil {
		return nil, nil, wire.NotFound.With("node", fmt.Sprintf("no server of the cluster is called %q", node), "look at the servers: GET /api/v1/cluster")
	}
	return n, one, nil
}

// explain turns an error of the node into a problem for operators.
func (m *Member) explain(err error) error {
	const look = "look at the servers again: GET /api/v1/cluster"
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return wire.Uncertain.With("", "the change was not made in time, and may still be made", look)
	case errors.Is(err, cluster.ErrUncertain): // it also wraps what has happened
		return wire.Uncertain.With("", "this server led when it got the change, and no longer leads: the change may still be made", look)
	case errors.Is(err, cluster.ErrNotLeader):
		return m.srv.Operator().Following()
	case errors.Is(err, cluster.ErrSelf): // the operator may have asked another server
		return wire.NotChanged.With("node", m.id.Name+" leads", "have another one lead first: polystalk cluster transfer")
	case errors.Is(err, cluster.ErrEnded):
		return wire.Stopping.Problem("")
	}
	return err
}
