package router

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Accepting goes on whatever happens; a shortage of descriptors is waited
// out, between these two times.
const (
	retryMin = 5 * time.Millisecond
	retryMax = 200 * time.Millisecond
)

// Serve accepts connections from l, a *net.TCPListener or *net.UnixListener,
// until Shutdown or Retire, or until l is closed: that is an error. Several
// listeners may be served at once.
func (s *Server) Serve(l net.Listener) error { return s.serve(l, false) }

func (s *Server) serve(l net.Listener, gear bool) error {
	n := s.net
	n.mu.Lock()
	if n.isRefusing(gear) {
		n.mu.Unlock()
		return l.Close()
	}
	n.listeners[l] = gear
	n.accepting.Add(1)
	n.mu.Unlock()
	defer n.accepting.Done()
	limit := limitOf(s.cfg.MaxConnections, descriptors())
	if want := s.cfg.MaxConnections; want > limit.n {
		s.log.Warn("the limit of descriptors allows fewer connections than --max-connections; raise it (ulimit -n, LimitNOFILE)",
			"max-connections", want, "served", limit.n)
	}
	wait := retryMin
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			wait = retryMin
			n.admit(nc, limit, gear)
		case n.isStopping(gear):
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		default:
			// Out of descriptors or memory, mostly. Those who want in wait in
			// the backlog; those who are in go on.
			s.complain("cannot accept connections; trying again", "addr", l.Addr().String(), "err", err)
			time.Sleep(wait)
			wait = min(2*wait, retryMax)
		}
	}
}

// admit enrolls a new connection, or closes it when there are too many.
func (n *network) admit(nc net.Conn, limit connectionLimit, gear bool) {
	if n.open.Add(1) > int64(limit.n) {
		n.open.Add(-1)
		nc.Close()
		n.srv.complain("refused a connection: as many as can be served are open", "conn", remote{nc}, "limit", limit.n, "from", limit.from)
		return
	}
	if err := n.enroll(nc, gear); err != nil {
		n.open.Add(-1)
		n.srv.complain("could not take up a connection", "conn", remote{nc}, "err", err)
	}
}

func (n *network) isStopping(gear bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.isRefusing(gear)
}
