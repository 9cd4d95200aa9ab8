package reactor

import (
	"errors"
	"net"

	"polystalk/router/session"
)

// Why a connection is not taken.
var (
	errNotServing = errors.New("no clients are served now")
	errFull       = errors.New("as many clients as can be served are connected")
)

// Take serves a connection that somebody else has accepted, a *net.TCPConn or *net.UnixConn,
// which is the reactor's from then on, also on an error: f makes its session, and client is
// whose it is said to be, or nil if the system knows that. One that is too many is closed, since it cannot wait where it is.
func (r *Reactor) Take(c net.Conn, f session.Front, client net.Addr) error {
	defer c.Close()
	from := client
	if from == nil {
		from = c.RemoteAddr()
	}
	r.mu.Lock()
	serves := r.started && !r.refused.has(f)
	if serves {
		r.accepting.Add(1)
	}
	r.mu.Unlock()
	if !serves {
		return errNotServing
	}
	defer r.accepting.Done()
	if !r.seats.take(int64(r.limit.Load().n)) {
		r.reject(from)
		return errFull
	}
	err := r.enroll(c, &socket{reactor: r, front: f, client: client})
	if err != nil {
		r.lost(from, err)
	}
	return err
}

// lost gives up the seat of a connection that could not be taken up.
func (r *Reactor) lost(client net.Addr, err error) {
	r.giveUpSeat()
	r.host.CountRejection(session.RejectedLost)
	r.host.Complain(complaintLost, "conn", session.Remote{Addr: client}, "err", err)
}
