package member

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
