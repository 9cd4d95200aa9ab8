package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

// Options configures a Transport. Goroutines of the transport call its functions, which must return
// after Close.
type Options struct {
	// Self is this server. Its cluster may be 0 before it joins: see SetCluster.
	Self Identity
	// Advertise is the address at which others reach this server, host:port.
	Advertise string
	// Listener is the cluster's port. New takes it over.
	Listener net.Listener
	// Security checks certificates; nil: connections are plaintext. See Secure.
	Security *Security
	// ServeTLS makes the accepting end of TLS, which has the methods of a *tls.Conn, so that Detach
	// returns a connection that an event loop can serve; nil: it is tls.Server.
	ServeTLS func(raw net.Conn, config *tls.Config) net.Conn
	// Now is the time of day.
	Now func() time.Time
	// Room returns the free bytes on this server's disk, which it sends to the others every second;
	// nil or a negative result: it does not.
	Room func() int64
	// Log receives messages for operators.
	Log *slog.Logger

	// Receive takes ownership of a message of another server. One goroutine per server calls it, in
	// the order of sending. While it blocks, nothing more is read from that server.
	Receive func(from uint64, message []byte)
	// Unreachable is called when messages to a server may be lost.
	Unreachable func(node uint64)
	// Admit refuses a server with an error, which is sent to that server. Its greeting is valid;
	// only connections of kind Admin can be from a server without a cluster. nil: all are admitted.
	Admit func(from Identity, kind Kind) error
	// Bootstrap serves connections of kind Admin before this server belongs to a cluster.
	Bootstrap bool
	// Streams serve connections of the other kinds, each on its own goroutine, and close them. A
	// kind without a function is refused.
	Streams map[Kind]func(*Stream)

	// Redirect replaces addresses before dialing, for tests.
	Redirect map[string]string
}

// A Transport connects this server with the others. Its methods are safe for concurrent use.
type Transport struct {
	o      Options
	log    *slog.Logger    // limited
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	work   sync.WaitGroup
	lobby  lobby
	seats  map[Kind]chan struct{} // one element for each stream being served
	within limits

	mu      sync.RWMutex // guards the fields below
	self    Identity
	members []Member
	peers   map[uint64]*peer // the other members, and guests
}

// limits are timeouts, which tests shorten.
type limits struct {
	greet  time.Duration // of a greeting, also on a busy machine
	silent time.Duration // without a sign of the other end
	clock  time.Duration // between two clock frames
}

const (
	// streamsMax bounds the streams of each kind except Relay, and Forward, which the clients bound.
	streamsMax = 16
	// relayMax bounds streams of kind Relay. An operator's request holds one as long as its page is
	// open. It is enough for four followers (forward.RelayMax each).
	relayMax = 144
	// guestsMax bounds the connected servers that this server does not know as members. They may be
	// members that it has not heard of yet.
	guestsMax = 16
)

// Descriptors returns the file descriptors for a cluster of nodes servers, without Forward streams.
func Descriptors(nodes int) int {
	return 1 + lobbyMax + 2*(nodes+guestsMax) + streamsMax*int(kindEnd-1) + relayMax
}

// New returns a transport that listens, and accepts no connections before Start.
func New(o Options) (*Transport, error) {
	if err := ValidName(o.Self.Name); err != nil {
		return nil, err
	}
	if o.Self.Node == 0 {
		return nil, errors.New("a server has no number")
	}
	t := &Transport{
		o: o, self: o.Self,
		log:    LimitLog(o.Log),
		peers:  make(map[uint64]*peer),
		seats:  make(map[Kind]chan struct{}),
		within: limits{greet: 3 * time.Second, silent: 10 * time.Second, clock: time.Second},
	}
	for kind := range o.Streams {
		switch kind {
		case Forward:
		case Relay:
			t.seats[kind] = make(chan struct{}, relayMax)
		default:
			t.seats[kind] = make(chan struct{}, streamsMax)
		}
	}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t, nil
}

// Start accepts connections.
func (t *Transport) Start() { t.work.Go(t.accept) }

// Addr returns the address of the listener.
func (t *Transport) Addr() net.Addr { return t.o.Listener.Addr() }

// Self returns the identity of this server.
func (t *Transport) Self() Identity {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.self
}

// SetCluster sets the cluster of a server that has joined.
func (t *Transport) SetCluster(id uint64) {
	t.mu.Lock()
	t.self.Cluster = id
	t.mu.Unlock()
}

// SetMembers sets the members of the cluster, which may include this server. The transport connects
// to new addresses, and drops removed members with their queued messages. Guests stay.
func (t *Transport) SetMembers(members []Member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return
	}
	t.members = slices.Clone(members)
	for node, p := range t.peers {
		if at := slices.IndexFunc(members, func(m Member) bool { return m.Node == node }); at >= 0 {
			p.isGuest = false
			if p.member == members[at] {
				continue
			}
		}
		if !p.isGuest {
			p.remove()
			delete(t.peers, node)
		}
	}
	for _, m := range members {
		if m.Node != t.self.Node && t.peers[m.Node] == nil {
			t.addPeer(m, false)
		}
	}
}

// addPeer begins to connect to a server. t.mu is held.
func (t *Transport) addPeer(m Member, isGuest bool) *peer {
	p := &peer{
		t: t, isGuest: isGuest, member: m, log: LimitLog(t.o.Log),
		queue: make(chan []byte, queueMessages), again: make(chan struct{}, 1),
	}
	p.ctx, p.leave = context.WithCancel(t.ctx)
	t.peers[m.Node] = p
	t.work.Go(p.run)
	return p
}

// peerOf returns the peer of a server that has connected. A server that is not known as a member
// becomes a guest. This server connects to it: only its messages can show that it is a member.
func (t *Transport) peerOf(from Identity, addr string) (*peer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
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
		return nil, fmt.Errorf("%d servers that do not belong to the cluster are connected already", guestsMax)
	}
	return t.addPeer(Member{Node: from.Node, Name: from.Name, Addr: addr}, true), nil
}

// dismiss removes a guest that has disconnected.
func (t *Transport) dismiss(p *peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.isGuest && t.peers[p.member.Node] == p {
		p.leave()
		delete(t.peers, p.member.Node)
	}
}

// member returns a member by number, or nil.
func (t *Transport) member(node uint64) *Member {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if i := slices.IndexFunc(t.members, func(m Member) bool { return m.Node == node }); i >= 0 {
		return &t.members[i]
	}
	return nil
}

// Send sends a message and does not block. It takes ownership of the message. It reports false if it
// dropped the message: the server is unknown, not connected, or reads too slowly.
func (t *Transport) Send(to uint64, message []byte) bool {
	t.mu.RLock()
	p := t.peers[to]
	t.mu.RUnlock()
	return p != nil && p.send(message)
}

// Close closes everything, and waits for all callbacks and goroutines.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.end()
	t.mu.Unlock()
	err := t.o.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	t.work.Wait()
	return err
}

// A PeerStatus describes the connections with another server. Counters begin when this server
// starts, or hears of the other and its address.
type PeerStatus struct {
	Member
	ConnectedTo bool   // this server can send to it
	Trouble     string // why this server is not connected to it; empty: it is, or tries for the first time

	SentBytes, ReceivedBytes uint64
	Dropped                  uint64 // messages that were not sent

	// ClockAhead is how far its clock is ahead of this server's, minus the time of transmission.
	// ClockSamples counts the clock frames on this connection.
	ClockAhead   time.Duration
	ClockSamples int

	// CertificateUntil is the end of the certificate that it showed last; zero: none.
	CertificateUntil time.Time

	// Room is the number of free bytes on its disk that it reported last; nil: it never did.
	Room *int64
}

// Status returns the status of all other servers, sorted by name.
func (t *Transport) Status() []PeerStatus {
	t.mu.RLock()
	list := make([]PeerStatus, 0, len(t.peers))
	for _, p := range t.peers {
		list = append(list, p.status())
	}
	t.mu.RUnlock()
	slices.SortFunc(list, func(a, b PeerStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	return list
}
