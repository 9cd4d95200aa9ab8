package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// A Node is what the package needs of a node of a cluster; it is a *cluster.Node.
type Node interface {
	// View is what the node knows of its cluster, and a channel that is closed once that is
	// another.
	View() (cluster.View, <-chan struct{})
	// Change changes the members, and waits until that is applied.
	Change(ctx context.Context, c cluster.Change) error
	// Status is that of the node at this moment.
	Status(ctx context.Context) (cluster.Status, error)
	// Fetching tells it that a node has begun to fetch the journal from this one, Fetched
	// that it has ended, and whether that node has all of it.
	Fetching(id uint64)
	Fetched(id uint64, ok bool)
}

var _ Node = (*cluster.Node)(nil)

// changeFor is how long a node that asks waits for a change of the members at most.
const changeFor = 10 * time.Second

// A Handler answers nodes that want to join, at any node. It is served to nodes only: at Path, on
// connections of kind Admin.
type Handler struct {
	Cluster uint64
	Node    Node
}

// remoteKey is that of the context in which a connection says who is at its other end.
type remoteKey struct{}

// ConnContext is http.Server.ConnContext for the server that serves a Handler: it has it know who
// asks.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if s, ok := c.(interface{ Remote() transport.Identity }); ok {
		return context.WithValue(ctx, remoteKey{}, s.Remote())
	}
	return ctx
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q Question
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, answerMax))
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	status, a := http.StatusBadRequest, &Answer{Refused: "what it asks cannot be read: bring all servers to the same release"}
	if err == nil {
		remote, _ := r.Context().Value(remoteKey{}).(transport.Identity)
		ctx, cancel := context.WithTimeout(r.Context(), changeFor)
		status, a = h.answer(ctx, &q, remote)
		cancel()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(a) // who has gone meanwhile asks again
}

// answer answers a question.
func (h *Handler) answer(ctx context.Context, q *Question, remote transport.Identity) (status int, a *Answer) {
	v, _ := h.Node.View()
	if !v.Leads {
		return http.StatusServiceUnavailable, &Answer{Leader: leaderOf(&v)}
	}
	one, err := q.member(remote)
	if err == nil {
		err = h.add(ctx, v.Members, one)
	}
	switch {
	case err == nil:
		v, _ = h.Node.View()
		return http.StatusOK, &Answer{Cluster: fmt.Sprintf("%0*x", idDigits, h.Cluster), Leader: leaderOf(&v)}
	case errors.Is(err, cluster.ErrUncertain), errors.Is(err, cluster.ErrNotLeader), errors.Is(err, cluster.ErrEnded), ctx.Err() != nil:
		// Nobody knows whether it is a member by now: it asks again, under the same id.
		return http.StatusServiceUnavailable, &Answer{}
	}
	return http.StatusConflict, &Answer{Refused: err.Error()}
}

// leaderOf is the address of the leader; empty: none is known.
func leaderOf(v *cluster.View) string {
	if one := v.Members.Find(v.Leader); one != nil {
		return one.Addr
	}
	return ""
}

// member is who asks. If the connection says who that is, it must be so.
func (q *Question) member(remote transport.Identity) (*cluster.Member, error) {
	id, err := strconv.ParseUint(q.ID, 16, 64)
	if err != nil || len(q.ID) != idDigits || !cluster.ValidID(id) {
		return nil, fmt.Errorf("%q is no id of a server: bring all servers to the same release", q.ID)
	}
	if err := transport.ValidName(q.Name); err != nil {
		return nil, err
	}
	if host, port, err := net.SplitHostPort(q.Address); err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("%q is no address where others find it: give --cluster-advertise with HOST:PORT", q.Address)
	}
	if remote.Node != 0 && remote.Cluster == 0 && (remote.Node != id || remote.Name != q.Name) {
		return nil, fmt.Errorf("it says that it is server %s, and asks for %s", remote, transport.Identity{Node: id, Name: q.Name})
	}
	return &cluster.Member{ID: id, Name: q.Name, Addr: q.Address, Standby: q.Standby}, nil
}

// add makes a node a member, unless it is one already because it has asked before.
func (h *Handler) add(ctx context.Context, members *cluster.Members, one *cluster.Member) error {
	known, err := mayJoin(members, one)
	if err != nil || known {
		return err
	}
	return h.Node.Change(ctx, cluster.Change{Kind: cluster.Add, Member: *one})
}

// mayJoin reports whether a node is a member that has asked before; the error says why it cannot
// become one.
func mayJoin(members *cluster.Members, one *cluster.Member) (known bool, err error) {
	for i := range members.List {
		was := &members.List[i]
		remedy := fmt.Sprintf("if its disk is lost, say `polystalk cluster remove %s` at another server, and start this one again", was.Name)
		switch {
		case was.ID == one.ID && was.Voter:
			return false, fmt.Errorf("server %q votes already, and would forget how it has: %s with an empty directory", was.Name, remedy)
		case was.ID == one.ID && was.Name == one.Name && was.Addr == one.Addr && was.Standby == one.Standby:
			return true, nil
		case was.ID == one.ID:
			return false, fmt.Errorf("it has asked before, as server %q at %s: start it as it was then, or say `polystalk cluster remove %s` at another server and start it with an empty directory", was.Name, was.Addr, was.Name)
		case was.Name == one.Name:
			return false, fmt.Errorf("there is a server %q already: give --cluster-node with another name; %s", was.Name, remedy)
		case was.Addr == one.Addr:
			return false, fmt.Errorf("server %q has the address %s already: give another one; %s", was.Name, was.Addr, remedy)
		}
	}
	return false, nil
}
