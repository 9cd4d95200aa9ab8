package reactor

import (
	"errors"
	"fmt"
	"net"
	"time"

	"polystalk/router/session"
)

// acceptAll accepts from l by package net until r refuses it, and gives the connections to admit.
func (r *Reactor) acceptAll(l net.Listener, f session.Front, admit func(net.Conn, session.Front)) error {
	r.mu.Lock()
	if r.refused.has(f) {
		r.mu.Unlock()
		return l.Close()
	}
	r.listeners[l] = served{front: f, close: func() { l.Close() }, open: func() {}}
	r.mu.Unlock()
	wait := retryMin
	for {
		for limit := r.limit.Load(); !limit.asked && r.seats.taken.Load() >= int64(limit.n) && !r.refuses(f); limit = r.limit.Load() {
			r.host.Complain(complaintFull, "addr", l.Addr().String(), "limit", limit.n, "from", limit.from)
			time.Sleep(retryMax)
		}
		nc, err := l.Accept()
		switch {
		case err == nil:
			wait = retryMin
			admit(nc, f)
		case r.refuses(f):
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		default:
			r.host.Complain(complaintAccept, "addr", l.Addr().String(), "err", err)
			time.Sleep(wait)
			wait = min(2*wait, retryMax)
		}
	}
}

// refuses reports whether new connections of f are refused.
func (r *Reactor) refuses(f session.Front) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused.has(f)
}
