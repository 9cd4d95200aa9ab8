package member

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"polystalk/cmd/polystalkd/fault"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// A server that is removed while it is down, or cannot be reached, is sent nothing any more that
// would tell it so. It asks the others, as long as it hears nothing of a server that leads. One that
// does not vote goes on to take the last one for the leader that it has heard of, and that may
// follow another by now and know it no more: only messages count.

// membershipPath is where a server asks another whether it is a member.
const membershipPath = amongPrefix + "membership"

// A membership is what it is told.
type membership struct {
	Member bool   `json:"member"`
	Index  uint64 `json:"index"` // of the change of the members that the one who tells has applied last
}

const (
	removedFirst = time.Second     // without a server that leads, before the others are asked
	removedMost  = 8 * time.Second // from one question to the next, which comes later each time

	// removedTimeouts without a message of the leader are as none that leads: it sends several
	// within one.
	removedTimeouts = 4
)

// watchRemoval ends the Member once another says that it is none any more. It is a goroutine, and
// ends with the Member.
func (m *Member) watchRemoval(n *cluster.Node) {
	for wait := removedFirst; ; {
		select {
		case <-m.ctx.Done():
			return
		case <-time.After(wait):
		}
		v, _ := n.View()
		if m.hearsLeader(n, &v) {
			wait = removedFirst
			continue
		}
		if m.isRemoved(&v) {
			m.over(cluster.ErrRemoved)
			return
		}
		wait = min(2*wait, removedMost)
	}
}

// hearsLeader reports whether this server leads, or hears of the one that does.
func (m *Member) hearsLeader(n *cluster.Node, v *cluster.View) bool {
	if v.Leader == m.id.Node {
		return true
	}
	ctx, cancel := context.WithTimeout(m.ctx, statusWithin)
	defer cancel()
	s, err := n.Status(ctx)
	return err == nil && isHeard(v.Leader, m.ways.transport.Status(), s.Peers, removedTimeouts*m.o.Config.Cluster.Timeout)
}

// isHeard reports whether this server is connected with another one, and has had a message of its
// for consensus within so long.
func isHeard(node uint64, ways []transport.PeerStatus, peers []cluster.Peer, within time.Duration) bool {
	return slices.ContainsFunc(ways, func(p transport.PeerStatus) bool { return p.Node == node && p.ConnectedTo }) &&
		slices.ContainsFunc(peers, func(p cluster.Peer) bool { return p.ID == node && p.Heard >= 0 && p.Heard < within })
}

// removes reports whether who tells it knows of a removal: one who has applied no later change of
// the members than the server that asks may not have heard yet that this one was added.
func (a *membership) removes(known *cluster.Members) bool { return !a.Member && a.Index > known.Index }

// isRemoved asks the others.
func (m *Member) isRemoved(v *cluster.View) bool {
	for _, one := range v.Members.List {
		if one.ID == m.id.Node {
			continue
		}
		told, err := m.askMembership(one.ID)
		if err != nil {
			m.log.Debug("a server did not say who is a member", "node", one.Name, "err", err)
			continue
		}
		if told.removes(v.Members) {
			return true
		}
	}
	return false
}

// askMembership asks one other server.
func (m *Member) askMembership(of uint64) (*membership, error) {
	ctx, cancel := context.WithTimeout(m.ctx, sayWithin)
	defer cancel()
	res, err := m.request(ctx, of, http.MethodGet, membershipPath, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	told := new(membership)
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, amongMax)).Decode(told); err != nil {
		return nil, err
	}
	return told, nil
}

// tellMembership tells another server whether it is a member.
func (k *control) tellMembership(w http.ResponseWriter, r *http.Request) {
	from, _ := r.Context().Value(remoteKey{}).(transport.Identity)
	n := k.m.node.Load()
	if n == nil || from.Cluster != k.m.cluster.Load() {
		http.Error(w, "this server cannot tell", http.StatusServiceUnavailable)
		return
	}
	v, _ := n.View()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(&membership{v.Members.Find(from.Node) != nil, v.Members.Index}) // who has gone asks again
}

// Removed is the fault of a server that belongs to its cluster no more.
func (m *Member) Removed() error {
	c := m.o.Config
	join := "--cluster-join"
	if one := m.another(); one != nil {
		join += " " + one.Addr
	}
	return fault.New(fault.Removed, "%s: the directory %q is that of server %q, which was removed from its cluster: to have the server back, move the directory away, and start it with an empty one and %s; to have it run alone with the jobs that it had, of which others may have done some since, polystalk cluster recover-alone %s",
		c.Origin("binlog-dir"), c.BinlogDir, m.id.Name, join, c.BinlogDir)
}

// another is a server of the cluster besides this one; nil: none is known.
func (m *Member) another() *cluster.Member {
	members := new(cluster.Members)
	if n := m.node.Load(); n != nil {
		v, _ := n.View()
		members = v.Members
	} else if m.state != nil {
		members = m.state.Members()
	}
	for i := range members.List {
		if one := &members.List[i]; one.ID != m.id.Node {
			return one
		}
	}
	return nil
}
