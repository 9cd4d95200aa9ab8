package member

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/cmd/polystalkd/fault"
	"polystalk/router/cluster"
	"polystalk/router/cluster/forward"
	"polystalk/router/cluster/transport"
	"polystalk/router/reactor"
	"polystalk/router/session"
)

// links are the connections with the other servers.
type links struct {
	m         *Member
	transport *transport.Transport
	security  *transport.Security               // nil: plaintext
	receiver  *forward.Receiver                 // of clients from followers
	relay     *forward.Relay                    // of operators' requests to the leader
	leaving   atomic.Bool                       // this server takes no clients any more
	digests   atomic.Pointer[map[string]string] // of the other servers' rules, by ID; nil: not asked yet
	records   sync.Map                          // record.Kind by ID: what each other server has answered last
}

// Descriptors is the number of file descriptors for the other servers and for operators.
var Descriptors = transport.Descriptors(cluster.MembersMax) + controlDescriptors + forward.RelayMax

// open makes the parts. They accept no connections before the transport is started.
func (w *links) open() (err error) {
	m, c := w.m, w.m.o.Config
	if w.security, err = Secure(c); err != nil {
		return err
	}
	w.receiver = forward.NewReceiver(m.take, m.limited)
	w.relay = forward.NewRelay(forward.RelayOptions{Self: m.id.Node, Open: w.openRelay})
	w.transport, err = transport.New(transport.Options{
		Self:      transport.Identity{Cluster: m.id.Cluster, Node: m.id.Node, Name: m.id.Name},
		Advertise: c.Cluster.Advertise, Listener: m.o.Listener, Security: w.security, ServeTLS: reactor.ServeTLS,
		Now: time.Now, Log: m.log,
		Receive: func(from uint64, b []byte) {
			if n := m.node.Load(); n != nil {
				n.Receive(from, b)
			}
		},
		Unreachable: func(to uint64) {
			if n := m.node.Load(); n != nil {
				n.Unreachable(to)
			}
		},
		Admit: w.admit, Room: m.room, Bootstrap: m.joins && len(c.Cluster.Bootstrap) > 0,
		Streams: map[transport.Kind]func(*transport.Stream){
			transport.Forward: w.receiver.Receive,
			transport.Journal: w.sendJournal,
			transport.Admin:   m.serveAdmin,
			transport.Relay:   m.serveRelay,
		},
		Redirect: redirects(c.Cluster.Dial),
	})
	if err != nil {
		return fault.New(fault.Usage, "%s: %v", c.Origin("cluster-node"), err)
	}
	return nil
}

// redirects parses a list of ADDR=ADDR.
func redirects(list []string) map[string]string {
	to := make(map[string]string)
	for _, r := range list {
		if from, address, ok := strings.Cut(r, "="); ok {
			to[from] = address
		}
	}
	return to
}

// Why others are refused.
var (
	errStarts  = errors.New("this server is starting")
	errFollows = errors.New("this server does not lead")
	errRemoved = errors.New("the server was removed from the cluster: it must join again with an empty directory")
)

// admit implements transport.Options.Admit. Only the leader accepts clients and operators' requests.
// A leader refuses servers that are not members, except on connections of kind Admin: control
// decides what they may request there.
func (w *links) admit(from transport.Identity, kind transport.Kind) error {
	n, v := w.m.view()
	switch {
	case kind == transport.Admin, n == nil && kind == transport.Raft: // messages are dropped until this server has started
		return nil
	case n == nil:
		return errStarts
	case (kind == transport.Forward || kind == transport.Relay) && (!v.Leads || w.leaving.Load()):
		return errFollows
	case v.Leads && v.Members.Find(from.Node) == nil:
		return errRemoved
	}
	return nil
}

func (w *links) openForward(ctx context.Context, node uint64) (*transport.Stream, error) {
	return w.transport.Open(ctx, node, transport.Forward)
}

func (w *links) openRelay(ctx context.Context, node uint64) (net.Conn, error) {
	return asConn(w.transport.Open(ctx, node, transport.Relay))
}

// asConn returns nil instead of an interface with a nil *Stream.
func asConn(s *transport.Stream, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Elsewhere returns the Relay of operators' requests to the leader.
func (m *Member) Elsewhere() *forward.Relay { return m.links.relay }

// sendJournal sends the journal to another server.
func (w *links) sendJournal(s *transport.Stream) {
	if w.m.node.Load() == nil {
		s.Close()
		return
	}
	if err := w.m.source.Serve(s, s.Remote().Node); err != nil {
		w.m.log.Debug("the journal was not sent", "node", s.Remote().Name, "err", err)
	}
}

// setView passes the members and the leader to the transport and the relay.
func (w *links) setView(v *cluster.View) {
	list := make([]transport.Member, 0, len(v.Members.List))
	for _, one := range v.Members.List {
		list = append(list, transport.Member{Node: one.ID, Name: one.Name, Addr: one.Addr})
	}
	w.transport.SetMembers(list)
	if one := v.Members.Find(v.Leader); one != nil {
		w.relay.SetLeader(one.ID, one.Name)
	} else {
		w.relay.SetLeader(0, "")
	}
}

// HasFiles reports whether Reload reads files.
func (m *Member) HasFiles() bool { return m.links.security != nil }

// Reload reads the certificates again. After an error the old ones stay in use.
func (m *Member) Reload() error {
	s := m.links.security
	if s == nil {
		return nil
	}
	if err := s.Reload(); err != nil {
		return fault.New(fault.Usage, "the certificates of the cluster were not replaced: %v", err)
	}
	m.log.Info("the certificate of the cluster was read again", "until", s.Expiry().At)
	return nil
}

func (w *links) close() {
	w.relay.Close()
	w.transport.Close()
}

// clients are forwarded to the leader, and served here once this server leads.
type clients struct {
	m *Member

	mu      sync.Mutex
	forward *forward.Forwarder // nil: Follow has not made it
	leads   bool
}

func (d *clients) begin(f *forward.Forwarder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forward = f
}

// Serve forwards the clients of a listener until this server leads, and serves them with serve then.
// It takes ownership of the listener. It is called after Follow.
func (m *Member) Serve(l net.Listener, protocol string, serve func(net.Listener) error) error {
	if err := m.clients.forward.Serve(l, protocol); err != nil {
		return err
	}
	return serve(l)
}

// serve serves clients here: this server leads. It is called once.
func (d *clients) serve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leads = true
	d.m.log.Info("this server leads: clients are served here")
	d.forward.Release()
	d.forward.SetLeader(d.m.id.Node)
}

// take implements forward.Take.
func (m *Member) take(c net.Conn, protocol string, client *forward.Client) error {
	if client == nil {
		return m.srv.Take(c, protocol, nil)
	}
	return m.srv.Take(c, protocol, session.Forwarded(*client))
}

// Reauthorize ends forwarded connections after a change of the access file or of the revoked certificates, and returns their number:
// see forward.Forwarder.Reidentify. A leader has none.
func (m *Member) Reauthorize() int {
	d := &m.clients
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.forward == nil {
		return 0
	}
	return d.forward.Reidentify()
}

// setLeader follows a new view. A server that has led serves until the process restarts.
func (d *clients) setLeader(v *cluster.View) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.leads:
	case v.Leader == d.m.id.Node: // it is about to serve
		d.forward.SetLeader(0)
	default:
		d.forward.SetLeader(v.Leader)
	}
}

// forwarded returns the number of clients that were forwarded.
func (d *clients) forwarded() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.forward == nil {
		return 0
	}
	return d.forward.Accepted()
}

func (d *clients) close() {
	if d.forward != nil {
		d.forward.Close()
	}
}
