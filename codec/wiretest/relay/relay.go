package relay

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Direction is one of the two in which bytes go.
type Direction int

// Out is from who connects to the target, Back is what the target answers.
const (
	Out Direction = iota
	Back
	directions
)

func (d Direction) String() string { return [...]string{"out", "back"}[d] }

// A Relay hands on the bytes of all connections that are made to it. Its methods may be
// called by anyone.
type Relay struct {
	listener net.Listener
	ways     [directions]*way
	refuse   atomic.Bool

	mu     sync.Mutex
	target string
	links  map[*link]struct{}
	closed bool
	work   sync.WaitGroup
}

// Listen makes a relay from an address, as in "127.0.0.1:0", to a target, which need not
// listen yet. Both are of TCP.
func Listen(addr, target string) (*Relay, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: l, target: target, links: make(map[*link]struct{})}
	for d := range r.ways {
		r.ways[d] = newWay()
	}
	r.work.Go(r.accept)
	return r, nil
}

// Addr is where the relay listens.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// SetTarget changes to where connections are made from now on.
func (r *Relay) SetTarget(addr string) {
	r.mu.Lock()
	r.target = addr
	r.mu.Unlock()
}

// each calls f for the directions of a list; for both if it is empty.
func (r *Relay) each(list []Direction, f func(*way)) {
	if len(list) == 0 {
		list = []Direction{Out, Back}
	}
	for _, d := range list {
		f(r.ways[d])
	}
}

// Hold keeps back what goes in the directions, both if none is given: a few megabytes a
// connection, behind which who sends is not read.
func (r *Relay) Hold(d ...Direction) { r.each(d, func(w *way) { w.set(func() { w.held = true }) }) }

// Pass ends Hold: what was kept back is handed on.
func (r *Relay) Pass(d ...Direction) { r.each(d, func(w *way) { w.set(func() { w.held = false }) }) }

// Delay has everything in the directions, both if none is given, arrive so much later.
func (r *Relay) Delay(by time.Duration, d ...Direction) {
	r.each(d, func(w *way) { w.set(func() { w.delay = by }) })
}

// Reset ends all connections by a reset at both ends, and says how many there were.
func (r *Relay) Reset() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.reset()
	}
	return len(r.links)
}

// Refuse has new connections be reset at once, or no more. The open ones go on.
func (r *Relay) Refuse(on bool) { r.refuse.Store(on) }

// Heal ends Hold, Delay and Refuse.
func (r *Relay) Heal() {
	r.Refuse(false)
	r.Delay(0)
	r.Pass()
}

// Flap holds both directions for the time down, and lets them pass for the time up, in
// turns, until ctx ends: then they pass.
func (r *Relay) Flap(ctx context.Context, up, down time.Duration) {
	defer r.Pass()
	for {
		for _, phase := range []struct {
			begin func(...Direction)
			lasts time.Duration
		}{{r.Hold, down}, {r.Pass, up}} {
			phase.begin()
			select {
			case <-ctx.Done():
				return
			case <-time.After(phase.lasts):
			}
		}
	}
}

// Connections is how many there are.
func (r *Relay) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.links)
}

// Bytes is how many were handed on in a direction.
func (r *Relay) Bytes(d Direction) int64 { return r.ways[d].bytes.Load() }

// Close ends the relay and all connections, and waits for what it has started.
func (r *Relay) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	err := r.listener.Close()
	r.Reset()
	r.work.Wait()
	return err
}

// accept makes a link of every connection.
func (r *Relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			r.mu.Lock()
			closed := r.closed
			r.mu.Unlock()
			if closed {
				return
			}
			time.Sleep(time.Millisecond) // descriptors have run out, or the client has gone already
			continue
		}
		l := newLink(r, c.(*net.TCPConn))
		r.mu.Lock()
		if r.closed || r.refuse.Load() {
			l.reset()
		} else {
			r.links[l] = struct{}{}
			r.work.Go(l.run)
		}
		r.mu.Unlock()
	}
}
