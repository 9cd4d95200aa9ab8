package member

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
)

// The API between servers, over connections of kind Admin. The CLI uses backupPath.
const (
	peerPrefix     = "/cluster/"
	backupPath     = peerPrefix + "backup"
	movePath       = peerPrefix + "address"    // a server asks for another address
	membershipPath = peerPrefix + "membership" // a server asks whether it is a member

	peerBodyMax = 4 << 10          // bytes of a request or response, except journals
	moveWithin  = 10 * time.Second // for a change of an address
)

// A moveRequest is the body of a request for another address.
type moveRequest struct {
	Address string `json:"address"` // HOST:PORT
	Process uint64 `json:"process"` // see Member.process
}

// A membership is the answer to a server that asks whether it is a member.
type membership struct {
	Member  bool   `json:"member"`
	Index   uint64 `json:"index"`   // of the last change of the members that the answering server has applied
	Address string `json:"address"` // of the asking member; empty: it is none
	Process uint64 `json:"process"` // of the answering server: see Member.process
}

// removes reports whether the answer proves a removal. If the answering server knows no later change
// of the members than the asking one, it may not know yet that the asking one was added.
func (a *membership) removes(known *cluster.Members) bool { return !a.Member && a.Index > known.Index }

// newAPI returns the server of the API. A request may last as long as the transfer of a journal.
func (k *control) newAPI() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+snapshot.JoinPath, func(w http.ResponseWriter, r *http.Request) {
		n := k.m.node.Load()
		if n == nil {
			http.Error(w, "this server is starting: ask another one", http.StatusServiceUnavailable)
			return
		}
		h := snapshot.Handler{Cluster: k.m.cluster.Load(), Node: n}
		h.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST "+movePath, k.serveMove)
	mux.HandleFunc("GET "+membershipPath, k.serveMembership)
	mux.HandleFunc("GET "+backupPath, k.serveBackup)
	return &http.Server{
		Handler: membersOnly(mux, k.isStranger), ReadHeaderTimeout: requestWithin, IdleTimeout: time.Minute,
		ConnContext: transport.ConnContext,
		ErrorLog:    slog.NewLogLogger(k.m.log.Handler(), slog.LevelDebug),
	}
}

// isStranger reports whether this server knows that another is not a member: it was removed, or is
// about to join. While this server starts there are no strangers. A local client never is one.
func (k *control) isStranger(from transport.Identity) bool {
	n, v := k.m.view()
	return n != nil && from.Node != 0 && v.Members.Find(from.Node) == nil
}

// membersOnly limits strangers to what they need: to join, and to hear that they were removed.
func membersOnly(serve http.Handler, isStranger func(transport.Identity) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := transport.RemoteOf(r.Context())
		if r.URL.Path != snapshot.JoinPath && r.URL.Path != membershipPath && isStranger(from) {
			http.Error(w, "server "+from.Name+" is not a member of the cluster: ask a server that is one", http.StatusForbidden)
			return
		}
		serve.ServeHTTP(w, r)
	})
}

// serveBackup sends the journal, up to a committed end. Only the leader can: entries of a follower
// may never be committed.
func (k *control) serveBackup(w http.ResponseWriter, r *http.Request) {
	m := k.m
	n, v := m.view()
	switch {
	case n == nil:
		http.Error(w, "the server is reading its journal: try again once polystalk cluster status answers", http.StatusServiceUnavailable)
		return
	case !v.Leads:
		http.Error(w, "this server cannot reach a leader of the cluster: try again once polystalk cluster status shows one", http.StatusServiceUnavailable)
		return
	}
	pin := m.journal.Pin()
	defer pin.Release()
	w.Header().Set("Content-Type", "application/octet-stream")
	sent, err := snapshot.Send(r.Context(), w, pin, snapshot.SendOptions{Rate: m.o.Config.Cluster.CatchUpRate, Confirm: m.durable})
	if err != nil {
		m.log.Warn("a backup was not sent completely", "err", err)
		return // the receiver was told, or sees that the end is missing
	}
	m.log.Info("a backup was sent", "segments", sent.Segments, "bytes", sent.Bytes)
}

// serveMembership tells another server whether it is a member, and where. A starting server only
// tells its process.
func (k *control) serveMembership(w http.ResponseWriter, r *http.Request) {
	from := transport.RemoteOf(r.Context())
	if from.Cluster != k.m.cluster.Load() {
		http.Error(w, "this server cannot tell", http.StatusServiceUnavailable)
		return
	}
	told := membership{Process: k.m.process}
	if n, v := k.m.view(); n != nil {
		told.Index = v.Members.Index
		if one := v.Members.Find(from.Node); one != nil {
			told.Member, told.Address = true, one.Addr
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(&told) // a client that is gone asks again
}

// serveMove changes the address of another server. A follower checks the request as well: the
// process at the old address may be the leader, or reachable from this server only.
func (k *control) serveMove(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, text string) { http.Error(w, text, status) }
	from := transport.RemoteOf(r.Context())
	n, v := k.m.view()
	if n == nil {
		refuse(http.StatusServiceUnavailable, "this server is starting")
		return
	}
	one := v.Members.Find(from.Node)
	var told moveRequest
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, peerBodyMax)).Decode(&told)
	if err == nil {
		_, _, err = net.SplitHostPort(told.Address)
	}
	switch {
	case one == nil || one.Name != from.Name || from.Cluster != k.m.cluster.Load():
		refuse(http.StatusForbidden, "only a server of the cluster can change its address")
		return
	case err != nil:
		refuse(http.StatusBadRequest, "the request has no valid address: bring all servers to the same release")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), moveWithin)
	defer cancel()
	if err := k.m.checkVacant(ctx, one, told.Process); isFinal(err) {
		k.m.log.Warn("two processes run as one server: its address stays, and the process that asked for another one ends", "node", one.Name, "address", one.Addr, "asked", told.Address)
		refuse(http.StatusConflict, one.Addr)
		return
	} else if err != nil {
		refuse(http.StatusServiceUnavailable, err.Error())
		return
	}
	now, _ := n.View()
	switch is := now.Members.Find(from.Node); {
	case !now.Leads:
		refuse(http.StatusServiceUnavailable, "this server does not lead")
		return
	case is == nil || is.Addr != one.Addr:
		refuse(http.StatusServiceUnavailable, "the members have changed meanwhile: ask again")
		return
	case one.Addr == told.Address:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err := n.Change(ctx, cluster.Change{Kind: cluster.Move, Member: cluster.Member{ID: one.ID, Addr: told.Address}}); err != nil {
		refuse(http.StatusServiceUnavailable, err.Error())
		return
	}
	k.m.log.Info("a server is at another address", "node", one.Name, "was", one.Addr, "is", told.Address)
	w.WriteHeader(http.StatusNoContent)
}

// An unreached error says that no process answers as the server at its address. A server that
// refuses the connection, or accepts it and does not answer, is reached.
type unreached struct{ err error }

func (u *unreached) Error() string { return u.err.Error() }

// isLocal reports whether a connection failed for a reason on this side: no file descriptor is left,
// or this server does not accept the other's certificate.
func isLocal(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	return certificate || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// request sends a request to another server, and returns the status and the body of the answer. The
// error may be an *unreached.
func (m *Member) request(ctx context.Context, to *cluster.Member, method, path string, body []byte) (status int, answer []byte, err error) {
	dial := func(ctx context.Context) (net.Conn, error) {
		s, err := m.links.transport.OpenAddr(ctx, to.Addr, transport.Admin)
		refused, is := errors.AsType[*transport.Refused](err)
		switch {
		case is && refused.By.Node == to.ID, errors.Is(err, transport.ErrSilent), ctx.Err() != nil, isLocal(err):
			return nil, err
		case err != nil:
			return nil, &unreached{err}
		case s.Remote().Node != to.ID:
			s.Close()
			return nil, &unreached{fmt.Errorf("%s is server %v now", to.Addr, s.Remote())}
		}
		return s, nil
	}
	return transport.Request(ctx, dial, method, path, body, peerBodyMax)
}
