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
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// A server may be started where others find it at another address than before. The one that leads
// is told so, and it all others. Until then others cannot connect to it, so that it need not know
// who leads: it asks each of them.

// movePath is where a server tells another that it has another address.
const movePath = amongPrefix + "address"

// An address is what it tells.
type address struct {
	Address string `json:"address"` // HOST:PORT
}

const (
	moveEach   = time.Second      // from one try to the next
	moveWithin = 10 * time.Second // of one
)

// tellAddress tells the others where this server is, if that is elsewhere than they know, until
// they know it or the Member ends.
func (m *Member) tellAddress(n *cluster.Node) {
	for told := false; m.ctx.Err() == nil; {
		v, changed := n.View()
		one := v.Members.Find(m.id.Node)
		if one == nil || one.Addr == m.o.Config.Cluster.Advertise {
			return
		}
		if !told {
			m.log.Info("this server is at another address than the others know: telling them", "known", one.Addr, "is", m.o.Config.Cluster.Advertise)
			told = true
		}
		if err := m.move(n, &v); err != nil {
			m.log.Debug("the other address is not known yet; trying again", "err", err)
		}
		select {
		case <-changed:
		case <-time.After(moveEach):
		case <-m.ctx.Done():
		}
	}
}

// move has the server that leads, which may be this one, change the address.
func (m *Member) move(n *cluster.Node, v *cluster.View) error {
	ctx, cancel := context.WithTimeout(m.ctx, moveWithin)
	defer cancel()
	if v.Leads {
		return n.Change(ctx, cluster.Change{Kind: cluster.Move, Member: cluster.Member{ID: m.id.Node, Addr: m.o.Config.Cluster.Advertise}})
	}
	var failed error
	for _, one := range v.Members.List {
		if one.ID == m.id.Node {
			continue
		}
		err := m.tell(ctx, one.ID)
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", one.Name, err))
	}
	return failed
}

// tell tells one other server.
func (m *Member) tell(ctx context.Context, to uint64) error {
	body, err := json.Marshal(address{m.o.Config.Cluster.Advertise})
	if err != nil {
		return err
	}
	res, err := m.request(ctx, to, http.MethodPost, movePath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		text, _ := io.ReadAll(io.LimitReader(res.Body, amongMax))
		return errors.New(string(bytes.TrimSpace(text)))
	}
	return nil
}

// takeAddress takes what another server tells of itself.
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
	case !v.Leads:
		refuse(http.StatusServiceUnavailable, "this server does not lead")
		return
	case one == nil || one.Name != from.Name || from.Cluster != k.m.cluster.Load():
		refuse(http.StatusForbidden, "only a server of the cluster can say where it is")
		return
	case err != nil:
		refuse(http.StatusBadRequest, "what it tells is no address: bring all servers to the same release")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), moveWithin)
	defer cancel()
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
