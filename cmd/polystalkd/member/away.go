package member

import (
	"context"
	"slices"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// awayTimeouts without a message of a server's are as no connection: the leader has several
// answers of each within one.
const awayTimeouts = 4

// A roll is who can be reached, as the leader knows it. It keeps operators from changes that
// consensus makes, and after which nobody could lead.
type roll struct {
	self    uint64
	members *cluster.Members
	ways    []transport.PeerStatus
	peers   []cluster.Peer
	within  time.Duration

	commit, applied uint64
	proposals       int // not committed
}

// call is the roll of this moment, nil if this server does not lead: the node says so then, and
// says too that it has ended.
func (m *Member) call(ctx context.Context, n *cluster.Node) *roll {
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	s, err := n.Status(ctx)
	if err != nil || s.Role != cluster.Leading {
		return nil
	}
	return &roll{
		self: m.id.Node, members: s.Members, ways: m.ways.transport.Status(), peers: s.Peers,
		within: awayTimeouts * m.o.Config.Cluster.Timeout,
		commit: s.Commit, applied: s.Applied, proposals: s.Proposals,
	}
}

func (r *roll) has(id uint64) bool {
	return id == r.self || isHeard(id, r.ways, r.peers, r.within)
}

// away returns the names of the voters among some members that cannot be reached.
func (r *roll) away(of *cluster.Members) []string {
	names := []string{}
	for i := range of.List {
		if o := &of.List[i]; o.Voter && !r.has(o.ID) {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names
}

// mayChange is the problem of a change after which no majority of those that vote could be reached.
// What cannot be changed at all, consensus refuses.
func (r *roll) mayChange(c cluster.Change) error {
	if r == nil {
		return nil
	}
	one := r.members.Find(c.Member.ID)
	next, err := r.members.After(c, r.members.Index+1)
	if err != nil || one == nil || one.ID == r.self || next.Voters() == r.members.Voters() {
		return nil
	}
	away := r.away(next)
	if next.Voters()-len(away) > next.Voters()/2 {
		return nil
	}
	names := strings.Join(away, ", ")
	if c.Kind == cluster.Promote {
		return wire.NotChanged.With("node", "if "+one.Name+" voted, no majority of those that vote could be reached: nobody could lead without "+names, "start "+names+" first")
	}
	return wire.NotChanged.With("node", "without "+one.Name+" no majority of those that vote could be reached: nobody could lead without "+names,
		"start "+names+" first, or remove what will not come back first: polystalk cluster remove "+away[0])
}

// mayLead returns the problem of a server that is to lead and cannot be reached, or has a full disk:
// it would have another one lead again.
func (r *roll) mayLead(one *cluster.Member, isFull func(room int64) bool) error {
	if r == nil {
		return nil
	}
	if !r.has(one.ID) {
		return wire.NotChanged.With("node", one.Name+" cannot be reached, so it cannot take over",
			"start it first, or name another one: polystalk cluster status shows who is connected")
	}
	if room := r.roomOf(one.ID); room != nil && isFull(*room) {
		return wire.NotChanged.With("node", "the disk of "+one.Name+" is full, so it cannot take over",
			"make room there first, or name another one: polystalk cluster status shows whose disks are full")
	}
	return nil
}
