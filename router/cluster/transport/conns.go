package transport

import (
	"net"
	"sync"
)

// conns are all connections that are open, so that Close ends them.
type conns struct {
	mu     sync.Mutex // nothing is called under it that waits
	open   map[net.Conn]struct{}
	closed bool
}

// keep notes a connection; false: all is closed already, and so is this one.
func (n *conns) keep(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		c.Close()
		return false
	}
	n.open[c] = struct{}{}
	return true
}

// end closes a connection and notes it no more.
func (n *conns) end(c net.Conn) {
	n.mu.Lock()
	delete(n.open, c)
	n.mu.Unlock()
	c.Close()
}

// close closes all, and those that come.
func (n *conns) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for c := range n.open {
		c.Close()
	}
}
