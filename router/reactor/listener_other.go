//go:build !linux

package reactor

import (
	"net"

	"polystalk/router/session"
)

// An acceptor exists only on Linux.
type acceptor struct{}

func (*acceptor) accept() {}

// listen accepts from l by package net and gnet's Enroll: connections inherit a listener's options
// on Linux only.
func (r *Reactor) listen(l net.Listener, f session.Front) error { return r.acceptAll(l, f, r.admit) }

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

// enroll gives a loop a connection that has a seat, by gnet's Enroll.
func (r *Reactor) enroll(c net.Conn, k *socket) error {
	if _, err := r.client.EnrollContext(c, k); err != nil && k.s == nil {
		return err
	}
	return nil
}

// openAcceptors has nothing to open: listen looks at the limit itself.
func (r *Reactor) openAcceptors() {}
