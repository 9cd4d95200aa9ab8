package nodes

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestControlAsksAtTheSocket: requests go to the socket in the node's directory, and what
// is refused is an error with the reason.
func TestControlAsksAtTheSocket(t *testing.T) {
	f := fleetOf(t, 3, "exec sleep 1000")
	var asked []string
	for i, n := range f.All() {
		l, err := net.Listen("unix", filepath.Join(n.Dir, socketName))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method == "GET" {
				fmt.Fprintf(w, `{"role": "leader", "node": "n%d", "term": %d}`, 2-i/2, 10-i) // two hand on, the third believes itself
				return
			}
			asked = append(asked, strings.TrimSpace(fmt.Sprint(n.Name, " ", r.Method, " ", r.URL, " ", string(body))))
			if r.Method == "DELETE" {
				http.Error(w, "it leads", http.StatusConflict)
			}
		}))
	}
	if _, _, err := f.Leader(t.Context()); err == nil {
		t.Error("a server leads that does not run")
	}
	for _, n := range f.All() {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	leader, status, err := f.Leader(t.Context())
	if err != nil || leader != f.All()[1] || status.Term != 10 {
		t.Fatalf("the leader is %v in term %d, %v", leader, status.Term, err)
	}
	if err := leader.Transfer(t.Context(), f.All()[0]); err != nil {
		t.Error(err)
	}
	if err := leader.Remove(t.Context(), f.All()[2]); err == nil || !strings.Contains(err.Error(), "it leads") {
		t.Errorf("error %v, want the reason", err)
	}
	want := []string{`n2 POST /api/v1/cluster/transfer {"node":"n1"}`, "n2 DELETE /api/v1/cluster/members/n3"}
	if strings.Join(asked, "; ") != strings.Join(want, "; ") {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// TestArgumentsOfACluster: the first founds it, the next join, and a member comes back
// without either.
func TestArgumentsOfACluster(t *testing.T) {
	f := fleetOf(t, 2, "exit")
	one, two := f.All()[0], f.All()[1]
	has := func(n *Node, flag string) bool { return strings.Contains(strings.Join(f.arguments(n), " "), flag) }
	if !has(one, "--cluster-new") || has(one, "--cluster-join") || !has(one, "--cluster-dial "+two.Cluster+"=") {
		t.Errorf("the first: %q", f.arguments(one))
	}
	one.Member = true
	if has(one, "--cluster-new") || has(one, "--cluster-join") {
		t.Errorf("the first again: %q", f.arguments(one))
	}
	if has(two, "--cluster-new") || !has(two, "--cluster-join "+one.Cluster) {
		t.Errorf("the second: %q", f.arguments(two))
	}
}
