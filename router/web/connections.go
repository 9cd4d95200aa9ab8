package web

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// connections bound the number of clients. When there are too many, the connection with the
// earliest place is closed:
//
//   - The place of a new connection is the time of its accept. So the newest one goes last, and a
//     probe is answered although others hold connections and do not read, or send nothing.
//   - A request that the listener's role allows moves the place to HeavyWait from now: it may
//     wait that long for others. Its end moves the place to now.
//   - A stream, and a request with a token, have no place: they are never closed for others. The
//     end of a request with a token moves the place to the end of the connection's idle time.
type connections struct {
	mu      sync.Mutex
	open    map[net.Conn]stay
	dropped atomic.Uint64
}

// A stay is the state of an open connection.
type stay struct {
	place time.Time // zero: the connection is not closed for others
	token bool      // the last request that was allowed has shown a token
}

// changed is http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if _, ok := conn.(*fromServer); ok {
		return // the server that it comes from bounds these
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	v, open := c.open[conn]
	switch {
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.open, conn)
	case state == http.StateNew && c.room(conn):
		if c.open == nil {
			c.open = make(map[net.Conn]stay)
		}
		c.open[conn] = stay{place: now}
	case state == http.StateIdle && open && v.token:
		c.open[conn] = stay{place: now.Add(idleMax), token: true}
	case state == http.StateIdle && open && (v.place.IsZero() || v.place.After(now)):
		c.open[conn] = stay{place: now}
	}
}

// allowed notes that a request on conn was allowed, with or without a token. Nothing else changes
// the place of a connection: the requests that everybody may send keep no place for it.
func (c *connections) allowed(conn net.Conn, token, stream bool) {
	v := stay{token: token}
	if !token && !stream {
		v.place = time.Now().Add(HeavyWait)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.open[conn]; open {
		c.open[conn] = v
	}
}

// room makes room for the newest connection, or closes it and returns false.
func (c *connections) room(newest net.Conn) bool {
	if len(c.open) < ConnectionsMax {
		return true
	}
	c.dropped.Add(1)
	victim := newest
	var first time.Time
	for conn, v := range c.open {
		if !v.place.IsZero() && (victim == newest || v.place.Before(first)) {
			victim, first = conn, v.place
		}
	}
	delete(c.open, victim)
	transport(victim).Close() // tls.Conn.Close would wait up to 5 s until it can send an alert
	return victim != newest
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
