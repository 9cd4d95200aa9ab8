package member

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

const (
	// awayTimeouts is the number of election timeouts without a message after which a server counts
	// as unreachable. A leader gets several answers within one.
	awayTimeouts = 4
	// behindMax is the number of entries that a server may lack to take over from a full leader.
	behindMax = 1024
)

// A quorum knows which servers a leader can reach, and their free disk space. It refuses operators'
// changes that consensus would accept, but after which no server could lead.
type quorum struct {
	cluster.Status
	self   uint64
	links  []transport.PeerStatus
	within time.Duration // see isHeard
}

func (m *Member) newQuorum(s *cluster.Status, links []transport.PeerStatus) *quorum {
	return &quorum{*s, m.id.Node, links, awayTimeouts * m.o.Config.Cluster.Timeout}
}

// askQuorum returns the quorum now. It is nil if this server does not lead: the node then refuses.
func (m *Member) askQuorum(ctx context.Context, n *cluster.Node) *quorum {
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	s, err := n.Status(ctx)
	if err != nil || s.Role != cluster.Leading {
		return nil
	}
	return m.newQuorum(&s, m.links.transport.Status())
}

// isHeard reports whether this server is connected to another, and has had a message of consensus
// from it within a time.
func isHeard(node uint64, links []transport.PeerStatus, s *cluster.Status, within time.Duration) bool {
	p := s.Peer(node)
	return p != nil && p.Heard >= 0 && p.Heard < within &&
		slices.ContainsFunc(links, func(p transport.PeerStatus) bool { return p.Node == node && p.ConnectedTo })
}

func (q *quorum) has(id uint64) bool {
	return id == q.self || isHeard(id, q.links, &q.Status, q.within)
}

// away returns the names of the voters that cannot be reached.
func (q *quorum) away(of *cluster.Members) []string {
	names := []string{}
	for i := range of.List {
		if o := &of.List[i]; o.Voter && !q.has(o.ID) {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names
}

// checkChange refuses a change after which no majority of the voters could be reached. Consensus
// refuses invalid changes.
func (q *quorum) checkChange(c cluster.Change) error {
	if q == nil {
		return nil
	}
	one := q.Members.Find(c.Member.ID)
	next, err := q.Members.After(c, q.Members.Index+1)
	if err != nil || one == nil || one.ID == q.self || next.Voters() == q.Members.Voters() {
		return nil
	}
	away := q.away(next)
	if next.Voters()-len(away) > next.Voters()/2 {
		return nil
	}
	names := strings.Join(away, ", ")
	if c.Kind == cluster.Promote {
		return wire.NotChanged.With("node", "if "+one.Name+" voted, no majority of the voters could be reached: no server could lead without "+names, "start "+names+" first")
	}
	return wire.NotChanged.With("node", "without "+one.Name+" no majority of the voters could be reached: no server could lead without "+names,
		"start "+names+" first, or remove what will not come back first: polystalk cluster remove "+away[0])
}

// checkLeader refuses a next leader that cannot be reached, or has a full disk: it would hand over
// again.
func (q *quorum) checkLeader(one *cluster.Member, isFull func(room int64) bool) error {
	if q == nil {
		return nil
	}
	if !q.has(one.ID) {
		return wire.NotChanged.With("node", one.Name+" cannot be reached, so it cannot take over",
			"start it first, or name another one: polystalk cluster status shows which servers are connected")
	}
	if room := q.roomOf(one.ID); room != nil && isFull(*room) {
		return wire.NotChanged.With("node", "the disk of "+one.Name+" is full, so it cannot take over",
			"free space there first, or name another one: polystalk cluster status shows which disks are full")
	}
	return nil
}

// roomOf returns the free bytes that a server reported last; nil: it never did.
func (q *quorum) roomOf(id uint64) *int64 {
	for i := range q.links {
		if q.links[i].Node == id {
			return q.links[i].Room
		}
	}
	return nil
}

// withRoom returns the voter with the most free space among the voters that lack little of the log.
// It is nil unless a majority without this server has at least least bytes.
func (q *quorum) withRoom(least int64) (best *cluster.Member) {
	most, able := int64(-1), 0
	for i := range q.Members.List {
		one := &q.Members.List[i]
		room, peer := q.roomOf(one.ID), q.Peer(one.ID)
		if !one.Voter || one.ID == q.self || !q.has(one.ID) || room == nil || *room < least {
			continue
		}
		able++
		if peer.Match+behindMax >= q.Commit && *room > most {
			most, best = *room, one
		}
	}
	if able <= q.Members.Voters()/2 {
		return nil
	}
	return best
}

// roomOfMajority returns the number of bytes that a majority of voters with this server has room
// for, and the names of the servers that limit it. A server that never reported its room sets no
// limit, and a server that cannot be reached does not count. Without a reachable majority there is
// no limit, since consensus ends the lead.
func (q *quorum) roomOfMajority() (room int64, of []string) {
	type voter struct {
		room int64
		name string
	}
	var all []voter
	for i := range q.Members.List {
		v := &q.Members.List[i]
		if !v.Voter || v.ID == q.self || !q.has(v.ID) {
			continue
		}
		all = append(all, voter{math.MaxInt64, v.Name})
		if told := q.roomOf(v.ID); told != nil {
			all[len(all)-1].room = *told
		}
	}
	needed := q.Members.Voters() / 2 // in addition to this server
	if needed == 0 || len(all) < needed {
		return math.MaxInt64, nil
	}
	slices.SortFunc(all, func(a, b voter) int { return cmp.Or(cmp.Compare(a.room, b.room), cmp.Compare(a.name, b.name)) })
	room = all[len(all)-needed].room
	for _, v := range all[:len(all)-needed+1] {
		of = append(of, v.name)
	}
	return room, of
}
