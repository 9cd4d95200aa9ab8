package http

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
//   - The place of a new connection is the time of its accept. So the newest one goes last, although
//     others hold connections and do not read, or send nothing.
//   - A request that the listener's role allows, and a probe that comes first on its connection, move
//     the place to HeavyWait from now: a request may wait that long for others. The end of the
//     request moves the place to now.
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
	token bool      // the last request with a claim has shown a token
	used  bool      // a request was answered
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
	case state == http.StateIdle && open:
		v.used = true
		if v.token {
			v.place = now.Add(idleMax)
		} else if v.place.IsZero() || v.place.After(now) {
			v.place = now
		}
		c.open[conn] = v
	}
}

// A claim is what a request may claim for its connection.
type claim uint8

const (
	noClaim     claim = iota // it is a stranger's
	probeClaim               // it is a probe: a stranger could send many and read no answer
	roleClaim                // the listener's role allows it
	streamClaim              // the same, and it is a stream, which a client that does not read loses soon
	tokenClaim               // it shows a token
)

// request notes that a request with a claim has come on a connection.
func (c *connections) request(conn net.Conn, of claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, open := c.open[conn]
	if !open || of == noClaim || of == probeClaim && v.used {
		return
	}
	v.token, v.place = of == tokenClaim, time.Time{}
	if of < streamClaim {
		v.place = time.Now().Add(HeavyWait)
	}
	c.open[conn] = v
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
