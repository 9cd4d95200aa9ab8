package member

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/bootstrap"
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
	"polystalk/shard/record"
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
	Access  string `json:"access"`  // digest of the answering server's rules: see Member.accessDigest
	// Records is the highest kind of record that the answering server reads. Releases before policies
	// do not send it, so their answer is zero: no other message is needed to tell releases apart.
	Records record.Kind `json:"records"`
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
	mux.HandleFunc("GET "+bootstrap.Path, k.serveBootstrap)
	mux.HandleFunc("GET "+backupPath, k.serveBackup)
	return &http.Server{
		Handler: membersOnly(mux, k.isStranger), ReadHeaderTimeout: requestWithin, IdleTimeout: time.Minute,
		ConnContext: transport.ConnContext,
		ErrorLog:    slog.NewLogLogger(k.m.log.Handler(), slog.LevelDebug),
	}
}

// isStranger reports whether this server knows that another is not a member: it was removed, or has
// not joined a cluster yet. A local client never is one.
func (k *control) isStranger(from transport.Identity) bool {
	n, v := k.m.view()
	return from.Node != 0 && (from.Cluster == 0 || n != nil && v.Members.Find(from.Node) == nil)
}

// membersOnly limits strangers to what they need: to join, to bootstrap, and to hear that they were
// removed.
func membersOnly(serve http.Handler, isStranger func(transport.Identity) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := transport.RemoteOf(r.Context())
		free := r.URL.Path == snapshot.JoinPath || r.URL.Path == membershipPath || r.URL.Path == bootstrap.Path
		if !free && isStranger(from) {
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
// tells its process and what it reads.
func (k *control) serveMembership(w http.ResponseWriter, r *http.Request) {
	from := transport.RemoteOf(r.Context())
	if from.Cluster != k.m.cluster.Load() {
		http.Error(w, "this server cannot tell", http.StatusServiceUnavailable)
		return
	}
	told := membership{Process: k.m.process, Records: record.KindPolicies}
	if n, v := k.m.view(); n != nil {
		told.Index, told.Access = v.Members.Index, k.m.accessDigest()
		if one := v.Members.Find(from.Node); one != nil {
			told.Member, told.Address = true, one.Addr
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(&told) // a client that is gone asks again
}

// An introduction is what this server tells a new one: see package bootstrap.
type introduction struct {
	state  atomic.Pointer[cluster.State]    // at the start, or when it was made; nil: there is none
	answer atomic.Pointer[bootstrap.Answer] // until there is a state; nil: the server does not bootstrap
}

// serveBootstrap tells a new server about this one.
func (k *control) serveBootstrap(w http.ResponseWriter, r *http.Request) {
	told := k.m.told.answer.Load()
	if s := k.m.told.state.Load(); s != nil {
		told = &bootstrap.Answer{Node: k.m.id.Node, Name: k.m.id.Name, Address: k.m.o.Config.Cluster.Advertise, Cluster: s.Identity().Cluster}
		members := s.Members()
		if n, v := k.m.view(); n != nil {
			members = v.Members
		}
		if one := members.Find(transport.RemoteOf(r.Context()).Node); one != nil && one.Voter {
			told.Votes = true
			if all := s.Founders(); all != nil {
				told.Founders = all.List
			}
		}
	}
	if told == nil {
		http.Error(w, "this server is starting", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(told) // a client that is gone asks again
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

// A server that starts at another address asks the others to change its address. From then on they
// connect only to the new address: a process on a copy of the directory would cut off the original.
// So an address changes only if no other process answers as that server at the old one. Every start
// checks that before consensus begins: a copy must not vote.
//
// A server may be removed or moved while it cannot be reached. So it asks the others whenever it
// hears no leader. Only messages count: the leader that it knows may follow another by now.

// checkPlace runs before consensus starts. It makes sure that no other process answers as this server,
// and asks the members to record the new address if they have an old one. It returns only final errors: see isFinal. The
// health loop retries after other errors.
func (m *Member) checkPlace() (err error) {
	ctx, cancel := context.WithTimeout(m.ctx, moveWithin)
	defer cancel()
	members := m.state.Members()
	one := members.Find(m.id.Node)
	if one.Addr == m.o.Config.Cluster.Advertise {
		err = m.checkVacant(ctx, one, m.process)
	} else {
		m.log.Info("this server has another address than the others know: telling them", "known", one.Addr, "is", m.o.Config.Cluster.Advertise)
		err = m.settle(ctx, members)
	}
	if !isFinal(err) {
		return nil
	}
	return err
}

// isFinal reports whether an error ends the Member: it was removed, or another process has its place.
func isFinal(err error) bool {
	_, is := errors.AsType[*twinError](err)
	return is || errors.Is(err, cluster.ErrRemoved)
}

// settle asks the others whether this server is a member, and at which address. If no other process
// answers there, it asks them to change the address to this process's. After an error that is not
// final the caller tries again.
func (m *Member) settle(ctx context.Context, members *cluster.Members) error {
	known, err := m.askAround(ctx, members)
	if err != nil {
		return err
	}
	if err := m.checkVacant(ctx, known, m.process); isFinal(err) || known.Addr == m.o.Config.Cluster.Advertise {
		return err
	}
	body, err := json.Marshal(moveRequest{m.o.Config.Cluster.Advertise, m.process})
	if err != nil {
		return err
	}
	errs := m.eachOther(members, func(one *cluster.Member) error {
		status, answer, err := m.request(ctx, one, http.MethodPost, movePath, body)
		switch {
		case err != nil || status == http.StatusNoContent:
			return err
		case status == http.StatusConflict:
			return &twinError{string(bytes.TrimSpace(answer))}
		}
		return errors.New(string(bytes.TrimSpace(answer)))
	})
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}

// eachOther calls f for all other members at once, since some may not answer, and returns the errors.
func (m *Member) eachOther(members *cluster.Members, f func(*cluster.Member) error) []error {
	var errs []error
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range members.List {
		one := &members.List[i]
		if one.ID == m.id.Node {
			continue
		}
		all.Go(func() {
			err := f(one)
			if err != nil {
				err = fmt.Errorf("%s: %w", one.Name, err)
			}
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		})
	}
	all.Wait()
	return errs
}

// A twinError says that another process answers as this server at the address that the members have.
type twinError struct{ address string }

func (t *twinError) Error() string { return "another process answers as this server at " + t.address }

// checkVacant asks which process answers as a member at its address. It returns nil if none does, or
// if it is the given one: a process can have several addresses. After another error than a
// *twinError the answer is unknown, as while a process starts.
func (m *Member) checkVacant(ctx context.Context, one *cluster.Member, process uint64) error {
	told, err := m.askMembership(ctx, one)
	var absent *unreached
	switch {
	case errors.As(err, &absent), err == nil && told.Process == process:
		return nil
	case err == nil:
		return &twinError{one.Addr}
	}
	return fmt.Errorf("the process that listens at %s does not identify itself: %w", one.Addr, err)
}

// askAround asks the others for this server's membership, and returns the latest that any of them
// knows. The error is cluster.ErrRemoved if this server was removed.
func (m *Member) askAround(ctx context.Context, members *cluster.Members) (*cluster.Member, error) {
	known, latest := m.o.Config.Cluster.Advertise, members.Index
	if one := members.Find(m.id.Node); one != nil {
		known = one.Addr
	}
	var mu sync.Mutex
	errs := m.eachOther(members, func(one *cluster.Member) error {
		told, err := m.askMembership(ctx, one)
		if err != nil {
			m.log.Debug("a server did not answer whether this one is a member", "node", one.Name, "err", err)
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

// askMembership asks another server, or the process at this server's address, for the membership.
func (m *Member) askMembership(ctx context.Context, to *cluster.Member) (*membership, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	status, answer, err := m.request(ctx, to, http.MethodGet, membershipPath, nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("it answers %d %s", status, http.StatusText(status))
	}
	return m.learn(to, answer)
}

// learn decodes an answer, and records what the server reads.
func (m *Member) learn(of *cluster.Member, answer []byte) (*membership, error) {
	told := new(membership)
	if err := json.Unmarshal(answer, told); err != nil {
		return nil, err
	}
	m.links.records.Store(of.ID, told.Records)
	return told, nil
}
