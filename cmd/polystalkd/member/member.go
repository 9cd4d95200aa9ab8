// Package member runs a server as a member of a cluster, from its start as a follower, while it
// leads, to its end.
//
//	Check   the directory fits the command line
//	New     the server's identity, before there is a router.Server
//	Follow  join, if the server is new; read the journal; begin consensus
//	Serve   clients may connect: they are forwarded to the leader, or served once this server leads
//	Leave   hand over, if this server leads, and end
//
// The package connects the parts and decides nothing: consensus (router/cluster) elects the leader,
// and the program decides what becomes of a deposed process. One loop watches the cluster: see
// health.go.
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
	"polystalk/router"
	"polystalk/router/cluster"
	"polystalk/router/cluster/forward"
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// Options describe the server.
type Options struct {
	Config   *config.Config // that Check has accepted
	Listener net.Listener   // for the other servers; New takes it over
	Log      *slog.Logger
}

// A Member is this server in its cluster. One goroutine calls New, Follow and Leave, in this
// order; the other methods are safe for concurrent use.
type Member struct {
	o         Options
	log       *slog.Logger
	limited   *slog.Logger     // see transport.LimitLog
	id        cluster.Identity // a joining server has no cluster here: see cluster
	process   uint64           // random: tells processes with the same identity apart
	cluster   atomic.Uint64    // the cluster's ID; zero: not known yet
	told      introduction
	disk      wal.Disk
	proposals *cluster.Proposals
	ended     chan error
	ctx       context.Context // ends with Close
	end       context.CancelFunc
	links     links

	srv      *router.Server
	journal  *commit.Journal
	state    *cluster.State
	source   *snapshot.Source
	clients  clients
	control  atomic.Pointer[control] // nil: not open
	fetching atomic.Bool
	cramped  atomic.Uint64 // the last entry when the disk had no space to fetch a journal; zero: it had
	joins    bool          // the server is about to join
	fresh    bool          // this start has made the ID under which it joins

	node    atomic.Pointer[cluster.Node] // nil: Follow has not started consensus
	started chan struct{}                // closed when node is set
}

// New returns a Member, and makes cfg describe a member's journal. The caller has locked the
// directory.
func New(o Options, cfg *router.Journal) (*Member, error) {
	m := &Member{
		o: o, log: o.Log, limited: transport.LimitLog(o.Log), disk: wal.Dir(cfg.Dir), proposals: cluster.NewProposals(),
		ended: make(chan error, 1), started: make(chan struct{}), process: cluster.RandomID(),
	}
	m.ctx, m.end = context.WithCancel(context.Background())
	m.clients.m, m.links.m = m, m
	state, err := stateOf(cfg.Dir)
	switch {
	case err != nil:
		return nil, err
	case state != nil:
		m.id = state.Identity()
		m.told.state.Store(state)
	case o.Config.Cluster.New:
		m.id = cluster.Identity{Cluster: cluster.RandomID(), Node: cluster.RandomID(), Name: o.Config.Cluster.Node}
	default:
		m.joins, m.id.Name = true, o.Config.Cluster.Node
		pending, err := snapshot.Pending(m.disk)
		if err != nil {
			return nil, err
		}
		m.fresh = !pending
		if m.id.Node, err = snapshot.NodeID(m.disk); err != nil {
			return nil, err
		}
	}
	m.cluster.Store(m.id.Cluster)
	cfg.Proposer, cfg.Node = m.proposals, m.id.Node
	return m, m.links.open()
}

// Follow joins the cluster, if this server is new, reads the journal, and begins to follow. Both may
// take long. After an error the server can only be shut down.
func (m *Member) Follow(srv *router.Server) error {
	m.srv = srv
	go m.watch()
	if m.joins {
		m.links.transport.Start()
		if err := m.begin(); err != nil {
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
		return m.Expelled(err)
	case err != nil:
		return &router.JournalError{Err: err}
	}
	if !m.joins {
		m.links.transport.Start()
	}
	if err := m.checkPlace(); err != nil {
		return m.Expelled(err)
	}
	srv.ForCluster(m.cluster.Load())
	k := &m.o.Config.Cluster
	m.clients.begin(forward.New(forward.Options{
		Self: m.id.Node, Open: m.links.openForward, Take: m.take, Wait: k.Wait, Max: m.forwardMax(), Log: m.limited,
		Describe: func(c net.Conn) (forward.Client, bool) {
			about, ok := srv.Host().Forward(c)
			return forward.Client(about), ok
		},
	}))
	node, err := cluster.StartNode(cluster.NodeOptions{
		State: m.state, Log: m.journal.Entries(), Transport: m.links.transport,
		Replica: &replica{Follower: f, m: m}, Proposals: m.proposals,
		Acknowledge: m.journal.Committed, Timeout: k.Timeout, DiskTimeout: k.DiskTimeout, Logger: m.log,
		Fetch: m.fetch, Fail: func(f *commit.Failure) { m.over(f) },
	})
	if err != nil {
		return &router.JournalError{Err: err}
	}
	m.source = snapshot.NewSource(snapshot.SourceOptions{Node: node, Journal: m.journal, Rate: k.CatchUpRate, Log: m.log})
	m.node.Store(node)
	close(m.started)
	return nil
}

// A replica is the server's jobs, as consensus uses them.
type replica struct {
	*router.Follower
	m *Member
}

var _ cluster.Replica = (*replica)(nil)

// Lead implements cluster.Replica.
func (r *replica) Lead() error {
	if err := r.Follower.Lead(func() uint64 { return cluster.LeaseFence(r.m.node.Load(), r.m.journal) }); err != nil {
		return err
	}
	r.m.clients.serve()
	return nil
}

// forwardMax returns the number of clients that are forwarded at a time: the limit of connections,
// if there are enough file descriptors.
func (m *Member) forwardMax() int {
	n := m.srv.ConnectionLimitOf(forward.DescriptorsFollower)
	if want := m.o.Config.MaxConnections; n < want {
		m.log.Warn("the limit of file descriptors allows fewer forwarded connections than --max-connections; raise it (ulimit -n, LimitNOFILE)",
			"max-connections", want, "handed on", n)
	}
	return n
}

// openState opens the state of the directory. The first member of a new cluster creates it: its log
// is the journal of the directory.
func (m *Member) openState() (err error) {
	switch {
	case m.state != nil: // it has just joined, or bootstrapped
	case m.told.state.Load() == nil: // it makes a cluster
		// The whole log counts, except the members of an earlier cluster.
		members := &cluster.Members{
			Index: m.journal.Entries().Last(),
			List:  []cluster.Member{{ID: m.id.Node, Name: m.id.Name, Addr: m.o.Config.Cluster.Advertise, Voter: true}},
		}
		if m.state, err = cluster.CreateState(m.disk, m.id, cluster.Vote{}, members); err != nil {
			return fmt.Errorf("making a cluster: %w", err)
		}
		m.log.Warn(m.o.Config.Origin("cluster-new") + ": it has done its work: remove it now, since the next start refuses it, so that a server that has lost its disk does not make another cluster")
		m.log.Info("a cluster was made: others join it with --cluster-join "+m.o.Config.Cluster.Advertise, "cluster", hex(m.id.Cluster), "node", m.id.Name)
	default:
		if m.state, err = cluster.OpenState(m.disk); err != nil {
			return err
		}
	}
	if err := snapshot.Settle(m.disk, m.state); err != nil {
		return err
	}
	m.told.state.Store(m.state)
	if m.state.Members().Find(m.id.Node) == nil {
		return cluster.ErrRemoved
	}
	return nil
}

// view returns the node with what it knows of the cluster, or nil while the journal is being read.
func (m *Member) view() (n *cluster.Node, v cluster.View) {
	if n = m.node.Load(); n != nil {
		v, _ = n.View()
	}
	return n, v
}

// over ends the Member; the first cause counts. A server with a fetched journal restarts with it.
func (m *Member) over(err error) {
	if _, fetched := err.(*Fetched); !fetched {
		m.srv.Fail(err)
	}
	select {
	case m.ended <- err:
	default:
	}
}

// Ended delivers the reason why the Member has ended: a *commit.Failure, a *Fetched, or a reason
// that Expelled explains.
func (m *Member) Ended() <-chan error { return m.ended }

// Leave waits for replies to clients, for at most answers, hands over if this server leads, and
// closes. ctx ends all waits except in Close. at is called before a wait for a part of the server.
func (m *Member) Leave(ctx context.Context, answers time.Duration, at func(part string)) error {
	within, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	m.links.leaving.Store(true) // clients wait at the followers for the next leader
	at("clients")
	err := m.srv.Stop(within)
	if n, v := m.view(); v.Leads {
		at("another server that leads")
		err = errors.Join(err, m.handOver(ctx, n, &v))
	}
	return errors.Join(err, m.Close(at))
}

// handOver makes another server lead, after all acknowledged changes are committed.
func (m *Member) handOver(ctx context.Context, n *cluster.Node, v *cluster.View) error {
	if err := m.durable(ctx); err != nil || v.Members.Voters() < 2 {
		return err
	}
	return n.Transfer(ctx, 0)
}

// durable waits until all changes that are or will be acknowledged are committed.
func (m *Member) durable(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- m.journal.Durable() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.New("the last changes could not be committed in time: no majority answers")
	}
}

// Close ends consensus and closes the journal. The server serves no clients any more. Close calls at
// before it waits for a part of the server.
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
	at("forwarded clients")
	m.clients.close()
	at("connections with other servers")
	if m.source != nil {
		m.source.Close()
	}
	m.links.close()
	at("the journal")
	err := m.srv.Close()
	if n != nil {
		n.Stop() // the disk may have been full until now
	}
	return err
}

// hex formats an ID for logs and the API.
func hex(id uint64) string { return fmt.Sprintf("%016x", id) }
