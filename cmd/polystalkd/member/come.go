package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"polystalk/cmd/polystalkd/fault"
	"polystalk/router"
	"polystalk/router/cluster"
	"polystalk/router/cluster/join"
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
)

// What a server does that comes to others, or comes back to them after so long that they no
// longer have all that it lacks as entries: it is sent the journal of the one that leads.

// join has this server become a member. It asks until it is one.
func (m *Member) join() error {
	c := m.o.Config
	k := &c.Cluster
	dial := func(kind transport.Kind) join.Dial {
		return func(ctx context.Context, address string) (net.Conn, error) {
			s, err := m.ways.transport.OpenAddr(ctx, address, kind)
			if err != nil {
				return nil, err // not a connection that is nil
			}
			return s, nil
		}
	}
	m.log.Info("joining a cluster", "node", m.id.Name, "asking", k.Join)
	state, err := join.Join(m.ctx, join.Options{
		Disk: m.disk, Member: cluster.Member{ID: m.id.Node, Name: m.id.Name, Addr: k.Advertise, Standby: k.Standby}, Fresh: m.fresh,
		Addrs: k.Join, Admin: dial(transport.Admin), Journal: dial(transport.Journal),
		Joined:  func(id uint64) { m.cluster.Store(id); m.ways.transport.SetCluster(id) },
		Receive: m.receive(), Log: m.log,
	})
	if _, refused := errors.AsType[*join.Refusal](err); refused || errors.Is(err, join.ErrSelf) {
		return fault.New(fault.Usage, "%s: %v", c.Origin("cluster-join"), err)
	}
	if err != nil {
		return &router.JournalError{Err: err}
	}
	m.state = state
	return nil
}

// receive is how a journal is received: probes say how far that is.
func (m *Member) receive() snapshot.ReceiveOptions {
	life := m.srv.Operator().Life()
	return snapshot.ReceiveOptions{Room: 2 * m.o.Config.BinlogSize, Progress: life.Read}
}

// A Fetched says that this server has been sent the journal of another, with which it is to begin
// anew: Install, once its own is closed.
type Fetched struct {
	m        *Member
	received *snapshot.Received
}

func (f *Fetched) Error() string {
	return "this server was away for so long that it goes on with the journal of the one that leads"
}

// Install has the next start begin with the journal that was fetched. The Member and the server
// are closed. Nothing has changed if the journal here has more by now.
func (f *Fetched) Install() error {
	e := f.m.journal.Entries()
	last := e.Last()
	term, err := e.Term(last)
	if err != nil {
		return err
	}
	err = join.Exchange(f.received, f.m.state, last, term)
	if errors.Is(err, join.ErrOlder) {
		f.m.log.Info("the journal here has more than the one that was fetched, and stays")
		return nil
	}
	return err
}

var errLeads = errors.New("this server leads by now, and has all that it needs")

// fetchPause is how long a server waits that could not fetch the journal.
const fetchPause = time.Second

// fetch hears that only the journal of another server can help this one. It does not wait.
func (m *Member) fetch(f cluster.Fetch) {
	if m.fetching.CompareAndSwap(false, true) {
		go m.fetchFrom(f.From)
	}
}

func (m *Member) fetchFrom(leader uint64) {
	m.log.Info("this server lacks more than the others have as entries, and fetches the journal", "from", hex(leader))
	r, err := m.receiveFrom(leader)
	if n := m.node.Load(); err == nil && n != nil {
		if v, _ := n.View(); v.Leads {
			err = errors.Join(errLeads, r.Discard())
		}
	}
	if err == nil {
		m.over(&Fetched{m, r})
		return
	}
	if m.ctx.Err() != nil {
		return
	}
	m.noteFetch(leader, err)
	select {
	case <-time.After(fetchPause):
	case <-m.ctx.Done():
	}
	m.fetching.Store(false)
}

// noteFetch says why the journal could not be fetched. While the disk has no room for it, it says so
// once, with what an operator can do, and the others hear that this server has no room.
func (m *Member) noteFetch(leader uint64, err error) {
	if _, full := errors.AsType[*snapshot.RoomError](err); !full {
		m.cramped.Store(0)
		m.log.Warn("the journal could not be fetched; trying again", "from", hex(leader), "err", err)
		return
	}
	last := m.journal.Entries().Last()
	if m.cramped.Swap(last) == last {
		return
	}
	m.log.Error("the disk has no room for the journal that this server needs beside its own: it keeps nothing of what the others do; trying again", "from", hex(leader), "err", err,
		"remedy", "make room, or have it join anew: polystalk cluster remove "+m.id.Name+" at another server, then start it with an empty directory and "+m.joinFlag())
}

func (m *Member) receiveFrom(leader uint64) (*snapshot.Received, error) {
	s, err := m.ways.transport.Open(m.ctx, leader, transport.Journal)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return join.Fetch(m.ctx, s, m.disk, snapshot.ReceiveOptions{Room: 2 * m.o.Config.BinlogSize})
}
