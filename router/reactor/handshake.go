package reactor

import (
	"container/list"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/router/session"
)

// A client's first message costs the server half a millisecond, and its sender nothing. So the
// computations of handshakes have few slots, and a slot cools down after each one. Handshakes that
// wait for a slot take turns by address: a flood from one address delays only that address.

const (
	// handshakeTime bounds a handshake, including the time that it waits.
	handshakeTime = 5 * time.Second
	// handshakeBytes bounds what a client may send in a handshake. Package tls would accept four
	// times as much of certificates.
	handshakeBytes = 96 << 10
	// pendingMax and pendingEach bound the handshakes in progress, of all clients and of one address.
	// A new one of the first ends the oldest, so silent clients cannot keep others out.
	pendingMax  = 1024
	pendingEach = 64
	// loopsPerSlot is the number of loops for each slot.
	loopsPerSlot = 4
	// A slot cools down for coolTimes the time of a computation, at most for coolMax: a longer time
	// says that the computation was interrupted. So handshakes use a quarter of a processor.
	coolTimes = 3
	coolMax   = 50 * time.Millisecond
	// crowdTime is how long no handshake has waited for a slot when addProcs is undone.
	crowdTime = 10 * time.Second
)

// slotsFor returns how many handshakes compute at the same time, beside that many loops.
func slotsFor(loops int) int { return (loops + loopsPerSlot - 1) / loopsPerSlot }

// handshakes are the handshakes in progress.
type handshakes struct {
	host *session.Host
	most int // in progress
	ctx  context.Context
	stop context.CancelFunc // ends all, and refuses later ones

	mu    sync.Mutex // guards what follows
	free  int        // slots
	open  *list.List // of *handshake in progress, the oldest first
	peers map[netip.Addr]*handshakePeer
	ring  []*handshakePeer // peers with waiting handshakes, in the order of their turns

	procs  int       // processors to add while handshakes wait
	added  bool      // they are added
	waited time.Time // when a handshake last began to wait
}

// A handshakePeer is one address, or the /64 network of an IPv6 address.
type handshakePeer struct {
	open    int
	waiting []*handshake // for a slot
}

// A handshake is one in progress.
type handshake struct {
	in       *handshakes
	peer     netip.Addr
	nc       net.Conn
	ctx      context.Context    // ends when the handshake must end
	end      context.CancelFunc // ends ctx
	keep     func() bool        // stops the reaction to the end of ctx
	began    time.Time
	received int
	since    time.Time     // when it got its slot; zero: it has none
	computed bool          // it had a slot before
	slot     chan struct{} // receives when a waiting handshake gets a slot
	over     atomic.Bool
	place    *list.Element // in handshakes.open
}

// isOpen reports whether the handshake is in progress. h may be nil.
func (h *handshake) isOpen() bool { return h != nil && !h.over.Load() }

// errLarge is the error of a client that sends too much.
var errLarge = errors.New("the client sends more than 96 KiB in a handshake")

func newHandshakes(h *session.Host, loops, descriptors int) *handshakes {
	hs := &handshakes{host: h, free: slotsFor(loops), most: max(1, min(pendingMax, descriptors/8)), open: list.New(), peers: make(map[netip.Addr]*handshakePeer)}
	hs.ctx, hs.stop = context.WithCancel(context.Background())
	return hs
}

// handshakeAddr returns the address by which handshakes take turns.
func handshakeAddr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if ip.Is6() {
		p, _ := ip.WithZone("").Prefix(64)
		return p.Addr()
	}
	return ip
}

// begin begins a handshake; nil: the address has too many.
func (hs *handshakes) begin(nc net.Conn) *handshake {
	h := &handshake{in: hs, nc: nc, peer: handshakeAddr(nc.RemoteAddr()), began: time.Now(), slot: make(chan struct{}, 1)}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	p := hs.peers[h.peer]
	if hs.ctx.Err() != nil || p != nil && p.open >= pendingEach {
		return nil
	}
	if hs.open.Len() >= hs.most {
		oldest := hs.open.Front()
		hs.open.Remove(oldest)
		oldest.Value.(*handshake).end()
	}
	if p == nil {
		p = new(handshakePeer)
		hs.peers[h.peer] = p
	}
	p.open++
	h.place = hs.open.PushBack(h)
	hs.host.Handshakes.Pending.Add(1)
	h.ctx, h.end = context.WithTimeout(hs.ctx, handshakeTime)
	h.keep = context.AfterFunc(h.ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	return h
}

// finish removes a handshake. It returns false if the handshake was ended.
func (h *handshake) finish() bool {
	h.release()
	h.over.Store(true)
	inTime := h.keep()
	h.end()
	hs := h.in
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.open.Remove(h.place) // nothing, if a new one has ended it
	if p := hs.peers[h.peer]; p.open == 1 {
		delete(hs.peers, h.peer)
	} else {
		p.open--
	}
	hs.host.Handshakes.Pending.Add(-1)
	return inTime
}

// read reads for package tls, without a slot while it waits for the client.
func (h *handshake) read(p []byte) (int, error) {
	h.release()
	n, err := h.nc.Read(p)
	if h.received += n; h.received > handshakeBytes {
		return 0, errLarge
	}
	if n > 0 && !h.acquire() {
		return 0, os.ErrDeadlineExceeded
	}
	return n, err
}

// acquire waits for a slot. It returns false if the handshake must end.
func (h *handshake) acquire() bool {
	hs := h.in
	hs.mu.Lock()
	p := hs.peers[h.peer]
	if hs.free > 0 {
		hs.free--
		hs.mu.Unlock()
		h.since = time.Now()
		return true
	}
	at := len(p.waiting)
	if h.computed {
		at = 0 // what was computed is lost if it ends
	}
	if p.waiting = slices.Insert(p.waiting, at, h); len(p.waiting) == 1 {
		hs.ring = append(hs.ring, p)
	}
	hs.addProcs()
	hs.mu.Unlock()
	select {
	case <-h.slot:
		h.since = time.Now()
		return true
	case <-h.ctx.Done():
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if i := slices.Index(p.waiting, h); i >= 0 {
		if p.waiting = slices.Delete(p.waiting, i, i+1); len(p.waiting) == 0 {
			at := slices.Index(hs.ring, p)
			hs.ring = slices.Delete(hs.ring, at, at+1)
		}
	} else { // it has just got a slot
		hs.next()
	}
	return false
}

// addProcs gives the process more processors while handshakes wait, so that they do not keep the loops
// from theirs: beside a flood, other clients' median latency was 2 to 7 ms instead of 500. It is not
// done all the time, because an idle processor costs each command a seventh. hs.mu is held.
func (hs *handshakes) addProcs() {
	hs.waited = time.Now()
	if hs.procs > 0 && !hs.added {
		hs.added = true
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + hs.procs)
		time.AfterFunc(crowdTime, hs.removeProcs)
	}
}

// removeProcs undoes addProcs, once no handshake has waited for crowdTime.
func (hs *handshakes) removeProcs() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if rest := time.Until(hs.waited.Add(crowdTime)); rest > 0 {
		time.AfterFunc(rest, hs.removeProcs)
		return
	}
	hs.added = false
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - hs.procs)
}

// next gives a slot to the next address. hs.mu is held.
func (hs *handshakes) next() {
	if len(hs.ring) == 0 {
		hs.free++
		return
	}
	p := hs.ring[0]
	hs.ring = hs.ring[1:]
	h := p.waiting[0]
	if p.waiting = p.waiting[1:]; len(p.waiting) > 0 {
		hs.ring = append(hs.ring, p)
	}
	h.slot <- struct{}{}
}

// release ends a computation: the slot cools down. It does nothing without a slot.
func (h *handshake) release() {
	if h.since.IsZero() {
		return
	}
	took := time.Since(h.since)
	h.since, h.computed = time.Time{}, true
	time.AfterFunc(min(coolTimes*took, coolMax), func() {
		h.in.mu.Lock()
		defer h.in.mu.Unlock()
		h.in.next()
	})
}

// A secureListener accepts connections with TLS.
type secureListener struct {
	netListener
	r       *Reactor
	config  func() *tls.Config
	revoked func([]*x509.Certificate) bool
}

// netListener is a *net.TCPListener or a *net.UnixListener.
type netListener interface {
	net.Listener
	SetDeadline(time.Time) error
}

// Secure returns a listener for Serve. Its clients use TLS, with the result of config at the time
// they connect. revoked, which may be nil, reports whether one of the certificates that a client has
// shown is revoked: see session.Host.Reauthorize. l is a *net.TCPListener, a *net.UnixListener, or a
// result of Balanced.
//
// Other packages may accept from it as well, for example to forward the clients to another server.
// Accept does not wait for a handshake; the caller must call Handshake of the connection.
func (r *Reactor) Secure(l net.Listener, config func() *tls.Config, revoked func([]*x509.Certificate) bool) net.Listener {
	return &secureListener{l.(netListener), r, config, revoked}
}

// Accept implements net.Listener. It closes clients with which no handshake can begin now.
func (l *secureListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.netListener.Accept()
		if err != nil {
			return nil, err
		}
		h := l.r.handshakes.begin(nc)
		if h == nil {
			l.r.host.Handshakes.Count(session.HandshakeRefused, 0)
			l.r.host.Complain("refused a TLS connection: too many handshakes with its address are in progress", "conn", session.Remote{Addr: nc.RemoteAddr()})
			nc.Close()
			continue
		}
		s := &secure{link: link{Conn: nc, handshake: h}, revoked: l.revoked}
		s.Conn = tls.Server(&s.link, l.config())
		return s, nil
	}
}

// Handshake performs the handshake, counts it and logs an error. The caller must close s after an
// error. It is called once.
func (s *secure) Handshake() error {
	h := s.link.handshake
	err := s.Conn.Handshake()
	if !h.finish() {
		err = errors.Join(os.ErrDeadlineExceeded, err)
	}
	took := time.Since(h.began)
	host := h.in.host
	state := s.ConnectionState()
	if err == nil && host.Access != nil && len(state.PeerCertificates) > 0 {
		s.certified, err = host.Access.Certificate(state.PeerCertificates[0])
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		host.Handshakes.Count(session.HandshakeTimeout, took)
	case err != nil:
		host.Handshakes.Count(session.HandshakeFailed, took)
	case state.DidResume:
		host.Handshakes.Count(session.HandshakeResumed, took)
	default:
		host.Handshakes.Count(session.HandshakeFull, took)
	}
	if err != nil && (h.received > 0 || errors.Is(err, os.ErrDeadlineExceeded)) { // a probe connects and sends nothing
		host.Complain("a TLS handshake has failed", "conn", session.Remote{Addr: s.RemoteAddr()}, "err", cut(err.Error()))
	}
	return err
}

// logMax bounds a text in the log that contains bytes of a client, such as a certificate's names.
const logMax = 200

func cut(s string) string { return s[:min(len(s), logMax)] }

// detach returns the connection below s, which a loop feeds from now on.
func (s *secure) detach() net.Conn {
	nc := s.link.Conn
	s.link.Conn, s.link.handshake = nil, nil
	return nc
}

// admitSecure serves a new client of a secureListener after its handshake.
func (r *Reactor) admitSecure(nc net.Conn, f session.Front) {
	s := nc.(*secure)
	if limit := r.limit.Load(); limit.asked && r.seats.taken.Load() >= int64(limit.n) {
		r.reject(s.RemoteAddr())
		s.link.handshake.finish()
		s.link.Close()
		return
	}
	go func() {
		if s.Handshake() != nil {
			s.link.Close()
			return
		}
		r.Take(s, f, nil)
	}()
}
