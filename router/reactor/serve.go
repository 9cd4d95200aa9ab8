package reactor

import (
	"net"
	"time"

	"polystalk/router/session"
)

// Accepting is tried again when descriptors or memory have run out, between these two
// times.
const (
	retryMin = 5 * time.Millisecond
	retryMax = 200 * time.Millisecond
)

// What the log says of it.
const (
	complaintFull    = "clients wait to be accepted: as many as can be served are open"
	complaintRefused = "refused a connection: as many as can be served are open"
	complaintAccept  = "cannot accept connections; trying again"
	complaintLost    = "could not take up a connection"
)

// Serve accepts connections from l, a *net.TCPListener or *net.UnixListener, which is the
// reactor's from then on, until Shutdown or Refuse; f makes their sessions. Several
// listeners may be served at once. It returns when l is closed: nil if it was to be.
//
// As many connections are served as Options.MaxConnections or SetMaxConnections says, and further ones closed
// at once; or as many as the limit of descriptors leaves room for, and further clients wait
// in the backlog until others go, as they do when descriptors or memory run out for another
// reason. Accepting goes on whatever happens.
func (r *Reactor) Serve(l net.Listener, f session.Front) error {
	r.mu.Lock()
	if r.refused.has(f) {
		r.mu.Unlock()
		return l.Close()
	}
	r.accepting.Add(1)
	r.mu.Unlock()
	defer r.accepting.Done()
	return r.listen(l, f)
}

// A served listener.
type served struct {
	front session.Front
	// close may be called any number of times, open lets in who waits in the backlog.
	// Both may be called by any goroutine, with Reactor.mu held.
	close func()
	open  func()
}

// refused says whose new connections are refused.
type refused struct {
	all    bool
	fronts map[session.Front]struct{}
}

// has reports whether those of f are.
func (d *refused) has(f session.Front) bool {
	_, ok := d.fronts[f]
	return d.all || ok
}

// Refuse refuses new connections of a front, or of all fronts if f is nil: it closes their
// listeners, and those that come to be served. The open ones go on. It does not wait; see
// AwaitServe.
func (r *Reactor) Refuse(f session.Front) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f == nil {
		r.refused.all = true
	} else {
		r.refused.fronts[f] = struct{}{}
	}
	for _, l := range r.listeners {
		if r.refused.has(l.front) {
			l.close()
		}
	}
}

// AwaitServe waits until every call of Serve has returned.
func (r *Reactor) AwaitServe() { r.accepting.Wait() }
