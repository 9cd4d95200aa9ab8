package forward

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/router/cluster/transport"
)

// Options configures a Forwarder.
type Options struct {
	// Self is the number of this server.
	Self uint64
	// Open opens a stream to a server. It fails if that server does not lead.
	Open func(ctx context.Context, node uint64) (*transport.Stream, error)
	// Take serves a client at this server, once it leads.
	Take Take
	// Describe describes a client after its handshake. ok is false if it may not be connected any more.
	Describe func(net.Conn) (about Client, ok bool)
	// Wait is how long a client waits for a leader.
	Wait time.Duration
	// Max bounds the clients that are forwarded or wait; others stay in the backlog.
	Max int
	// Log receives messages for operators. It must limit repeated lines.
	Log *slog.Logger
}

// A Forwarder is the follower's side. Its methods are safe for concurrent use.
type Forwarder struct {
	o     Options
	ctx   context.Context // ends with Close
	end   context.CancelFunc
	work  sync.WaitGroup
	seats chan struct{} // one element for each client

	accepted atomic.Uint64 // clients

	mu        sync.Mutex
	leader    *target
	routes    map[*route]struct{}
	listeners map[net.Listener]struct{}
	released  context.Context // ends with Release
	release   context.CancelFunc
}

// A target is one leader, until another server leads.
type target struct {
	node     uint64 // 0: none is known
	ctx      context.Context
	end      context.CancelFunc
	attempts chan struct{} // one element for each attempt to reach it
}

const (
	// attemptsMax bounds the concurrent attempts to reach the leader: clients that have waited for
	// an election must not keep other servers from its port.
	attemptsMax = 8
	// attemptPause is the pause before a failed attempt makes room for another.
	attemptPause = 50 * time.Millisecond
)

func newTarget(ctx context.Context, node uint64) *target {
	l := &target{node: node, attempts: make(chan struct{}, attemptsMax)}
	l.ctx, l.end = context.WithCancel(ctx)
	return l
}

// A route is a forwarded client connection.
type route struct {
	client   conn
	identity string // see Client
	stream   *transport.Stream
	to       uint64
}

// cut ends a route.
func (r *route) cut() {
	r.stream.Abort()
	r.client.Close()
}

// New returns a Forwarder without a leader.
func New(o Options) *Forwarder {
	f := &Forwarder{
		o: o, seats: make(chan struct{}, max(1, o.Max)),
		routes:    make(map[*route]struct{}),
		listeners: make(map[net.Listener]struct{}),
	}
	f.ctx, f.end = context.WithCancel(context.Background())
	f.released, f.release = context.WithCancel(f.ctx)
	f.leader = newTarget(f.ctx, 0)
	return f
}

// Accepted returns the number of clients so far.
func (f *Forwarder) Accepted() uint64 { return f.accepted.Load() }

// SetLeader sets the leader; 0: there is none. Connections to other servers end. Without a leader
// they may last for Options.Wait: the same server may be elected again. If this server leads, it
// already serves, and gets the waiting clients.
func (f *Forwarder) SetLeader(node uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if node == f.leader.node || f.ctx.Err() != nil {
		return
	}
	f.leader.end()
	l := newTarget(f.ctx, node)
	f.leader = l
	if node != 0 {
		f.cutOthers()
		return
	}
	time.AfterFunc(f.o.Wait, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.leader == l {
			f.cutOthers()
		}
	})
}

// cutOthers ends the routes to servers other than the leader. f.mu is held.
func (f *Forwarder) cutOthers() {
	n := 0
	for r := range f.routes {
		if r.to != f.leader.node {
			n++
			go r.cut() // may block with TLS
			delete(f.routes, r)
		}
	}
	if n > 0 {
		f.o.Log.Info("forwarded client connections have ended: their leader no longer leads", "connections", n)
	}
}

// Close ends everything except listeners, and waits for it.
func (f *Forwarder) Close() {
	f.Release()
	f.end()
	f.mu.Lock()
	for r := range f.routes {
		go r.cut()
	}
	f.mu.Unlock()
	f.work.Wait()
}

// errLeaderless is the error of a client for which no leader was found in time.
var errLeaderless = errors.New("no server leads")

// serve serves one client until it is gone.
func (f *Forwarder) serve(c conn, protocol string) {
	f.accepted.Add(1)
	if !f.secure(c) {
		return
	}
	r, err := f.find(c, protocol)
	switch {
	case err != nil:
		if f.ctx.Err() == nil {
			f.o.Log.Warn("closed a client's connection: there was no leader to forward it to", "waited", f.o.Wait, "err", err)
		}
		c.Close()
	case r != nil:
		splice(c, r.stream)
		f.mu.Lock()
		delete(f.routes, r)
		f.mu.Unlock()
	}
}

// secure performs the handshake of a client with TLS, which ends at this server. It closes c if that
// fails, and returns false; the listener has logged the reason.
func (f *Forwarder) secure(c conn) bool {
	h, ok := c.(interface{ Handshake() error })
	if !ok {
		return true
	}
	defer context.AfterFunc(f.ctx, func() { c.Close() })()
	if h.Handshake() == nil {
		return true
	}
	c.Close()
	return false
}

// find waits for a leader that takes the client. Without a route or an error, this server took it.
func (f *Forwarder) find(c conn, protocol string) (*route, error) {
	ctx, cancel := context.WithTimeout(f.ctx, f.o.Wait)
	defer cancel()
	failed := errLeaderless
	for ctx.Err() == nil {
		f.mu.Lock()
		l := f.leader
		f.mu.Unlock()
		attempts := l.attempts
		switch l.node {
		case f.o.Self:
			return nil, f.o.Take(c, protocol, nil)
		case 0:
			attempts = nil
		}
		select {
		case attempts <- struct{}{}:
			r, err := f.attempt(ctx, l, c, protocol)
			if err == nil {
				return r, nil
			}
			if l.ctx.Err() == nil { // otherwise the attempt was canceled
				failed = err
			}
		case <-l.ctx.Done():
		case <-ctx.Done():
		}
	}
	return nil, failed
}

// attempt tries to open the route of a client to a leader, while that server leads.
func (f *Forwarder) attempt(ctx context.Context, l *target, c conn, protocol string) (*route, error) {
	defer func() { <-l.attempts }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	r, err := f.connect(ctx, l.node, c, protocol)
	if err != nil {
		select {
		case <-time.After(attemptPause):
		case <-ctx.Done():
		}
	}
	return r, err
}

// connect opens the route of a client.
func (f *Forwarder) connect(ctx context.Context, leader uint64, c conn, protocol string) (*route, error) {
	s, err := f.o.Open(ctx, leader)
	if err != nil {
		return nil, err
	}
	about, _ := f.o.Describe(c)
	h := header{protocol, about}
	s.SetWriteDeadline(time.Now().Add(headerTimeout))
	if _, err := s.Write(h.append(nil)); err != nil {
		s.Abort()
		return nil, err
	}
	s.SetWriteDeadline(time.Time{})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leader.node != leader || f.ctx.Err() != nil {
		s.Abort()
		return nil, errLeaderless
	}
	r := &route{client: c, identity: about.Identity, stream: s, to: leader}
	if !f.isCurrent(r) { // Reidentify has missed it
		s.Abort()
		return nil, errReidentified
	}
	f.routes[r] = struct{}{}
	return r, nil
}

// errReidentified is the error of an attempt during which the client's identity has changed.
var errReidentified = errors.New("the access file has changed meanwhile")

// isCurrent reports whether the client still has the identity that the leader was told.
func (f *Forwarder) isCurrent(r *route) bool {
	about, ok := f.o.Describe(r.client)
	return ok && about.Identity == r.identity
}

// Reidentify ends the connections of clients that have another identity after a change of the access
// file, or a revoked certificate, and returns their number. The leader would keep the earlier identity.
// It trusts this server with that.
func (f *Forwarder) Reidentify() (ended int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.routes {
		if !f.isCurrent(r) {
			ended++
			go r.cut() // may block with TLS
			delete(f.routes, r)
		}
	}
	return ended
}
