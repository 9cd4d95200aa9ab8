package router

import (
	"net"
	"time"
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

// Serve accepts connections from l, a *net.TCPListener or *net.UnixListener, which is
// the server's from then on, until Shutdown or Retire. Several listeners may be served
// at once.
//
// As many connections are served as --max-connections says, and further ones closed at
// once; or as many as the limit of descriptors leaves room for, and further clients
// wait in the backlog until others leave, as they do when descriptors or memory run
// out for another reason. Accepting goes on whatever happens.
func (s *Server) Serve(l net.Listener) error { return s.serve(l, false) }

func (s *Server) serve(l net.Listener, gear bool) error {
	n := s.net
	n.mu.Lock()
	if n.isRefusing(gear) {
		n.mu.Unlock()
		return l.Close()
	}
	n.accepting.Add(1)
	n.mu.Unlock()
	defer n.accepting.Done()
	limit := s.cfg.limitOf(descriptors())
	if want := s.cfg.MaxConnections; want > limit.n {
		s.log.Warn("the limit of descriptors allows fewer connections than --max-connections; raise it (ulimit -n, LimitNOFILE)",
			"max-connections", want, "served", limit.n)
	}
	return n.listen(l, gear, limit)
}

// A served listener.
type served struct {
	gear  bool
	close func() // from any goroutine, any number of times, as is
	open  func() // for those who wait in the backlog
}

// isRefusing reports whether new connections of that kind are refused; n.mu is held.
func (n *network) isRefusing(gear bool) bool {
	return n.stopping || n.noneAtAll || gear && n.noGear
}

// refuse closes the listeners for Gearman, or all, and those that come to be served.
func (n *network) refuse(all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noGear = true
	n.noneAtAll = n.noneAtAll || all
	for _, l := range n.listeners {
		if n.isRefusing(l.gear) {
			l.close()
		}
	}
}

// gone takes a connection off the count, and lets one in for it.
func (n *network) gone() {
	n.open.Add(-1)
	if n.full.Load() && n.full.CompareAndSwap(true, false) {
		n.vacant()
	}
}
