package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/binlog"
	"polystalk/router"
	"polystalk/router/cluster"
	"polystalk/router/cluster/bootstrap"
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
	"polystalk/shard/wal"
)

// Check refuses to start on a directory that does not fit the command line: a member's without
// --cluster-listen, or the other way round. It changes nothing; the caller has locked the directory.
// again says that this process has served on it before.
//
// A server with an empty directory never votes under an old name: if it has lost its disk, it knows
// neither its votes nor the entries that it acknowledged, and a majority could forget them.
func Check(c *config.Config, again bool) error {
	state, err := stateOf(c.BinlogDir)
	pending := false
	if err == nil && state == nil && c.BinlogDir != "" {
		pending, err = snapshot.Pending(wal.Dir(c.BinlogDir))
	}
	if err != nil {
		return fault.New(fault.Journal, "%s: the directory %q cannot be used: %v", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	k := &c.Cluster
	at := c.Origin("binlog-dir")
	switch {
	case pending && len(k.Join)+len(k.Bootstrap) == 0:
		return fault.New(fault.Journal, "%s: the directory %q belongs to a server that has not finished joining a cluster: give --cluster-join or --cluster-bootstrap again, or an empty directory", at, c.BinlogDir)
	case state == nil && k.Listen == "":
		return nil
	case state == nil:
		return checkNew(c, pending)
	}
	id := state.Identity()
	switch {
	case k.Listen == "":
		return fault.New(fault.Journal, "%s: the directory %q belongs to server %q of a cluster, and the others may have continued without it: give --cluster-listen with its address; only if most of the others are lost for good, run polystalk cluster recover-alone %s", at, c.BinlogDir, id.Name, c.BinlogDir)
	case k.New && !again:
		return fault.New(fault.Journal, "%s: the directory %q belongs to a cluster already, as server %q: leave it out, it is only for the first start", c.Origin("cluster-new"), c.BinlogDir, id.Name)
	case c.IsSet("cluster-node") && k.Node != id.Name:
		return fault.New(fault.Journal, "%s: the directory %q belongs to server %q: give that name, or leave it out", c.Origin("cluster-node"), c.BinlogDir, id.Name)
	}
	k.Node = id.Name
	return nil
}

// checkNew refuses a directory that cannot become a member's.
func checkNew(c *config.Config, pending bool) error {
	k := &c.Cluster
	var list []cluster.Member
	for i, at := range k.Bootstrap {
		list = append(list, cluster.Member{ID: uint64(i + 1), Name: strconv.Itoa(i), Addr: at})
	}
	if _, err := cluster.Founding(list); err != nil {
		return fault.New(fault.Usage, "%s: %v", c.Origin("cluster-bootstrap"), err)
	}
	if pending {
		return nil // the server may discard what the directory holds
	}
	segments, err := filepath.Glob(filepath.Join(c.BinlogDir, "journal.*"))
	if err != nil {
		return err
	}
	files, err := binlog.Files(c.BinlogDir)
	if err != nil {
		return fault.New(fault.Journal, "%s: the directory %q cannot be used: %v: give another", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	switch {
	case !k.New && len(k.Join)+len(k.Bootstrap) == 0:
		return fault.New(fault.Journal, "%s: the directory %q belongs to no cluster: give --cluster-new to make a cluster of it, --cluster-join with the address of a server to join its cluster, or --cluster-bootstrap with the addresses of all new servers", c.Origin("binlog-dir"), c.BinlogDir)
	case len(k.Bootstrap) > 0 && len(segments)+len(files) > 0:
		return fault.New(fault.Journal, "%s: the directory %q has the journal of a single server: to make a cluster with its jobs, start this server once with --cluster-new instead; otherwise give an empty directory", c.Origin("cluster-bootstrap"), c.BinlogDir)
	case !k.New && len(segments)+len(files) > 0:
		return fault.New(fault.Journal, "%s: the directory %q has the journal of a single server, and the jobs of the cluster would replace its jobs: give an empty one", c.Origin("binlog-dir"), c.BinlogDir)
	case k.New && len(segments) == 0 && len(files) > 0:
		return fault.New(fault.Journal, "%s: the directory %q holds jobs of beanstalkd: start the server once without --cluster-listen, which imports them, and stop it", c.Origin("binlog-dir"), c.BinlogDir)
	}
	return nil
}

// stateOf returns the closed state of a member's directory; nil: it is not a member's.
func stateOf(dir string) (*cluster.State, error) {
	if dir == "" {
		return nil, nil
	}
	s, err := cluster.OpenState(wal.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s, s.Close()
}

// Secure reads the certificates; nil: none are needed. The error is a fault.
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

// A server that joins fetches the leader's journal. So does a member that needs entries that the
// others no longer have.

// begin makes this server a member. It tries until it succeeds.
func (m *Member) begin() (err error) {
	k := &m.o.Config.Cluster
	flag := "cluster-join"
	if len(k.Bootstrap) == 0 {
		m.log.Info("joining a cluster", "node", m.id.Name, "asking", k.Join)
		m.state, err = m.join(m.ctx, k.Join, nil)
	} else {
		flag = "cluster-bootstrap"
		m.log.Info("bootstrapping a cluster with the other servers", "node", m.id.Name, "servers", k.Bootstrap)
		m.state, err = bootstrap.Run(m.ctx, bootstrap.Options{
			Disk: m.disk, Self: cluster.Member{ID: m.id.Node, Name: m.id.Name, Addr: k.Advertise}, List: k.Bootstrap,
			Dial: m.dial(transport.Admin), Publish: m.told.answer.Store, Waits: m.srv.Operator().Life().Waits, Join: m.join, Log: m.limited,
		})
	}
	if _, refused := errors.AsType[*snapshot.Refusal](err); refused || errors.Is(err, snapshot.ErrSelf) {
		return fault.New(fault.Usage, "%s: %v", m.o.Config.Origin(flag), err)
	}
	if err != nil {
		return &router.JournalError{Err: err}
	}
	m.setCluster(m.state.Identity().Cluster)
	m.told.state.Store(m.state)
	return nil
}

func (m *Member) setCluster(id uint64) {
	m.cluster.Store(id)
	m.links.transport.SetCluster(id)
}

// dial returns a function that connects to the server at an address.
func (m *Member) dial(kind transport.Kind) snapshot.Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		return asConn(m.links.transport.OpenAddr(ctx, address, kind))
	}
}

// join joins the cluster of the servers at the addresses.
func (m *Member) join(ctx context.Context, addrs []string, pause func(context.Context) error) (*cluster.State, error) {
	k := &m.o.Config.Cluster
	receive := m.receiveOptions()
	receive.Progress = m.srv.Operator().Life().Read // for probes
	return snapshot.Join(ctx, snapshot.JoinOptions{
		Disk: m.disk, Member: cluster.Member{ID: m.id.Node, Name: m.id.Name, Addr: k.Advertise, Standby: k.Standby}, Fresh: m.fresh,
		Addrs: addrs, Admin: m.dial(transport.Admin), Journal: m.dial(transport.Journal),
		Joined: m.setCluster, Receive: receive, Pause: pause, Log: m.log,
	})
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

// Expelled returns the fault of a server that cannot stay in its cluster; nil: why is another error.
func (m *Member) Expelled(why error) error {
	c := m.o.Config
	twin, is := errors.AsType[*twinError](why)
	switch {
	case errors.Is(why, cluster.ErrRemoved):
		return fault.New(fault.Removed, "%s: the directory %q belongs to server %q, which was removed from its cluster: to have the server back, move the directory away, and start it with an empty one and %s; to run it alone with its jobs, although others may have done some of them since, run polystalk cluster recover-alone %s --force",
			c.Origin("binlog-dir"), c.BinlogDir, m.id.Name, m.joinFlag(), c.BinlogDir)
	case errors.Is(why, cluster.ErrLogLost):
		return fault.New(fault.Removed, "%s: the directory %q of server %q lacks entries that this server has acknowledged, like an old copy: run polystalk cluster remove %s at another server, then start this one with an empty directory and %s",
			c.Origin("binlog-dir"), c.BinlogDir, m.id.Name, m.id.Name, m.joinFlag())
	case is:
		return fault.New(fault.Removed, "%s: the directory %q belongs to server %q, and another process runs as that server at %s: only one may, so this process ends. If this directory is a copy, delete it. If the other one is the copy, stop that process, run polystalk cluster remove %s at another server, and start this one with an empty directory and --cluster-join: the changes that the copy has acknowledged are not in this directory",
			c.Origin("binlog-dir"), c.BinlogDir, m.id.Name, twin.address, m.id.Name)
	}
	return nil
}

// joinFlag returns the flag to join the cluster again, if possible with another server's address.
func (m *Member) joinFlag() string {
	members := new(cluster.Members)
	if n, v := m.view(); n != nil {
		members = v.Members
	} else if m.state != nil {
		members = m.state.Members()
	}
	for _, one := range members.List {
		if one.ID != m.id.Node {
			return "--cluster-join " + one.Addr
		}
	}
	return "--cluster-join"
}
