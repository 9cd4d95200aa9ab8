package web

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// connections bound how many clients are connected. When there are too many, the one that
// has been without a request for longest goes, so that those who hold connections and say
// nothing keep nobody out, a probe least of all; with a request under way on each, the
// newest goes.
type connections struct {
	mu      sync.Mutex
	open    map[net.Conn]stay
	dropped atomic.Uint64
}

// A stay is what a connection does, and since when.
type stay struct {
	state http.ConnState
	since time.Time
}

// changed is http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if _, ok := conn.(*fromServer); ok {
		return // how many there are is bounded where they come from
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
		return
	case http.StateNew:
		if len(c.open) >= ConnectionsMax {
			c.drop(conn)
		}
	}
	if c.open == nil {
		c.open = make(map[net.Conn]stay)
	}
	c.open[conn] = stay{state, time.Now()}
}

// drop makes room for the newest, or closes that. The closed ones leave the list by
// themselves, or, if they are ours, at once.
func (c *connections) drop(newest net.Conn) {
	c.dropped.Add(1)
	var victim net.Conn
	var since time.Time
	for conn, v := range c.open {
		if v.state != http.StateActive && (victim == nil || v.since.Before(since)) {
			victim, since = conn, v.since
		}
	}
	if victim == nil {
		victim = newest
	}
	delete(c.open, victim)
	transport(victim).Close() // TLS would say goodbye, and wait for up to 5 s until it can
}

// transport is what a connection is spoken on: of TLS, as of a stream of another server's, what
// is below it.
func transport(conn net.Conn) net.Conn {
	for {
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = inner.NetConn()
	}
}

// len is how many there are.
func (c *connections) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}
