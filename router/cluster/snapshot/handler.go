package snapshot

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

// JoinPath is the path of the request to join: POST, on a connection of kind Admin.
const JoinPath = "/cluster/join"

// bodyMax bounds a request and a response, in bytes.
const bodyMax = 16 << 10

// changeFor bounds the wait for a change of the members.
const changeFor = 10 * time.Second

// A joinRequest is the JSON body of a server that wants to join.
type joinRequest struct {
	ID      string `json:"id"` // 16 hexadecimal digits
	Name    string `json:"name"`
	Address string `json:"address"` // HOST:PORT
	Standby bool   `json:"standby"`
}

func requestOf(one *cluster.Member) *joinRequest {
	return &joinRequest{ID: fmt.Sprintf("%0*x", idDigits, one.ID), Name: one.Name, Address: one.Addr, Standby: one.Standby}
}

// A joinResponse is the JSON body of the answer. A follower only names the leader.
type joinResponse struct {
	Cluster string `json:"cluster,omitempty"` // 16 hexadecimal digits; the server is a member now
	Leader  string `json:"leader,omitempty"`  // HOST:PORT; empty: none is known
	Refused string `json:"refused,omitempty"` // why it cannot join, and what to do
}

// A Refusal is the leader's reason why a server cannot join. Asking again does not help.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return "the cluster refuses this server: " + r.Text }

// A Dial connects to the server at an address.
type Dial func(ctx context.Context, addr string) (net.Conn, error)

// ask asks the server at one address to let another join. A *Refusal is final.
func ask(ctx context.Context, dial Dial, addr string, one *cluster.Member) (*joinResponse, error) {
	body, err := json.Marshal(requestOf(one))
	if err != nil {
		return nil, err
	}
	connect := func(ctx context.Context) (net.Conn, error) { return dial(ctx, addr) }
	status, b, err := transport.Request(ctx, connect, http.MethodPost, JoinPath, body, bodyMax)
	if err != nil {
		return nil, fmt.Errorf("asking the server at %s: %w", addr, err)
	}
	var a joinResponse
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("the server at %s answers %d %s, which this release does not know", addr, status, http.StatusText(status))
	}
	if a.Refused != "" {
		return nil, &Refusal{a.Refused}
	}
	return &a, nil
}

// A Node is the part of a *cluster.Node that the package uses.
type Node interface {
	View() (cluster.View, <-chan struct{})
	Change(ctx context.Context, c cluster.Change) error
	Status(ctx context.Context) (cluster.Status, error)
	Fetching(id uint64)
	Fetched(id uint64, ok bool)
}

var _ Node = (*cluster.Node)(nil)

// A Handler serves requests to join, at any server of the cluster. Its http.Server needs
// transport.ConnContext.
type Handler struct {
	Cluster uint64
	Node    Node
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q joinRequest
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	status, a := http.StatusBadRequest, &joinResponse{Refused: "the request to join cannot be read: bring all servers to the same release"}
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), changeFor)
		status, a = h.answer(ctx, &q, transport.RemoteOf(r.Context()))
		cancel()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(a) // a client that is gone asks again
}

func (h *Handler) answer(ctx context.Context, q *joinRequest, remote transport.Identity) (status int, a *joinResponse) {
	v, _ := h.Node.View()
	if !v.Leads {
		return http.StatusServiceUnavailable, &joinResponse{Leader: leaderOf(&v)}
	}
	one, err := q.member(remote)
	if err == nil {
		err = h.add(ctx, v.Members, one)
	}
	switch {
	case err == nil:
		v, _ = h.Node.View()
		return http.StatusOK, &joinResponse{Cluster: fmt.Sprintf("%0*x", idDigits, h.Cluster), Leader: leaderOf(&v)}
	case errors.Is(err, cluster.ErrUncertain), errors.Is(err, cluster.ErrNotLeader), errors.Is(err, cluster.ErrEnded), ctx.Err() != nil:
		// The server may be a member now or later. It asks again, under the same ID.
		return http.StatusServiceUnavailable, &joinResponse{}
	}
	return http.StatusConflict, &joinResponse{Refused: err.Error()}
}

// leaderOf returns the leader's address; empty: no leader is known.
func leaderOf(v *cluster.View) string {
	if one := v.Members.Find(v.Leader); one != nil {
		return one.Addr
	}
	return ""
}

// member returns the member that the request describes. A joining server may only ask for itself.
func (q *joinRequest) member(remote transport.Identity) (*cluster.Member, error) {
	id, err := strconv.ParseUint(q.ID, 16, 64)
	if err != nil || len(q.ID) != idDigits || !cluster.ValidID(id) {
		return nil, fmt.Errorf("%q is not a valid server id: bring all servers to the same release", q.ID)
	}
	if err := transport.ValidName(q.Name); err != nil {
		return nil, err
	}
	if host, port, err := net.SplitHostPort(q.Address); err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("%q is not an address at which others can reach it: give --cluster-advertise with HOST:PORT", q.Address)
	}
	if remote.Node != 0 && remote.Cluster == 0 && (remote.Node != id || remote.Name != q.Name) {
		return nil, fmt.Errorf("it is server %s, and asks to add server %s", remote, transport.Identity{Node: id, Name: q.Name})
	}
	return &cluster.Member{ID: id, Name: q.Name, Addr: q.Address, Standby: q.Standby}, nil
}

// add makes a server a member, unless an earlier request did.
func (h *Handler) add(ctx context.Context, members *cluster.Members, one *cluster.Member) error {
	for i := range members.List {
		was := &members.List[i]
		remedy := fmt.Sprintf("if its disk is lost, run `polystalk cluster remove %s` at another server, and start this one again", was.Name)
		switch {
		case was.ID == one.ID && was.Voter:
			return fmt.Errorf("server %q votes already, and would forget its votes: %s with an empty directory", was.Name, remedy)
		case was.ID == one.ID && was.Name == one.Name && was.Addr == one.Addr && was.Standby == one.Standby:
			return nil
		case was.ID == one.ID:
			return fmt.Errorf("it has asked before, as server %q at %s: start it as it was then, or run `polystalk cluster remove %s` at another server and start it with an empty directory", was.Name, was.Addr, was.Name)
		case was.Name == one.Name:
			return fmt.Errorf("there is a server %q already: give --cluster-node with another name; %s", was.Name, remedy)
		case was.Addr == one.Addr:
			return fmt.Errorf("server %q has the address %s already: give another one; %s", was.Name, was.Addr, remedy)
		}
	}
	return h.Node.Change(ctx, cluster.Change{Kind: cluster.Add, Member: *one})
}
