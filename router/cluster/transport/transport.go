package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"polystalk/router/cluster/complaint"
)

// Options say how a Transport is made.
type Options struct {
	// Self is this node. Its cluster may be 0 for one that is about to join: see SetCluster.
	Self Identity
	// Advertise is where other nodes reach this one, host:port.
	Advertise string
	// Listener is the cluster's port, the transport's from New on.
	Listener net.Listener
	// Security keeps strangers out; nil: connections are plaintext. See Secure.
	Security *Security
	// Jitter gives numbers in [0, 1), by which pauses are spread; anyone may call it.
	Jitter func() float64
	// Now is the time of day.
	Now func() time.Time
	// Room is how many bytes this node has room for, which the others are told each second;
	// below zero, or nil: they are not. It is called by goroutines of the transport.
	Room func() int64
	// Log takes what the operator should know.
	Log *slog.Logger

	// Receive takes a message of another node. It is called by one goroutine for each
	// node, in the order in which that sent; while it waits, nothing more is read from
	// there. The message is the callee's. It must return once Close was called.
	Receive func(from uint64, message []byte)
	// Unreachable hears that messages to a node were lost, or may have been. It is
	// called by a goroutine of the transport, and must return once Close was called.
	Unreachable func(node uint64)
	// Admit says whether a node may come, once it has shown that it is of this cluster or
	// of none, which only one of kind Admin may be. The error is what the other side is
	// told. nil: all may come.
	Admit func(from Identity, kind Kind) error
	// Streams serve connections of the other kinds, each on a goroutine of its own. They
	// close what they are given, and must return once Close was called, also if they do not
	// use the stream then. A kind that is missing is refused.
	Streams map[Kind]func(*Stream)

	// Redirect says for some addresses where to connect instead, for tests.
	Redirect map[string]string
}

// A Transport connects this node with the others. Its methods may be called by anyone.
type Transport struct {
	o      Options
	log    *complaint.Log
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	work   sync.WaitGroup
	conns  conns
	lobby  lobby
	served map[Kind]chan struct{} // seats of streams that are served, for each kind
	within limits

	mu      sync.RWMutex // guards what follows
	self    Identity
	members []Member
	peers   map[uint64]*peer // the other members, and nodes that are none here and have come
	closed  bool
}

// limits are how long others may take.
type limits struct {
	greet  time.Duration // until a connection has shown who it is, also on a busy machine
	silent time.Duration // without a sign of the other end, until that is taken to be gone
	clock  time.Duration // from one to the next frame that tells the time
}

// streamsMax are served at a time of each kind, but for those of clients, whose number is
// bounded where clients are.
const streamsMax = 16

// relayMax are of kind Relay: each is held by an operator's request, some of which last as long
// as somebody looks at a page, or is kept for the next. Four servers find as many as each of
// them may open (relay.ConnectionsMax), so that none of them takes another's.
const relayMax = 144

// seats are how many streams of the kind are served at a time.
func (k Kind) seats() int {
	if k == Relay {
		return relayMax
	}
	return streamsMax
}

// Descriptors are how many a transport may need in a cluster of so many nodes, besides those
// of streams of kind Forward.
func Descriptors(nodes int) int {
	return 1 + lobbyMax + 2*(nodes+guestsMax) + streamsMax*int(kindEnd-1) + relayMax
}

// New makes a transport that listens already, but lets nobody in before Start.
func New(o Options) (*Transport, error) {
	if err := ValidName(o.Self.Name); err != nil {
		return nil, err
	}
	if o.Self.Node == 0 {
		return nil, errors.New("a server has no number")
	}
	t := &Transport{
		o: o, self: o.Self,
		log:    complaint.New(o.Log),
		peers:  make(map[uint64]*peer),
		conns:  conns{open: make(map[net.Conn]struct{})},
		served: make(map[Kind]chan struct{}),
		within: limits{greet: 3 * time.Second, silent: 10 * time.Second, clock: time.Second},
	}
	for kind := range o.Streams {
		if kind != Forward {
			t.served[kind] = make(chan struct{}, kind.seats())
		}
	}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t, nil
}

// Start lets others in.
func (t *Transport) Start() { t.work.Go(t.accept) }

// Addr is where the transport listens.
func (t *Transport) Addr() net.Addr { return t.o.Listener.Addr() }

// Self is who this node is.
func (t *Transport) Self() Identity {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.self
}

// SetCluster says to which cluster a node belongs that has joined it.
func (t *Transport) SetCluster(id uint64) {
	t.mu.Lock()
	t.self.Cluster = id
	t.mu.Unlock()
}

// SetMembers says who belongs to the cluster and where they listen; this node may be among
// them. Who is new is connected to, who has moved is connected to at the new address, and who
// is gone is let go, with what was to be sent to it. Who has come without being a member
// stays.
func (t *Transport) SetMembers(members []Member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.members = slices.Clone(members)
	known := make(map[uint64]bool)
	for _, m := range members {
		known[m.Node] = true
		if m.Node == t.self.Node {
			continue
		}
		if p := t.peers[m.Node]; p != nil {
			p.become(m)
			continue
		}
		t.addPeer(m, false)
	}
	for node, p := range t.peers {
		if !known[node] && !p.isGuest {
			p.remove()
			delete(t.peers, node)
		}
	}
}

// addPeer begins to connect to a node. t.mu is held.
func (t *Transport) addPeer(m Member, isGuest bool) *peer {
	p := newPeer(t, m, isGuest)
	t.peers[m.Node] = p
	t.work.Go(p.run)
	return p
}

// guestsMax nodes are answered that are no members here: this node may be the one that
// does not know yet.
const guestsMax = 16

// peerOf is the peer for a node that has connected. One that is no member here is answered
// where it says that it listens, as long as it stays: it may have become a member while this
// node was away, which only it can tell.
func (t *Transport) peerOf(from Identity, addr string) (*peer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, net.ErrClosed
	}
	if p := t.peers[from.Node]; p != nil {
		return p, nil
	}
	guests := 0
	for _, p := range t.peers {
		if p.isGuest {
			guests++
		}
	}
	if guests == guestsMax {
		return nil, fmt.Errorf("%d servers that do not belong to the cluster are here already", guestsMax)
	}
	return t.addPeer(Member{Node: from.Node, Name: from.Name, Addr: addr}, true), nil
}

// dismiss ends a guest that has gone.
func (t *Transport) dismiss(p *peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if node := p.node; p.isGuest && t.peers[node] == p {
		p.leave()
		delete(t.peers, node)
	}
}

// member is the one of a number; nil: there is none.
func (t *Transport) member(node uint64) *Member {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if i := slices.IndexFunc(t.members, func(m Member) bool { return m.Node == node }); i >= 0 {
		return &t.members[i]
	}
	return nil
}

// Send sends a message to a node, and does not wait. The message is the transport's from then
// on. false: it was dropped, because the node is unknown, or not connected, or reads too
// slowly.
func (t *Transport) Send(to uint64, message []byte) bool {
	t.mu.RLock()
	p := t.peers[to]
	t.mu.RUnlock()
	return p != nil && p.send(message)
}

// Close ends everything, and waits until no callback runs and no goroutine is left.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.end()
	t.conns.close()
	err := t.o.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	t.work.Wait()
	return err
}
