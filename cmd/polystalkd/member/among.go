package member

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/join"
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
)

// amongPrefix begins the paths of servers among themselves. A program of operators asks for one
// of them as well: a backup is what a server is sent that joins.
const amongPrefix = "/cluster/"

// backupPath is where the journal can be had, as a backup.
const backupPath = amongPrefix + "backup"

// amongMax bounds what servers tell each other there, but for a journal, in bytes.
const amongMax = 4 << 10

// An unreached server is one to which there is no connection: nothing answers as that server at its
// address. A server that refuses the connection, or takes it and says nothing, is not unreached.
type unreached struct{ err error }

func (u *unreached) Error() string { return u.err.Error() }

// isOurs reports whether a connection failed for a reason that says nothing about the other side:
// this process has no descriptor left, or does not accept the certificate of the server there.
func isOurs(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	return certificate || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// request sends a request to another server at the address that is given. The caller closes the
// answer's body, and can read it until ctx ends. The error may be an *unreached.
func (m *Member) request(ctx context.Context, of *cluster.Member, method, path string, body io.Reader) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		s, err := m.ways.transport.OpenAddr(ctx, of.Addr, transport.Admin)
		refused, is := errors.AsType[*transport.Refused](err)
		switch {
		case is && refused.By.Node == of.ID, errors.Is(err, transport.ErrSilent), ctx.Err() != nil, isOurs(err):
			return nil, err
		case err != nil:
			return nil, &unreached{err}
		case s.Remote().Node != of.ID:
			s.Close()
			return nil, &unreached{fmt.Errorf("%s is server %v now", of.Addr, s.Remote())}
		}
		return s, nil
	}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://server"+path, body)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, errors.Unwrap(err) // without the URL, which is none
	}
	return res, nil
}

// newAmong makes what serves those paths: to other servers, and to who may open the socket. Those
// of operators have bounds in time that a whole journal does not keep.
func (k *control) newAmong() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+join.Path, func(w http.ResponseWriter, r *http.Request) {
		n := k.m.node.Load()
		if n == nil {
			http.Error(w, "this server is starting: ask another one", http.StatusServiceUnavailable)
			return
		}
		h := join.Handler{Cluster: k.m.cluster.Load(), Node: n}
		h.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST "+movePath, k.takeAddress)
	mux.HandleFunc("GET "+membershipPath, k.tellMembership)
	mux.HandleFunc("GET "+backupPath, k.sendBackup)
	return &http.Server{
		Handler: membersOnly(mux, k.isStranger), ReadHeaderTimeout: sayWithin, IdleTimeout: time.Minute,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return withRemote(join.ConnContext(ctx, c), c) },
		ErrorLog:    slog.NewLogLogger(k.m.log.Handler(), slog.LevelDebug),
	}
}

// isStranger reports whether a server is no member as far as this one knows: it was removed, or is
// about to join. Until this one has started nobody is, nor is ever somebody of this machine.
func (k *control) isStranger(from transport.Identity) bool {
	n := k.m.node.Load()
	if n == nil || from.Node == 0 {
		return false
	}
	v, _ := n.View()
	return v.Members.Find(from.Node) == nil
}

// membersOnly refuses to servers that are no members all but what they need: to become one, and to
// hear that they are none. One that was removed has its certificate still.
func membersOnly(serve http.Handler, isStranger func(transport.Identity) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := r.Context().Value(remoteKey{}).(transport.Identity)
		if r.URL.Path != join.Path && r.URL.Path != membershipPath && isStranger(from) {
			http.Error(w, "server "+from.Name+" is no member of the cluster: ask a server that is one", http.StatusForbidden)
			return
		}
		serve.ServeHTTP(w, r)
	})
}

// sendBackup sends the journal, up to what is committed at the end. Only the server that leads can:
// what another one has may never come to be.
func (k *control) sendBackup(w http.ResponseWriter, r *http.Request) {
	m := k.m
	n := m.node.Load()
	if n == nil {
		http.Error(w, "the server reads its journal: try again once polystalk cluster status answers", http.StatusServiceUnavailable)
		return
	}
	if v, _ := n.View(); !v.Leads {
		http.Error(w, "no server of the cluster leads that this one can reach: try again once one does, as polystalk cluster status says", http.StatusServiceUnavailable)
		return
	}
	pin := m.journal.Pin()
	defer pin.Release()
	w.Header().Set("Content-Type", "application/octet-stream")
	sent, err := snapshot.Send(r.Context(), w, pin, snapshot.SendOptions{Rate: m.o.Config.Cluster.CatchUpRate, Confirm: m.durable})
	if err != nil {
		m.log.Warn("a backup was not sent to its end", "err", err)
		return // who receives it was told, or sees that the end is missing
	}
	m.log.Info("a backup was sent", "segments", sent.Segments, "bytes", sent.Bytes)
}
