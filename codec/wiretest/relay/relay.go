// Package relay is a TCP relay that cuts connections in one direction without losing bytes: held
// bytes arrive later, or never if the connection is reset.
//
// toxiproxy cannot replace it: it drops the bytes of a stopped stream, which no network does to TCP,
// and closes both directions when one is closed. It also imports a metrics server, a router and a
// logger.
//
// While the direction Out is held, new connections are accepted, since the kernel accepts them, but
// not made to the target. A client only notices that no answer comes, as on a network that loses
// packets.
package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// A direction is one direction of a connection.
type direction int

// Out is from the client to the target, Back from the target to the client.
const (
	Out direction = iota
	Back
)

// A Relay forwards the bytes of all connections that are made to it. Any goroutine may use it.
type Relay struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu      sync.Mutex
	held    [2]bool
	changed chan struct{} // closed by the next change of held
	links   map[*link]bool
	closed  bool
}

// A link is a connection to the relay, and the one to the target once it is made.
type link struct {
	ctx  context.Context // ends with the link
	end  context.CancelFunc
	ends []*net.TCPConn
}

// Listen makes a relay from an address, as in "127.0.0.1:0", to a target, which need not
// listen yet. Both are TCP addresses.
func Listen(addr, target string) (*Relay, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: l, target: target, changed: make(chan struct{}), links: make(map[*link]bool)}
	r.work.Go(r.accept)
	return r, nil
}

// Addr returns the address at which the relay listens.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Hold holds back the bytes of some directions, or of both if none is given. Once the buffers of the
// relay and the kernel are full, the sender cannot send.
func (r *Relay) Hold(list ...direction) {
	r.set(func() {
		for _, d := range list {
			r.held[d] = true
		}
		if len(list) == 0 {
			r.held = [2]bool{true, true}
		}
	})
}

// Pass ends Hold in both directions: what was held back is forwarded.
func (r *Relay) Pass() {
	r.set(func() { r.held = [2]bool{} })
}

func (r *Relay) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until a direction is not held. It reports false if the link ends before.
func (r *Relay) await(d direction, l *link) bool {
	for {
		r.mu.Lock()
		held, changed := r.held[d], r.changed
		r.mu.Unlock()
		if !held {
			return l.ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
			return false
		}
	}
}

// Reset ends all connections by a reset at both ends.
func (r *Relay) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		r.close(l, true)
	}
}

// close ends a link. The caller holds the lock.
func (r *Relay) close(l *link, reset bool) {
	l.end()
	for _, c := range l.ends {
		if reset {
			c.SetLinger(0)
		}
		c.Close()
	}
	delete(r.links, l)
}

// Close ends the relay and all connections.
func (r *Relay) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	err := r.listener.Close()
	r.Reset()
	r.work.Wait()
	return err
}

func (r *Relay) accept() {
	for {
		c, err := r.listener.Accept()
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			if err == nil {
				c.Close()
			}
			return
		}
		if err == nil {
			l := &link{ends: []*net.TCPConn{c.(*net.TCPConn)}}
			l.ctx, l.end = context.WithCancel(context.Background())
			r.links[l] = true
			r.work.Go(func() { r.run(l) })
		}
		r.mu.Unlock()
	}
}

// run connects a link to the target, and forwards until both directions have ended.
func (r *Relay) run(l *link) {
	reset := true
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.close(l, reset && l.ctx.Err() == nil)
	}()
	if !r.await(Out, l) {
		return
	}
	target, err := new(net.Dialer).DialContext(l.ctx, "tcp", r.target)
	if err != nil {
		return
	}
	r.mu.Lock()
	l.ends = append(l.ends, target.(*net.TCPConn))
	r.mu.Unlock()
	ended := make(chan error, 2)
	go func() { ended <- r.forward(Out, l, l.ends[0], l.ends[1]) }()
	go func() { ended <- r.forward(Back, l, l.ends[1], l.ends[0]) }()
	for range 2 {
		if err := <-ended; err != nil {
			r.mu.Lock()
			r.close(l, true)
			r.mu.Unlock()
			reset = false
		}
	}
	reset = false
}

// forward forwards one direction until it ends. It returns an error if the end is not orderly.
func (r *Relay) forward(d direction, l *link, from, to *net.TCPConn) error {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if !r.await(d, l) {
			return net.ErrClosed
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return to.CloseWrite()
		}
		if err != nil {
			return err
		}
	}
}
