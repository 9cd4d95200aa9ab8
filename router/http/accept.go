package http

import (
	"net"
	"sync"
	"time"
)

const (
	// acceptEvery is the least mean time between two connections of a listener. To accept a
	// connection takes about 25 µs, which clients of the protocols would feel without a bound.
	// Connections beyond it wait in the kernel's backlog.
	acceptEvery = 500 * time.Microsecond
	// requestEvery is the least mean time between two requests without a token. Such a request
	// takes about 25 µs. Connections that pipeline requests would have a processor without a
	// pause, and event loops would wait for it.
	requestEvery = 100 * time.Microsecond
	// atOnce is how many connections or requests may come without a pause.
	atOnce = 128
)

// A pace bounds the rate of events.
type pace struct {
	every time.Duration // the least mean time between two events

	mu sync.Mutex
	at time.Time // guarded by mu
}

// next counts an event that comes now, and returns how long the caller must wait.
func (p *pace) next(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := now.Add(-atOnce * p.every); p.at.Before(first) {
		p.at = first
	}
	p.at = p.at.Add(p.every)
	return max(0, p.at.Sub(now))
}

// Accept implements net.Listener. It is called by one goroutine.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		// It is served only afterwards, so that the pause need not be remembered.
		time.Sleep(l.pace.next(time.Now()))
		if l.door.Callers {
			c = &fromServer{c}
		}
	}
	return c, err
}
