// Package member has a server be one of several that keep the same jobs: from its start, at
// which it follows, to the moment when it leads, and to its end.
//
//	Check   the directory is what the command line takes it for
//	New     who this is, before there is a server
//	Follow  it joins, if it is new; the journal is read; consensus begins
//	Open    clients come: they are handed to the leader, or served here once this one leads
//	Leave   what this server leads is handed over, and it goes along no more
//
// It knows how the parts go together and decides nothing: who leads, consensus does
// (router/cluster), and what becomes of a process that was deposed, the program.
package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/router"
	"polystalk/router/cluster"
	"polystalk/router/cluster/forward"
	"polystalk/router/cluster/join"
	"polystalk/router/cluster/transport"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// Options say which server it is.
type Options struct {
	Config   *config.Config // which Check has let through
	Listener net.Listener   // for the other servers, the Member's from then on
	Log      *slog.Logger
}

// A Member is this server among the others. New comes first, then Follow, Open and Leave, from
// one goroutine; the others may be called by anyone.
type Member struct {
	o         Options
	log       *slog.Logger
	id        cluster.Identity // but for the cluster's, of one that joins: see cluster
	process   uint64           // random: tells this process from others with the same identity
	cluster   atomic.Uint64    // the cluster's id; zero: it is not known yet
	disk      wal.Disk
	proposals *cluster.Proposals
	ended     chan error
	ctx       context.Context // of all that goes on beside: it ends with Close
	end       context.CancelFunc
	ways      ways

	srv      *router.Server
	journal  *commit.Journal
	state    *cluster.State
	source   *join.Source
	clients  doors
	views    views
	control  atomic.Pointer[control] // nil: it is not open
	fetching atomic.Bool
	cramped  atomic.Uint64 // the last entry here when the disk had no room to fetch the journal; zero: it had
	joins    bool          // it is about to become a member
	fresh    bool          // this start has made the ID under which it joins

	node atomic.Pointer[cluster.Node] // nil: Follow is not that far
}

// New makes one, and has cfg be the journal of such a server. It does nothing yet. The directory
// is locked.
func New(o Options, cfg *router.Journal) (*Member, error) {
	m := &Member{o: o, log: o.Log, disk: wal.Dir(cfg.Dir), proposals: cluster.NewProposals(), ended: make(chan error, 1), process: randomID()}
	m.ctx, m.end = context.WithCancel(context.Background())
	m.clients.m, m.ways.m, m.views.tell = m, m, m.changed
	id, err := identityOf(cfg.Dir)
	switch {
	case err != nil:
		return nil, err
	case id != nil:
		m.id = *id
	case o.Config.Cluster.New:
		m.id = cluster.Identity{Cluster: randomID(), Node: randomID(), Name: o.Config.Cluster.Node}
	default:
		m.joins, m.id.Name = true, o.Config.Cluster.Node
		pending, err := join.Pending(m.disk)
		if err != nil {
			return nil, err
		}
		m.fresh = !pending
		if m.id.Node, err = join.NodeID(m.disk); err != nil {
			return nil, err
		}
	}
	m.cluster.Store(m.id.Cluster)
	cfg.Proposer, cfg.Node = m.proposals, m.id.Node
	return m, m.ways.make()
}

// Follow joins the others, if this server is new among them, and reads the journal, both of which
// may take their time, and goes along with the others from then on. After an error the server can
// only be shut down.
func (m *Member) Follow(srv *router.Server) error {
	m.srv = srv
	if m.ways.security != nil {
		go m.watchEnding()
	}
	if m.joins {
		m.ways.transport.Start()
		if err := m.join(); err != nil {
			return err
		}
	}
	f, err := srv.Follow()
	if err != nil {
		return err
	}
	m.journal = f.Journal()
	switch err := m.openState(); {
	case errors.Is(err, cluster.ErrRemoved):
		return m.Removed()
	case err != nil:
		return &router.JournalError{Err: err}
	}
	if !m.joins {
		m.ways.transport.Start()
	}
	if err := m.beginAt(); err != nil {
		return m.Expelled(err)
	}
	srv.ForCluster(m.cluster.Load())
	k := &m.o.Config.Cluster
	m.clients.begin(forward.New(forward.Options{
		Self: m.id.Node, Open: m.ways.toLeader, Take: srv.Take, Wait: k.Wait, Max: m.forwardedMax(), Log: m.log,
	}))
	node, err := cluster.StartNode(cluster.NodeOptions{
		State: m.state, Log: m.journal.Entries(), Transport: m.ways.transport,
		Replica: &replica{Follower: f, least: m.least, led: m.clients.serve}, Proposals: m.proposals,
		Acknowledge: m.journal.Committed, Timeout: k.Timeout, DiskTimeout: k.DiskTimeout, Logger: m.log,
		Changed: m.views.hear, Fetch: m.fetch, Fail: func(f *commit.Failure) { m.over(f) },
	})
	if err != nil {
		return &router.JournalError{Err: err}
	}
	m.source = join.NewSource(join.SourceOptions{Node: node, Journal: m.journal, Rate: k.CatchUpRate, Log: m.log})
	m.node.Store(node)
	m.views.begin(node.View)
	go m.watchMembership(node)
	go (&join.Promoter{Node: node, Log: m.log}).Run(m.ctx)
	go m.watchRoom()
	return nil
}

// forwardedMax is how many clients are handed on at a time: as many as would be served, if there
// are the descriptors for that.
func (m *Member) forwardedMax() int {
	n := m.srv.ConnectionLimitOf(forward.DescriptorsFollower)
	if want := m.o.Config.MaxConnections; n < want {
		m.log.Warn("the limit of descriptors allows fewer connections to be handed on to the server that leads than --max-connections; raise it (ulimit -n, LimitNOFILE)",
			"max-connections", want, "handed on", n)
	}
	return n
}

// openState is what the server must not forget besides its journal. The first of a cluster has
// none yet: its log is what is in its directory, which could be read.
func (m *Member) openState() (err error) {
	switch {
	case m.state != nil: // it has just joined
	case m.o.Config.Cluster.New && !m.isMember():
		// All that the log has counts, but for who were members of a cluster before this one.
		members := &cluster.Members{
			Index: m.journal.Entries().Last(),
			List:  []cluster.Member{{ID: m.id.Node, Name: m.id.Name, Addr: m.o.Config.Cluster.Advertise, Voter: true}},
		}
		if m.state, err = cluster.CreateState(m.disk, m.id, cluster.Vote{}, members); err != nil {
			return fmt.Errorf("making a cluster: %w", err)
		}
		m.log.Warn(m.o.Config.Origin("cluster-new") + ": it has done its work: take it out now, the next start refuses it, so that a server that has lost its disk does not make another cluster")
		m.log.Info("a cluster was made: others join it with --cluster-join "+m.o.Config.Cluster.Advertise, "cluster", hex(m.id.Cluster), "node", m.id.Name)
	default:
		if m.state, err = cluster.OpenState(m.disk); err != nil {
			return err
		}
	}
	if err := join.Settle(m.disk, m.state); err != nil {
		return err
	}
	if m.state.Members().Find(m.id.Node) == nil {
		return cluster.ErrRemoved
	}
	return nil
}

// isMember reports whether the directory is a member's.
func (m *Member) isMember() bool {
	id, err := identityOf(m.o.Config.BinlogDir)
	return id != nil || err != nil
}

// least is on which commit answers depend: see session.Host.LeaseFence.
func (m *Member) least() uint64 {
	if n := m.node.Load(); n != nil && n.Leased() {
		return 0
	}
	n := m.journal.Begun() + 1
	m.journal.Wake()
	return n
}

// changed hears of another leader, and of other members, from views.
func (m *Member) changed(v cluster.View) {
	m.ways.setMembers(v.Members)
	m.clients.changed(v)
	m.ways.setLeader(v)
}

// over notes why this server goes along no more; the first cause counts. A server that has fetched a
// journal goes on with that one.
func (m *Member) over(err error) {
	if _, fetched := err.(*Fetched); !fetched {
		m.srv.Fail(err)
	}
	select {
	case m.ended <- err:
	default:
	}
}

// Ended delivers why this server takes part no more: a *commit.Failure, a *Fetched, or a reason that
// Expelled explains.
func (m *Member) Ended() <-chan error { return m.ended }

// Leave has another server lead, if this one does, once all that clients have asked for so far
// is answered, for which it waits no longer than that, and then ends: see Close. It takes no
// longer than ctx, but for what Close takes. at is as of Close.
func (m *Member) Leave(ctx context.Context, answers time.Duration, at func(part string)) error {
	within, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	m.ways.leaving.Store(true) // clients of others wait there for the next leader
	at("clients")
	err := m.srv.Stop(within)
	if n := m.node.Load(); n != nil {
		if v, _ := n.View(); v.Leads {
			at("another server that leads")
			err = errors.Join(err, m.handOver(ctx, n))
		}
	}
	return errors.Join(err, m.Close(at))
}

// handOver has another server lead. With what clients were answered it is all in the log.
func (m *Member) handOver(ctx context.Context, n *cluster.Node) error {
	if err := m.durable(ctx); err != nil {
		return err
	}
	if v, _ := n.View(); v.Members.Voters() < 2 {
		return nil
	}
	return n.Transfer(ctx, 0)
}

// durable waits until all that is acknowledged, or about to be, is committed.
func (m *Member) durable(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- m.journal.Durable() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.New("what was asked for last could not be committed in time: no majority answers")
	}
}

// Close goes along no more, whoever leads, and closes the journal: nobody hears of this server
// any more, and it acknowledges nothing. It serves no client any more. Close calls at before it waits for a
// part of the server.
func (m *Member) Close(at func(part string)) error {
	m.end()
	n := m.node.Load()
	if n != nil {
		n.Halt()
	}
	at("operators at the socket in the directory")
	if k := m.control.Load(); k != nil {
		k.close(m.log)
	}
	at("clients that are handed on")
	m.clients.close()
	at("connections with other servers")
	if m.source != nil {
		m.source.Close()
	}
	m.ways.close()
	at("the journal")
	err := m.srv.Close()
	if n != nil {
		n.Stop() // the disk may have been full until now
	}
	return err
}

// hex is how people are shown an id.
func hex(id uint64) string { return fmt.Sprintf("%016x", id) }

// Secure reads the files that keep strangers out; nil: none are needed. The error is a fault.
func Secure(c *config.Config) (*transport.Security, error) {
	k := &c.Cluster
	s, err := transport.Secure(transport.SecureOptions{
		Name: k.Node, Listen: k.Listen, Advertise: k.Advertise,
		Cert: k.Cert, Key: k.Key, CA: k.CA, AllowsPlaintext: k.Plaintext,
	})
	if one, ok := errors.AsType[*transport.FlagError](err); ok {
		return nil, fault.New(fault.Usage, "%s: %v", c.Origin(one.Flag), one.Err)
	}
	if err != nil {
		return nil, fault.New(fault.Usage, "%s: %v", c.Origin("cluster-listen"), err)
	}
	return s, nil
}
