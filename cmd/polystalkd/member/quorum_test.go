package member

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// quorumOf returns the quorum of jobs1, which leads voters voters and jobs9, a learner. It is not
// connected to the servers in away.
func quorumOf(voters uint64, away ...uint64) *quorum {
	q := &quorum{self: 1, within: 2 * time.Second}
	q.Members = new(cluster.Members)
	for id := uint64(1); id <= voters; id++ {
		q.add(id, unknown, true)
	}
	q.add(9, unknown, false)
	for i := range q.links {
		q.links[i].ConnectedTo = !slices.Contains(away, q.links[i].Node)
	}
	return q
}

// unknown is the room of a server that never reported it: no limit.
const unknown = math.MaxInt64

// add adds a member with room free bytes on its disk.
func (q *quorum) add(id uint64, room int64, votes bool) {
	q.Members.List = append(q.Members.List, cluster.Member{ID: id, Name: fmt.Sprint("jobs", id), Voter: votes})
	if id == q.self {
		return
	}
	p := transport.PeerStatus{Member: transport.Member{Node: id}, ConnectedTo: true}
	if room != unknown {
		p.Room = &room
	}
	q.links = append(q.links, p)
	q.Peers = append(q.Peers, cluster.Peer{ID: id, Heard: time.Second})
}

// isRefused reports whether an error is a problem with all of these texts.
func isRefused(err error, says ...string) bool {
	p, ok := errors.AsType[*wire.Problem](err)
	if !ok || p.Status != 409 || p.Type != wire.ProblemPath+wire.NotChanged.Slug || p.Field != "node" {
		return false
	}
	for _, s := range says {
		if !strings.Contains(p.Detail+": "+p.Remedy, s) {
			return false
		}
	}
	return true
}

// A change is refused if, and only if, it leaves a cluster without a reachable majority.
func TestMajorityIsKept(t *testing.T) {
	for _, tt := range []struct {
		voters uint64
		away   []uint64
		kind   cluster.ChangeKind
		node   uint64
		says   []string // nil: the change is allowed
	}{
		{3, nil, cluster.Remove, 2, nil},
		{3, []uint64{3}, cluster.Remove, 2, []string{"without jobs2 ", "without jobs3:", "start jobs3", "polystalk cluster remove jobs3"}},
		{3, []uint64{3}, cluster.Remove, 3, nil},
		{3, []uint64{3}, cluster.Remove, 9, nil}, // it does not vote
		{3, []uint64{3}, cluster.Remove, 1, nil}, // consensus refuses it
		{3, []uint64{3}, cluster.Remove, 7, nil}, // likewise
		{2, nil, cluster.Remove, 2, nil},
		{2, []uint64{2}, cluster.Remove, 2, nil}, // the leader alone is left
		{5, []uint64{4, 5}, cluster.Remove, 4, nil},
		{5, []uint64{4, 5}, cluster.Remove, 3, []string{"without jobs4, jobs5:", "start jobs4, jobs5 first"}},
		{5, []uint64{5}, cluster.Remove, 3, nil},
		{1, nil, cluster.Promote, 9, nil},
		{1, []uint64{9}, cluster.Promote, 9, []string{"if jobs9 voted", "start jobs9 first"}},
		{3, []uint64{9}, cluster.Promote, 9, nil},
		{3, []uint64{3, 9}, cluster.Promote, 9, []string{"jobs3, jobs9"}},
	} {
		err := quorumOf(tt.voters, tt.away...).checkChange(cluster.Change{Kind: tt.kind, Member: cluster.Member{ID: tt.node}})
		if tt.says == nil && err != nil || tt.says != nil && !isRefused(err, tt.says...) {
			t.Errorf("%d voters without %v, %d of jobs%d: %v, want %q", tt.voters, tt.away, tt.kind, tt.node, err, tt.says)
		}
	}
	silent := quorumOf(3)
	silent.Peers[1].Heard = 3 * time.Second
	if err := silent.checkChange(cluster.Change{Kind: cluster.Remove, Member: cluster.Member{ID: 2}}); !isRefused(err, "jobs3") {
		t.Errorf("connected, and silent: %v", err)
	}
	var follower *quorum
	if err := follower.checkChange(cluster.Change{Kind: cluster.Remove, Member: cluster.Member{ID: 2}}); err != nil {
		t.Errorf("at a follower, which the node refuses: %v", err)
	}
}

// A transfer to a server that cannot be reached, or has a full disk, is refused without an outage.
func TestUnreachableServerCannotLead(t *testing.T) {
	full := func(room int64) bool { return room < 100 }
	r := quorumOf(3, 3)
	if err := r.checkLeader(r.Members.Find(2), full); err != nil {
		t.Error(err)
	}
	if err := r.checkLeader(r.Members.Find(3), full); !isRefused(err, "jobs3 cannot be reached", "start it") {
		t.Error(err)
	}
	for room, says := range map[int64]string{99: "the disk of jobs2 is full", 100: ""} {
		r.links[0].Room = &room
		if err := r.checkLeader(r.Members.Find(2), full); says != "" != (err != nil) || err != nil && !isRefused(err, says, "free space there") {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
	r.Peers[0].Heard = 3 * time.Second
	if err := r.checkLeader(r.Members.Find(2), full); !isRefused(err, "jobs2 cannot be reached") {
		t.Errorf("connected, and silent: %v", err)
	}
}
