package snapshot

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

func TestServersAreAddedOrRefused(t *testing.T) {
	two := cluster.Member{ID: 42, Name: "two", Addr: "127.0.0.1:2"}
	for _, c := range []struct {
		name   string
		change func(n *fakeNode, one *cluster.Member)
		want   string // in a refusal; empty: it joins
	}{
		{"a new one", func(*fakeNode, *cluster.Member) {}, ""},
		{"one that asks again", func(n *fakeNode, one *cluster.Member) { n.add(*one) }, ""},
		{"a name that is taken", func(n *fakeNode, one *cluster.Member) { one.Name = "one" }, `there is a server "one" already: give --cluster-node`},
		{"an address that is taken", func(n *fakeNode, one *cluster.Member) { one.Addr = "127.0.0.1:1" }, "polystalk cluster remove one"},
		{"one that votes", func(n *fakeNode, one *cluster.Member) { one.ID = leaderID }, "votes already"},
		{"another name under the same id", func(n *fakeNode, one *cluster.Member) { n.add(*one); one.Name = "three" }, `has asked before, as server "two"`},
		{"a bad name", func(n *fakeNode, one *cluster.Member) { one.Name = "Two!" }, "cannot be the name"},
		{"no name", func(n *fakeNode, one *cluster.Member) { one.Name = "" }, "cannot be the name"},
		{"no address", func(n *fakeNode, one *cluster.Member) { one.Addr = ":2" }, "not an address"},
		{"an id of raft's", func(n *fakeNode, one *cluster.Member) { one.ID = 1<<64 - 1 }, "not a valid server id"},
		{"too many", func(n *fakeNode, one *cluster.Member) { n.refuse = errors.New("there are 12 members already") }, "12 members"},
	} {
		n, one := newFakeNode(), two
		c.change(n, &one)
		a, err := ask(context.Background(), dial, serveHTTP(t, &Handler{Cluster: 0xabc, Node: n}), &one)
		var refused *Refusal
		switch {
		case c.want == "" && (err != nil || a.Cluster != "0000000000000abc" || a.Leader != "127.0.0.1:1" || n.members.Find(42) == nil):
			t.Errorf("%s: %+v, %v", c.name, a, err)
		case c.want != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Text, c.want)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// add makes a node a member.
func (n *fakeNode) add(one cluster.Member) {
	if err := n.Change(context.Background(), cluster.Change{Kind: cluster.Add, Member: one}); err != nil {
		panic(err)
	}
}

func TestServerThatDoesNotLeadDoesNotRefuse(t *testing.T) {
	n := newFakeNode()
	addr := serveHTTP(t, &Handler{Cluster: 1, Node: n})
	one := &cluster.Member{ID: 42, Name: "two", Addr: "127.0.0.1:2"}
	for _, change := range []func(){
		func() { n.refuse = cluster.ErrNotLeader },
		func() { n.refuse = cluster.ErrEnded },
		func() { n.refuse = cluster.ErrUncertain },
		func() { n.leader = 9 },
	} {
		n.set(change)
		if a, err := ask(context.Background(), dial, addr, one); err != nil || *a != (joinResponse{}) {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// An invalid request gets an answer, and changes nothing. An invalid answer is no Refusal.
func TestRequestsAndAnswersThatAreNone(t *testing.T) {
	n := newFakeNode()
	addr := serveHTTP(t, &Handler{Cluster: 1, Node: n})
	for _, body := range []string{"", "[]", "{", `{"id":"zz"}`, strings.Repeat("x", 1<<20)} {
		resp, err := http.Post("http://"+addr+JoinPath, "application/json", strings.NewReader(body))
		if err != nil {
			continue // it is cut off
		}
		resp.Body.Close()
		if resp.StatusCode < 400 || resp.StatusCode >= 500 {
			t.Errorf("%.10q: %s", body, resp.Status)
		}
	}
	if len(n.members.List) != 1 {
		t.Errorf("the members are %+v", n.members)
	}
	for _, body := range []string{"", "<html>", strings.Repeat("x", 1<<20)} {
		addr := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(body)) }))
		_, err := ask(context.Background(), dial, addr, &cluster.Member{ID: 42})
		var refused *Refusal
		if err == nil || errors.As(err, &refused) {
			t.Errorf("%.10q: %v", body, err)
		}
	}
}

// A joining server asks for itself. A member may pass on a request.
func TestServersAskForThemselves(t *testing.T) {
	q := requestOf(&cluster.Member{ID: 42, Name: "two", Addr: "a:1"})
	for remote, ok := range map[transport.Identity]bool{
		{Node: 42, Name: "two"}: true, {Node: 43, Name: "two"}: false, {Node: 42, Name: "three"}: false, {Cluster: 1, Node: 9, Name: "nine"}: true,
	} {
		if _, err := q.member(remote); (err == nil) != ok {
			t.Errorf("%v asks: %v", remote, err)
		}
	}
}
