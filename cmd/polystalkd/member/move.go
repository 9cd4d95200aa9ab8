package member

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// A server can be started at another address than before. It asks the other servers to change its
// address, and the one that leads does so. From then on the others connect to the new address alone:
// a process on a copy of the directory would cut off the original. So an address changes only while
// no other process answers as that server at the old one. Every start makes sure of that before
// consensus begins, since a copy must not vote.

// movePath is where a server asks for another address.
const movePath = amongPrefix + "address"

// An address is the body of that request.
type address struct {
	Address string `json:"address"` // HOST:PORT
	Process uint64 `json:"process"` // that asks: see Member.process
}

// moveWithin bounds one try to settle.
const moveWithin = 10 * time.Second

// beginAt makes sure, before this server takes part, that no other process answers as this server. If
// the members have an old address, it asks for another one. The error is cluster.ErrRemoved or a
// *twin: whatever else fails, watchMembership tries again.
func (m *Member) beginAt() (err error) {
	ctx, cancel := context.WithTimeout(m.ctx, moveWithin)
	defer cancel()
	members := m.state.Members()
	one := members.Find(m.id.Node)
	if one.Addr == m.o.Config.Cluster.Advertise {
		err = m.checkVacant(ctx, one, m.process)
	} else {
		m.log.Info("this server is at another address than the others know: telling them", "known", one.Addr, "is", m.o.Config.Cluster.Advertise)
		err = m.settle(ctx, members)
	}
	if !isFinal(err) {
		return nil
	}
	return err
}

// isFinal reports whether an error ends the Member.
func isFinal(err error) bool {
	_, is := errors.AsType[*twin](err)
	return is || errors.Is(err, cluster.ErrRemoved)
}

// settle asks the others whether this server is a member, and at which address. If no other process
// answers there, it asks them for the address that this process has. The error is cluster.ErrRemoved,
// a *twin, or says why it is to be tried again.
func (m *Member) settle(ctx context.Context, members *cluster.Members) error {
	known, err := m.askAround(ctx, members)
	if err != nil {
		return err
	}
	if err := m.checkVacant(ctx, known, m.process); isFinal(err) || known.Addr == m.o.Config.Cluster.Advertise {
		return err
	}
	body, err := json.Marshal(address{m.o.Config.Cluster.Advertise, m.process})
	if err != nil {
		return err
	}
	errs := m.eachOther(members, func(one *cluster.Member) error { return m.askToMove(ctx, one, body) })
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}

// eachOther calls f for the other members, all at once since some may not answer, and returns what f does.
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

// askToMove asks one other server to change the address.
func (m *Member) askToMove(ctx context.Context, of *cluster.Member, body []byte) error {
	res, err := m.request(ctx, of, http.MethodPost, movePath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return nil
	}
	b, _ := io.ReadAll(io.LimitReader(res.Body, amongMax))
	text := string(bytes.TrimSpace(b))
	if res.StatusCode == http.StatusConflict {
		return &twin{text}
	}
	return errors.New(text)
}

// A twin is another process that answers as a server at the address that the members have.
type twin struct{ address string }

func (t *twin) Error() string { return "another process answers as this server at " + t.address }

// checkVacant asks which process answers as a member at its address. It returns nil if none does, or
// if that is the given one: a process can have several addresses. Any other error than a *twin says
// that the answer is unknown, as while a process is starting.
func (m *Member) checkVacant(ctx context.Context, one *cluster.Member, process uint64) error {
	told, err := m.askMembership(ctx, one)
	var absent *unreached
	switch {
	case errors.As(err, &absent), err == nil && told.Process == process:
		return nil
	case err == nil:
		return &twin{one.Addr}
	}
	return fmt.Errorf("somebody listens at %s, and does not say which process that is: %w", one.Addr, err)
}

// takeAddress takes what another server asks of its address. A server that does not lead checks it as
// well: the process at the old address may be the one that leads, or one that only this server can reach.
func (k *control) takeAddress(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, text string) { http.Error(w, text, status) }
	from, _ := r.Context().Value(remoteKey{}).(transport.Identity)
	n := k.m.node.Load()
	if n == nil {
		refuse(http.StatusServiceUnavailable, "this server is starting")
		return
	}
	v, _ := n.View()
	one := v.Members.Find(from.Node)
	var told address
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, amongMax)).Decode(&told)
	if err == nil {
		_, _, err = net.SplitHostPort(told.Address)
	}
	switch {
	case one == nil || one.Name != from.Name || from.Cluster != k.m.cluster.Load():
		refuse(http.StatusForbidden, "only a server of the cluster can say where it is")
		return
	case err != nil:
		refuse(http.StatusBadRequest, "what it tells is no address: bring all servers to the same release")
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

// remoteKey finds which server has made a connection.
type remoteKey struct{}

// withRemote has what serves a connection know which server has made it.
func withRemote(ctx context.Context, c net.Conn) context.Context {
	if r, ok := c.(*read); ok {
		return context.WithValue(ctx, remoteKey{}, r.Remote())
	}
	return ctx
}
