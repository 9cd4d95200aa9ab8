//go:build !linux

package reactor

import (
	"errors"
	"fmt"
	"net"
	"time"

	"polystalk/router/session"
)

// An acceptor exists only on Linux.
type acceptor struct{}

func (*acceptor) accept() {}

// listen accepts from l until r refuses it, by package net and gnet's Enroll: connections
// inherit a listener's options on Linux only.
func (r *Reactor) listen(l net.Listener, f session.Front) error {
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
			r.admit(nc, f)
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

// admit enrolls a new connection, or closes it when there are too many.
func (r *Reactor) admit(nc net.Conn, f session.Front) {
	limit := r.limit.Load()
	if r.seats.taken.Add(1) > int64(limit.n) && limit.asked {
		r.seats.taken.Add(-1)
		r.reject(nc.RemoteAddr())
		nc.Close()
		return
	}
	k := &socket{reactor: r, front: f}
	if _, err := r.client.EnrollContext(nc, k); err != nil || k.s == nil {
		r.lost()
		r.host.Complain(complaintLost, "conn", session.Remote{Addr: nc.RemoteAddr()}, "err", err)
	}
}

// refuses reports whether new connections of f are refused.
func (r *Reactor) refuses(f session.Front) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused.has(f)
}

// enroll gives a loop a connection that has a seat, by gnet's Enroll.
func (r *Reactor) enroll(c net.Conn, k *socket) error {
	if _, err := r.client.EnrollContext(c, k); err != nil && k.s == nil {
		return err
	}
	return nil
}

// openAcceptors has nothing to open: listen looks at the limit itself.
func (r *Reactor) openAcceptors() {}
