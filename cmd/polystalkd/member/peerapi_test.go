package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/cluster"
	"polystalk/router/cluster/bootstrap"
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
)

// Strangers may join, and ask whether they are members.
func TestStrangersMayJoinAndAsk(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	h := membersOnly(served, func(id transport.Identity) bool { return id.Node == 9 })
	for _, tt := range []struct {
		path             string
		member, stranger int
	}{
		{snapshot.JoinPath, 204, 204},
		{membershipPath, 204, 204},
		{bootstrap.Path, 204, 204},
		{backupPath, 204, 403},
		{movePath, 204, 403},
		{"/api/v1/tubes", 204, 403},
		{membershipPath + "/../backup", 204, 403},
	} {
		for node, want := range map[uint64]int{2: tt.member, 9: tt.stranger} {
			ctx := transport.ConnContext(t.Context(), from{remote: transport.Identity{Node: node, Name: "jobs9"}})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://server"+tt.path, nil))
			if w.Code != want || want == 403 && !strings.Contains(w.Body.String(), "server jobs9 is not a member of the cluster: ask") {
				t.Errorf("%s by server %d: %d %s, want %d", tt.path, node, w.Code, w.Body, want)
			}
		}
	}
}

// from is a connection from another server.
type from struct {
	net.Conn
	remote transport.Identity
}

func (c from) Remote() transport.Identity { return c.remote }

// A server that does not know yet that another was added answers that it is not a member.
func TestOnlyLaterKnowledgeRemoves(t *testing.T) {
	known := &cluster.Members{Index: 7}
	for _, tt := range []struct {
		told membership
		want bool
	}{
		{membership{Member: false, Index: 6}, false},
		{membership{Member: false, Index: 7}, false},
		{membership{Member: false, Index: 8}, true},
		{membership{Member: true, Index: 8}, false},
	} {
		if got := tt.told.removes(known); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.told, got, tt.want)
		}
	}
}

// Policies need an answer of every other member that it reads their records. A server of an earlier
// release does not send the field. The last answer of a member that is gone still counts.
func TestPoliciesWaitForOldMembers(t *testing.T) {
	const reads, old, silent = `{"member":true,"index":7,"records":11}`, `{"member":true,"index":7,"address":"b:1","process":9,"access":"none"}`, ""
	for _, tt := range []struct {
		answers      []string // of jobs2, jobs3, jobs4
		says, remedy string   // "": it is not refused
	}{
		{[]string{reads, reads, reads}, "", ""},
		{[]string{old, reads, reads}, "too old to read policies: jobs2", "bring jobs2 to this release; then try again"},
		{[]string{reads, old, old}, "too old to read policies: jobs3, jobs4", "bring jobs3, jobs4 to this release; then try again"},
		{[]string{reads, silent, reads}, "not reached, so perhaps too old: jobs3", "start jobs3, or remove what will not come back: polystalk cluster remove jobs3; then try again"},
		{[]string{old, reads, silent}, "too old to read policies: jobs2; not reached, so perhaps too old: jobs4", "bring jobs2 to this release; start jobs4,"},
	} {
		m := &Member{id: cluster.Identity{Node: 1}}
		members := &cluster.Members{List: []cluster.Member{{ID: 1, Name: "jobs1"}}}
		for i, answer := range tt.answers {
			one := cluster.Member{ID: uint64(i + 2), Name: fmt.Sprint("jobs", i+2)}
			members.List = append(members.List, one)
			if answer != silent {
				if _, err := m.learn(&one, []byte(answer)); err != nil {
					t.Fatal(err)
				}
			}
		}
		err := m.checkRecords(members)
		if tt.says == "" && err == nil {
			continue
		}
		if p, ok := errors.AsType[*wire.Problem](err); !ok || !wire.MembersTooOld.Is(err) || p.Detail != tt.says || !strings.HasPrefix(p.Remedy, tt.remedy) {
			t.Errorf("%q: %v, want %q with the remedy %q", tt.answers, err, tt.says, tt.remedy)
		}
	}
	m, one := new(Member), &cluster.Member{ID: 2, Name: "jobs2"}
	for _, answer := range []string{reads, old} { // it was brought back to an earlier release
		m.learn(one, []byte(answer))
	}
	if err := m.checkRecords(&cluster.Members{List: []cluster.Member{*one}}); !wire.MembersTooOld.Is(err) {
		t.Errorf("an earlier answer counts: %v", err)
	}
	if _, err := m.learn(one, []byte("{")); err == nil {
		t.Error("an answer that is no JSON is learnt")
	}
}

// A deposed leader that follows another keeps its connections, and sends no messages to a server
// that does not vote.
func TestConnectedIsNotHeard(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		name      string
		connected bool
		heard     time.Duration
		want      bool
	}{
		{"a leader", true, second, true},
		{"it was one", true, 3 * second, false},
		{"never heard of", true, -1, false},
		{"cut off", false, second, false},
	} {
		ways := []transport.PeerStatus{
			{Member: transport.Member{Node: 1}, ConnectedTo: true},
			{Member: transport.Member{Node: 2}, ConnectedTo: tt.connected},
		}
		s := &cluster.Status{Peers: []cluster.Peer{{ID: 1, Heard: 0}, {ID: 2, Heard: tt.heard}}}
		if got := isHeard(2, ways, s, 2*second); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		if isHeard(0, ways, s, 2*second) || isHeard(3, ways, s, 2*second) {
			t.Errorf("%s: and a server that does not exist", tt.name)
		}
	}
}

// A change that the next leader may commit is reported neither as not done nor as safe to repeat.
func TestProposedChangeIsUncertain(t *testing.T) {
	for _, cause := range []error{cluster.ErrNotLeader, cluster.ErrEnded, context.DeadlineExceeded} {
		err := new(Member).explain(fmt.Errorf("%w: %w", cluster.ErrUncertain, cause))
		p, ok := errors.AsType[*wire.Problem](err)
		if !ok || p.Type != wire.ProblemPath+wire.Uncertain.Slug {
			t.Errorf("%v: %v", cause, err)
		}
	}
	err := new(Member).explain(cluster.ErrEnded)
	if p, ok := errors.AsType[*wire.Problem](err); !ok || p.Type != wire.ProblemPath+wire.Stopping.Slug {
		t.Errorf("a server that has ended: %v", err)
	}
}

func TestLeaderIsNamed(t *testing.T) {
	m := &Member{id: cluster.Identity{Name: "jobs2"}}
	if err := m.explain(cluster.ErrSelf); !isRefused(err, "jobs2 leads: have another one lead first: polystalk cluster transfer") {
		t.Error(err)
	}
}
