package web

import (
	"net"
	"time"
)

const (
	// acceptEvery is how much time passes between two connections at least, on average: a
	// connection costs the server some 25 µs, which clients of the protocols would feel if
	// somebody came again and again as quickly as he can. Those who are too many wait where
	// the kernel keeps those that nobody has accepted.
	acceptEvery = 500 * time.Microsecond
	// acceptAtOnce may come without a pause.
	acceptAtOnce = 128
)

// A pace says when the next of many may come. It belongs to one goroutine.
type pace struct{ at time.Time }

// next counts one that comes now, and returns how long to wait before the one after it.
func (p *pace) next(now time.Time) time.Duration {
	if first := now.Add(-acceptAtOnce * acceptEvery); p.at.Before(first) {
		p.at = first
	}
	p.at = p.at.Add(acceptEvery)
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
