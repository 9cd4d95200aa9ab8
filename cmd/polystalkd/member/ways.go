package member

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/router/cluster"
	"polystalk/router/cluster/forward"
	"polystalk/router/cluster/relay"
	"polystalk/router/cluster/transport"
)

// ways are those to the other servers, and theirs to this one.
type ways struct {
	m         *Member
	transport *transport.Transport
	security  *transport.Security // nil: none is needed
	receiver  *forward.Receiver   // of clients whom others hand on
	relay     *relay.Relay        // of requests of operators, to the server that leads
	leaving   atomic.Bool         // this server takes no clients any more
}

// secureMax is how many clients that others hand on with TLS are served at a time. Each takes
// two descriptors more than the connection that it counts for: together a quarter of those
// that there are.
var secureMax = sync.OnceValue(func() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return secureLeast
	}
	return max(secureLeast, int(min(r.Cur, 1<<20))/8)
})

const secureLeast = 64

// Descriptors are as many as a server needs for the others, and for operators whom it hands on.
func Descriptors(c *config.Config) int {
	n := transport.Descriptors(cluster.MembersMax) + controlDescriptors + relay.Descriptors
	if c.Cluster.Cert != "" {
		n += (forward.DescriptorsSecure - forward.DescriptorsPlain) * secureMax()
	}
	return n
}

// make makes them; nobody is let in yet.
func (w *ways) make() (err error) {
	m, c := w.m, w.m.o.Config
	if w.security, err = Secure(c); err != nil {
		return err
	}
	w.receiver = forward.NewReceiver(m.ctx, func(c net.Conn, protocol string, client net.Addr) error { return m.srv.Take(c, protocol, client) }, secureMax(), m.log)
	w.relay = relay.New(relay.Options{Self: m.id.Node, Open: w.toServe})
	w.transport, err = transport.New(transport.Options{
		Self:      transport.Identity{Cluster: m.id.Cluster, Node: m.id.Node, Name: m.id.Name},
		Advertise: c.Cluster.Advertise, Listener: m.o.Listener, Security: w.security,
		Jitter: rand.Float64, Now: time.Now, Log: m.log,
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
		Admit: w.admit, Room: m.room,
		Streams: map[transport.Kind]func(*transport.Stream){
			transport.Forward: func(s *transport.Stream) { w.receiver.Receive(s) },
			transport.Journal: w.sendJournal,
			transport.Admin:   m.visit,
			transport.Relay:   m.hear,
		},
		Redirect: redirects(c.Cluster.Dial),
	})
	if err != nil {
		return fault.New(fault.Usage, "%s: %v", c.Origin("cluster-node"), err)
	}
	return nil
}

// redirects reads ADDR=ADDR.
func redirects(list []string) map[string]string {
	to := make(map[string]string)
	for _, r := range list {
		if from, address, ok := strings.Cut(r, "="); ok {
			to[from] = address
		}
	}
	return to
}

// Why others are not let in.
var (
	errStarts  = errors.New("this server is starting")
	errFollows = errors.New("this server does not lead")
	errRemoved = errors.New("the server was removed from the cluster: it joins anew with an empty directory")
)

// admit says who may come. Clients are taken where this server leads, and nobody whom it knows,
// as the leader, to be no member any more; what such a one may ask is for control to say.
func (w *ways) admit(from transport.Identity, kind transport.Kind) error {
	n := w.m.node.Load()
	switch {
	case kind == transport.Admin, n == nil && kind == transport.Raft: // what it says is lost until this one has started
		return nil
	case n == nil:
		return errStarts
	}
	v, _ := n.View()
	switch {
	case (kind == transport.Forward || kind == transport.Relay) && (!v.Leads || w.leaving.Load()):
		return errFollows
	case v.Leads && v.Members.Find(from.Node) == nil:
		return errRemoved
	}
	return nil
}

// toLeader makes a stream for a client to the server that leads.
func (w *ways) toLeader(ctx context.Context, node uint64) (forward.Stream, error) {
	s, err := w.transport.Open(ctx, node, transport.Forward)
	if err != nil {
		return nil, err // not a stream that is nil
	}
	return s, nil
}

// toServe makes a stream for requests of operators to the server that leads.
func (w *ways) toServe(ctx context.Context, node uint64) (net.Conn, error) {
	s, err := w.transport.Open(ctx, node, transport.Relay)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// setLeader says to which server requests of operators are handed on.
func (w *ways) setLeader(v cluster.View) {
	one := v.Members.Find(v.Leader)
	if one == nil {
		w.relay.SetLeader(0, "")
		return
	}
	w.relay.SetLeader(one.ID, one.Name)
}

// Elsewhere is the server that leads, as operators ask it by way of this one.
func (m *Member) Elsewhere() *relay.Relay { return m.ways.relay }

// sendJournal sends the journal to another server that needs all of it.
func (w *ways) sendJournal(s *transport.Stream) {
	if w.m.node.Load() == nil {
		s.Close()
		return
	}
	if err := w.m.source.Serve(s, s.Remote().Node); err != nil {
		w.m.log.Debug("the journal was not sent", "node", s.Remote().Name, "err", err)
	}
}

// setMembers says who the others are.
func (w *ways) setMembers(members *cluster.Members) {
	list := make([]transport.Member, 0, len(members.List))
	for _, one := range members.List {
		list = append(list, transport.Member{Node: one.ID, Name: one.Name, Addr: one.Addr})
	}
	w.transport.SetMembers(list)
}

// HasFiles reports whether there is something that Reload reads again.
func (m *Member) HasFiles() bool { return m.ways.security != nil }

// Reload reads the certificates again. On an error they stay as they were.
func (m *Member) Reload() error {
	if m.ways.security == nil {
		return nil
	}
	if err := m.ways.security.Reload(); err != nil {
		return fault.New(fault.Usage, "the certificates of the cluster stay as they were: %v", err)
	}
	m.log.Info("the certificate of the cluster was read again", "until", m.ways.security.Until())
	return nil
}

// close ends all that goes on with the others.
func (w *ways) close() {
	w.relay.Close()
	w.transport.Close()
}
