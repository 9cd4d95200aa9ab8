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
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
)

// A server that joins fetches the leader's journal. So does a member that needs entries that the
// others no longer have in their logs.

// join makes this server a member. It tries until it succeeds.
func (m *Member) join() error {
	c := m.o.Config
	k := &c.Cluster
	dial := func(kind transport.Kind) snapshot.Dial {
		return func(ctx context.Context, address string) (net.Conn, error) {
			s, err := m.links.transport.OpenAddr(ctx, address, kind)
			if err != nil {
				return nil, err // not a nil *Stream in an interface
			}
			return s, nil
		}
	}
	m.log.Info("joining a cluster", "node", m.id.Name, "asking", k.Join)
	receive := m.receiveOptions()
	receive.Progress = m.srv.Operator().Life().Read // for probes
	state, err := snapshot.Join(m.ctx, snapshot.JoinOptions{
		Disk: m.disk, Member: cluster.Member{ID: m.id.Node, Name: m.id.Name, Addr: k.Advertise, Standby: k.Standby}, Fresh: m.fresh,
		Addrs: k.Join, Admin: dial(transport.Admin), Journal: dial(transport.Journal),
		Joined:  func(id uint64) { m.cluster.Store(id); m.links.transport.SetCluster(id) },
		Receive: receive, Log: m.log,
	})
	if _, refused := errors.AsType[*snapshot.Refusal](err); refused || errors.Is(err, snapshot.ErrSelf) {
		return fault.New(fault.Usage, "%s: %v", c.Origin("cluster-join"), err)
	}
	if err != nil {
		return &router.JournalError{Err: err}
	}
	m.state = state
	return nil
}

func (m *Member) receiveOptions() snapshot.ReceiveOptions {
	return snapshot.ReceiveOptions{Room: 2 * m.o.Config.BinlogSize}
}

// A Fetched says that this server has fetched the leader's journal, and must start again with it:
// the caller calls Install after the server is closed.
type Fetched struct {
	m        *Member
	received *snapshot.Received
}

func (f *Fetched) Error() string {
	return "this server lacks entries that the others no longer have: it continues with the journal of the leader"
}

// Install makes the next start use the fetched journal, unless this server's own has more entries by
// now. The caller has closed the Member and the server.
func (f *Fetched) Install() error {
	e := f.m.journal.Entries()
	last := e.Last()
	term, err := e.Term(last)
	if err != nil {
		return err
	}
	err = snapshot.Exchange(f.received, f.m.state, last, term)
	if errors.Is(err, snapshot.ErrOlder) {
		f.m.log.Info("this server's own journal has more entries than the fetched one, and stays")
		return nil
	}
	return err
}

var errLeads = errors.New("this server leads by now, and needs no other journal")

// fetchPause is the pause after a failed fetch.
const fetchPause = time.Second

// fetch begins to fetch the leader's journal, unless a fetch is under way. It does not block.
func (m *Member) fetch(f cluster.Fetch) {
	if m.fetching.CompareAndSwap(false, true) {
		go m.fetchFrom(f.From)
	}
}

func (m *Member) fetchFrom(leader uint64) {
	m.log.Info("this server lacks entries that the others no longer have, and fetches the journal", "from", hex(leader))
	r, err := m.receiveFrom(leader)
	if _, v := m.view(); err == nil && v.Leads {
		err = errors.Join(errLeads, r.Discard())
	}
	if err == nil {
		m.over(&Fetched{m, r})
		return
	}
	if m.ctx.Err() != nil {
		return
	}
	m.logFetch(leader, err)
	select {
	case <-time.After(fetchPause):
	case <-m.ctx.Done():
	}
	m.fetching.Store(false)
}

func (m *Member) receiveFrom(leader uint64) (*snapshot.Received, error) {
	s, err := m.links.transport.Open(m.ctx, leader, transport.Journal)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return snapshot.Fetch(m.ctx, s, m.disk, m.receiveOptions())
}

// logFetch logs why the journal could not be fetched. If the disk has no space for it, logFetch logs
// that once, with the remedy, and room then reports zero to the others.
func (m *Member) logFetch(leader uint64, err error) {
	if _, full := errors.AsType[*snapshot.RoomError](err); !full {
		m.cramped.Store(0)
		m.log.Warn("the journal could not be fetched; trying again", "from", hex(leader), "err", err)
		return
	}
	last := m.journal.Entries().Last()
	if m.cramped.Swap(last) == last {
		return
	}
	m.log.Error("the disk has no space for the journal that this server must fetch: it stores no changes; trying again", "from", hex(leader), "err", err,
		"remedy", "free space, or let it join again: polystalk cluster remove "+m.id.Name+" at another server, then start it with an empty directory and "+m.joinFlag())
}
