package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pieceMax bytes are read at a time, pieces of them kept for a connection and direction.
	pieceMax = 32 << 10
	pieces   = 64
)

// A way is one direction of all connections.
type way struct {
	bytes atomic.Int64

	mu      sync.Mutex
	held    bool
	delay   time.Duration
	changed chan struct{} // closed by the next change
}

func newWay() *way { return &way{changed: make(chan struct{})} }

// set changes the way.
func (w *way) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits until what was read at a time may be handed on; false: not any more.
func (w *way) await(read time.Time, broken <-chan struct{}) bool {
	for {
		w.mu.Lock()
		held, wait, changed := w.held, time.Until(read.Add(w.delay)), w.changed
		w.mu.Unlock()
		if !held && wait <= 0 {
			return true
		}
		var due <-chan time.Time
		if !held {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-broken:
			return false
		}
	}
}

// A link is a connection to the relay and the one that is made to the target for it.
type link struct {
	relay *Relay
	ctx   context.Context // ends with the link
	end   context.CancelFunc

	mu   sync.Mutex
	ends []*net.TCPConn // first who has connected, then the target
}

// newLink begins one with a connection that has come.
func newLink(r *Relay, c *net.TCPConn) *link {
	l := &link{relay: r, ends: []*net.TCPConn{c}}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// A piece is what was read at a time.
type piece struct {
	b    []byte
	read time.Time
	end  error // nil: there is more; io.EOF: the sending side was closed
}

// reset ends the link.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	l.end()
	for _, c := range l.ends {
		c.SetLinger(0)
		c.Close()
	}
}

// run makes the second connection, and hands on until both directions have ended.
func (l *link) run() {
	r := l.relay
	defer func() {
		l.reset()
		r.mu.Lock()
		delete(r.links, l)
		r.mu.Unlock()
	}()
	if !r.ways[Out].await(time.Now(), l.ctx.Done()) || !l.dial() {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.hand(r.ways[Out], l.ends[0], l.ends[1]) })
	both.Go(func() { l.hand(r.ways[Back], l.ends[1], l.ends[0]) })
	both.Wait()
	l.finish()
}

// dial makes the connection to the target.
func (l *link) dial() bool {
	l.relay.mu.Lock()
	target := l.relay.target
	l.relay.mu.Unlock()
	var d net.Dialer
	c, err := d.DialContext(l.ctx, "tcp", target)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(l.ends, c.(*net.TCPConn))
	if l.ctx.Err() != nil {
		l.ends[1].SetLinger(0)
		c.Close()
		return false
	}
	return true
}

// finish closes what was ended in order, and not reset.
func (l *link) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	l.end()
	for _, c := range l.ends {
		c.Close()
	}
}

// hand hands on one direction until it ends.
func (l *link) hand(w *way, from, to *net.TCPConn) {
	queue := make(chan piece, pieces)
	var reading sync.WaitGroup
	reading.Go(func() { l.read(from, queue) })
	defer reading.Wait()
	for {
		var p piece
		select {
		case p = <-queue:
		case <-l.ctx.Done():
			return
		}
		if !w.await(p.read, l.ctx.Done()) {
			return
		}
		if len(p.b) > 0 {
			n, err := to.Write(p.b)
			w.bytes.Add(int64(n))
			if err != nil {
				l.reset()
				return
			}
		}
		switch {
		case p.end == nil:
		case errors.Is(p.end, io.EOF):
			to.CloseWrite()
			return
		default:
			l.reset()
			return
		}
	}
}

// read fills the queue with what comes, until the end or a reset.
func (l *link) read(from *net.TCPConn, queue chan<- piece) {
	for {
		b := make([]byte, pieceMax)
		n, err := from.Read(b)
		select {
		case queue <- piece{b[:n], time.Now(), err}:
		case <-l.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
