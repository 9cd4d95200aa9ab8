package http

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	wire "polystalk/codec/admin"
)

// A new connection and a request each take about 25 µs of a processor. The rates bound their
// share, so that a flood does not slow down the clients of the protocols.
var (
	acceptRate  = rate.Every(500 * time.Microsecond) // connections of a listener; others wait in the kernel's backlog
	requestRate = rate.Every(100 * time.Microsecond) // requests without a token
)

// atOnce is the burst of both rates.
const atOnce = 128

// A listener accepts connections at a bounded rate.
type listener struct {
	net.Listener
	door Door
	rate *rate.Limiter
}

// Accept implements net.Listener. One goroutine calls it.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		time.Sleep(l.rate.Reserve().Delay()) // the connection is served only afterwards
		if l.door.Callers {
			c = &fromServer{c}
		}
	}
	return c, err
}

// connections bounds the number of clients. When there are too many, it closes the connection
// with the earliest place, which is a time:
//
//   - The place of a new connection is the time of its accept, so older connections that
//     neither read nor send are closed before it.
//   - An allowed request, and a probe that is the first request of its connection, set the
//     place to heavyWait from now: the request may wait that long for a slot. The end of the
//     request sets the place to now.
//   - A connection with a stream, or with a request that has a token, is never closed for
//     others. The end of such a request sets the place to the end of the idle time.
type connections struct {
	mu      sync.Mutex
	open    map[net.Conn]stay
	dropped atomic.Uint64
}

// A stay is the state of an open connection.
type stay struct {
	place time.Time // zero: the connection is not closed for others
	token bool      // the last request with a claim had a token
	used  bool      // a request was answered
}

// changed is http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if _, ok := conn.(*fromServer); ok {
		return // the other server bounds these
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

// A claim is the kind of a request, which decides the place of its connection.
type claim uint8

const (
	noClaim     claim = iota // a request that needs no right
	probeClaim               // a probe: a stranger could send many and read no answer
	rightClaim               // the client has no token, and the request is allowed
	streamClaim              // the same for a stream, which is closed soon if its client does not read
	tokenClaim               // the request has a token
)

// request sets the place of a connection that has sent a request.
func (c *connections) request(conn net.Conn, of claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, open := c.open[conn]
	if !open || of == noClaim || of == probeClaim && v.used {
		return
	}
	v.token, v.place = of == tokenClaim, time.Time{}
	if of < streamClaim {
		v.place = time.Now().Add(heavyWait)
	}
	c.open[conn] = v
}

// room makes room for the newest connection, or closes it and returns false. The caller must
// hold mu.
func (c *connections) room(newest net.Conn) bool {
	if len(c.open) < connectionsMax {
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

// transport returns the connection below TLS, or below another server's stream.
func transport(conn net.Conn) net.Conn {
	for {
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = inner.NetConn()
	}
}

// len returns the number of open connections.
func (c *connections) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// heavyWait is how long a request waits for a slot.
const heavyWait = 2 * time.Second

// slots bounds the number of requests that run at the same time. Slow requests share one slot:
// the event loops leave about one processor free, and a second request would delay a loop.
// Scrapes have another slot, because a monitor that gets no answer raises an alarm.
type slots chan struct{}

// take waits for a slot, at most heavyWait; leave frees it.
func (p slots) take(ctx context.Context) (leave func(), err error) {
	timer := time.NewTimer(heavyWait)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, wire.Busy.Problem("")
}

// A held answer stays in memory until it is complete, so that a slow client occupies no slot.
type held struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *held) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *held) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// send sends the answer, if there is one.
func (w *held) send() {
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
		w.ResponseWriter.Write(w.body.Bytes())
	}
	if w.status == http.StatusNoContent { // see call.done
		http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// alone runs a route, which must be a GET, in a slot. It frees the slot before it sends the
// answer.
func alone(c *call, p slots) error {
	w := &held{ResponseWriter: c.W}
	c.W = w
	leave, err := p.take(c.Ctx)
	if err != nil {
		return err
	}
	err = func() error {
		defer leave()
		return c.rt.run(c)
	}()
	w.send()
	return err
}
