package forward

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/router/cluster/complaint"
)

// Options say how a Forwarder is made.
type Options struct {
	// Self is the number of this node.
	Self uint64
	// Open makes a stream to a node; an error of one that does not lead, or is not
	// there, is an error.
	Open func(ctx context.Context, node uint64) (Stream, error)
	// Take serves a client at this node, once it leads.
	Take Take
	// Wait is how long a client waits for a leader.
	Wait time.Duration
	// Max clients are handed on or wait at a time; others wait in the backlog.
	Max int
	// Log takes what the operator should know.
	Log *slog.Logger
}

// A Forwarder is a follower's side. Its methods may be called by anyone.
type Forwarder struct {
	o     Options
	log   *complaint.Log
	ctx   context.Context // ends with Close
	end   context.CancelFunc
	work  sync.WaitGroup
	seats chan struct{} // has an element for each client
	count counters
	gate  *gate

	mu        sync.Mutex
	leader    uint64        // 0: none is known
	changed   chan struct{} // closed when it changes
	given     *time.Timer   // ends what was handed on, when there is no leader for long; nil: there is one
	routes    map[*route]struct{}
	listeners map[net.Listener]struct{}
	released  chan struct{} // closed by Release
}

// A route is a client's connection that is handed on.
type route struct {
	client end
	stream Stream
	to     uint64
}

// cut ends a route.
func (r *route) cut() {
	r.stream.Abort()
	r.client.Close()
}

// counters are what was done since the start.
type counters struct {
	accepted, leaderless, cut atomic.Uint64
	waiting, open             atomic.Int64
	toLeader, toClient        atomic.Uint64
}

// Counts are what a Forwarder has done since the start, and does now.
type Counts struct {
	Accepted   uint64 // clients that came
	Leaderless uint64 // of them those that were closed since there was no leader in time
	Cut        uint64 // connections that were handed on and ended with their leader
	Waiting    int64  // clients that wait for a leader now
	Open       int64  // connections that are handed on now

	ToLeader, ToClients uint64 // bytes
}

// New makes one that knows of no leader.
func New(o Options) *Forwarder {
	f := &Forwarder{
		o: o, log: complaint.New(o.Log),
		seats:     make(chan struct{}, max(1, o.Max)),
		gate:      newGate(),
		changed:   make(chan struct{}),
		routes:    make(map[*route]struct{}),
		listeners: make(map[net.Listener]struct{}),
		released:  make(chan struct{}),
	}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

// Counts tells what it has done.
func (f *Forwarder) Counts() Counts {
	c := &f.count
	return Counts{
		Accepted: c.accepted.Load(), Leaderless: c.leaderless.Load(), Cut: c.cut.Load(),
		Waiting: c.waiting.Load(), Open: c.open.Load(),
		ToLeader: c.toLeader.Load(), ToClients: c.toClient.Load(),
	}
}

// SetLeader says which node leads, 0 for none. Connections that were handed on to another
// one end; with no leader at all they may go on as long as a client may wait for one, since
// it may be the same that is found again. If it is this node, which is to serve clients by
// then, those who wait are given to it.
func (f *Forwarder) SetLeader(node uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if node == f.leader || f.ctx.Err() != nil {
		return
	}
	f.leader = node
	close(f.changed)
	f.changed = make(chan struct{})
	f.gate.reset()
	if f.given != nil {
		f.given.Stop()
		f.given = nil
	}
	if node == 0 {
		f.given = time.AfterFunc(f.o.Wait, func() { f.cut(0) })
		return
	}
	f.cutLocked(node)
}

// cut is cutLocked, unless a leader was found meanwhile.
func (f *Forwarder) cut(leader uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leader == leader {
		f.cutLocked(leader)
	}
}

// cutLocked ends what was handed on to others than the leader.
func (f *Forwarder) cutLocked(leader uint64) {
	n := 0
	for r := range f.routes {
		if r.to != leader {
			n++
			go r.cut() // with TLS an end may wait
			delete(f.routes, r)
		}
	}
	if n > 0 {
		f.count.cut.Add(uint64(n))
		f.log.Info("clients' connections that were handed on have ended with their leader", "connections", n)
	}
}

// leading is which node leads, and what is closed when that changes.
func (f *Forwarder) leading() (node uint64, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, f.changed
}

// begin notes a route; false: its leader leads no more.
func (f *Forwarder) begin(r *route) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leader != r.to || f.ctx.Err() != nil {
		return false
	}
	f.routes[r] = struct{}{}
	return true
}

func (f *Forwarder) over(r *route) {
	f.mu.Lock()
	delete(f.routes, r)
	f.mu.Unlock()
}

// Close ends everything, listeners excepted, and waits until it has ended.
func (f *Forwarder) Close() {
	f.Release()
	f.end()
	f.mu.Lock()
	if f.given != nil {
		f.given.Stop()
	}
	for r := range f.routes {
		go r.cut()
	}
	f.mu.Unlock()
	f.work.Wait()
}

// errLeaderless is said of a client for which there was no leader in time.
var errLeaderless = errors.New("no server leads")

// serve sees to one client, until it has gone.
func (f *Forwarder) serve(c end, protocol string) {
	f.count.accepted.Add(1)
	f.count.waiting.Add(1)
	r, err := f.find(c, protocol)
	f.count.waiting.Add(-1)
	switch {
	case err != nil:
		if f.ctx.Err() == nil {
			f.count.leaderless.Add(1)
			f.log.Warn("closed a client's connection: there was no leader to hand it on to", "waited", f.o.Wait, "err", err)
		}
		c.Close()
	case r != nil:
		f.count.open.Add(1)
		join(c, r.stream, &f.count.toLeader, &f.count.toClient)
		f.count.open.Add(-1)
		f.over(r)
	}
}

// find waits for a leader that takes the client. A nil route without an error: it was this
// node.
func (f *Forwarder) find(c end, protocol string) (*route, error) {
	ctx, cancel := context.WithTimeout(f.ctx, f.o.Wait)
	defer cancel()
	failed := errLeaderless
	for ctx.Err() == nil {
		leader, changed := f.leading()
		switch leader {
		case f.o.Self:
			return nil, f.o.Take(c, protocol, nil)
		case 0:
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		if !f.gate.pass(ctx, changed) {
			continue
		}
		r, err := f.open(ctx, leader, c, protocol)
		f.gate.done(err == nil)
		if err == nil {
			return r, nil
		}
		failed = err
	}
	return nil, failed
}

// open hands a client on to a leader.
func (f *Forwarder) open(ctx context.Context, leader uint64, c end, protocol string) (*route, error) {
	s, err := f.o.Open(ctx, leader)
	if err != nil {
		return nil, err
	}
	h := header{protocol: protocol, client: c.RemoteAddr()}
	s.SetWriteDeadline(time.Now().Add(headerWithin))
	if _, err := s.Write(h.append(nil)); err != nil {
		s.Abort()
		return nil, err
	}
	s.SetWriteDeadline(time.Time{})
	r := &route{client: c, stream: s, to: leader}
	if !f.begin(r) {
		s.Abort()
		return nil, errLeaderless
	}
	return r, nil
}
