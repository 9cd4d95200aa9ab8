package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"polystalk/cmd/polystalkd/fault"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// A server that was removed, or whose address was changed, while it could not be reached gets no
// message that would tell it so. It asks the others as long as it hears nothing of a leader. A server
// that does not vote still takes the last leader for the current one, which may follow another by now:
// only messages count.

// membershipPath is where a server asks another whether it is a member.
const membershipPath = amongPrefix + "membership"

// A membership is the answer.
type membership struct {
	Member  bool   `json:"member"`
	Index   uint64 `json:"index"`   // of the last change of the members that the answering server has applied
	Address string `json:"address"` // of the member that asks; empty: it is none
	Process uint64 `json:"process"` // that answers: see Member.process
}

const (
	removedFirst = time.Second     // without a server that leads, before the others are asked
	removedMost  = 8 * time.Second // from one question to the next, which comes later each time

	// removedTimeouts without a message of the leader are as none that leads: it sends several
	// within one.
	removedTimeouts = 4
)

// watchMembership settles, again and again, while this server hears of no leader or has another
// address than the members know. It ends the Member once this server was removed, or once another
// process has its place. It is a goroutine, and ends with the Member.
func (m *Member) watchMembership(n *cluster.Node) {
	for wait := removedFirst; ; {
		select {
		case <-m.ctx.Done():
			return
		case <-time.After(wait):
		}
		v, _ := n.View()
		one := v.Members.Find(m.id.Node)
		moved := one != nil && one.Addr != m.o.Config.Cluster.Advertise
		if !moved && m.hearsLeader(n, &v) {
			wait = removedFirst
			continue
		}
		ctx, cancel := context.WithTimeout(m.ctx, moveWithin)
		var err error
		if v.Leads {
			err = n.Change(ctx, cluster.Change{Kind: cluster.Move, Member: cluster.Member{ID: m.id.Node, Addr: m.o.Config.Cluster.Advertise}})
		} else {
			err = m.settle(ctx, v.Members)
		}
		cancel()
		if isFinal(err) {
			m.over(err)
			return
		}
		if err != nil {
			m.log.Debug("this server is not where it belongs yet; trying again", "err", err)
		}
		if wait = min(2*wait, removedMost); moved {
			wait = removedFirst
		}
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

// removes reports whether the answering server knows of a removal. If it has applied no later change of
// the members than the asking server, it may not have heard yet that this one was added.
func (a *membership) removes(known *cluster.Members) bool { return !a.Member && a.Index > known.Index }

// askAround asks the others for this server as a member, and returns the latest that any of them knows.
// The error is cluster.ErrRemoved if this server is none any more.
func (m *Member) askAround(ctx context.Context, members *cluster.Members) (*cluster.Member, error) {
	known, latest := m.o.Config.Cluster.Advertise, members.Index
	if one := members.Find(m.id.Node); one != nil {
		known = one.Addr
	}
	var mu sync.Mutex
	errs := m.eachOther(members, func(one *cluster.Member) error {
		told, err := m.askMembership(ctx, one)
		if err != nil {
			m.log.Debug("a server did not say who is a member", "node", one.Name, "err", err)
			return nil
		}
		if told.removes(members) {
			return cluster.ErrRemoved
		}
		mu.Lock()
		defer mu.Unlock()
		if told.Index > latest && told.Address != "" {
			known, latest = told.Address, told.Index
		}
		return nil
	})
	return &cluster.Member{ID: m.id.Node, Addr: known}, errors.Join(errs...)
}

// askMembership asks another server, or whichever process has this server's address.
func (m *Member) askMembership(ctx context.Context, of *cluster.Member) (*membership, error) {
	ctx, cancel := context.WithTimeout(ctx, sayWithin)
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

// tellMembership tells another server whether it is a member, and where. While this server starts it
// only tells its process.
func (k *control) tellMembership(w http.ResponseWriter, r *http.Request) {
	from, _ := r.Context().Value(remoteKey{}).(transport.Identity)
	if from.Cluster != k.m.cluster.Load() {
		http.Error(w, "this server cannot tell", http.StatusServiceUnavailable)
		return
	}
	told := membership{Process: k.m.process}
	if n := k.m.node.Load(); n != nil {
		v, _ := n.View()
		told.Index = v.Members.Index
		if one := v.Members.Find(from.Node); one != nil {
			told.Member, told.Address = true, one.Addr
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(&told) // a client that has gone asks again
}

// Expelled is the fault of a server that cannot take part any more for the given reason; nil: the
// reason is another.
func (m *Member) Expelled(why error) error {
	if errors.Is(why, cluster.ErrRemoved) {
		return m.Removed()
	}
	c := m.o.Config
	if errors.Is(why, cluster.ErrLogLost) {
		return fault.New(fault.Removed, "%s: the directory %q of server %q lacks what this server has acknowledged, as an old copy does: say polystalk cluster remove %s at another server, then start this one with an empty directory and %s",
			c.Origin("binlog-dir"), c.BinlogDir, m.id.Name, m.id.Name, m.joinFlag())
	}
	t, is := errors.AsType[*twin](why)
	if !is {
		return nil
	}
	return fault.New(fault.Removed, "%s: the directory %q is that of server %q, and another process runs as that server at %s: only one process may, so this one ends. If this directory is a copy, delete it. If the other one is the copy, end that process, say polystalk cluster remove %s at another server, and start this one with an empty directory and --cluster-join: what the copy has acknowledged is not in this directory",
		c.Origin("binlog-dir"), c.BinlogDir, m.id.Name, t.address, m.id.Name)
}

// Removed is the fault of a server that belongs to its cluster no more.
func (m *Member) Removed() error {
	c := m.o.Config
	return fault.New(fault.Removed, "%s: the directory %q is that of server %q, which was removed from its cluster: to have the server back, move the directory away, and start it with an empty one and %s; to have it run alone with the jobs that it had, of which others may have done some since, polystalk cluster recover-alone %s --force",
		c.Origin("binlog-dir"), c.BinlogDir, m.id.Name, m.joinFlag(), c.BinlogDir)
}

// joinFlag is the flag that joins the cluster again, with the address of another server if one is known.
func (m *Member) joinFlag() string {
	if one := m.another(); one != nil {
		return "--cluster-join " + one.Addr
	}
	return "--cluster-join"
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
