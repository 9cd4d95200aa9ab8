package router

import (
	"net"
	"sync"
	"time"
)

// A lane writes what a socket did not take at once. gnet would keep it in a
// buffer of its own, of which it neither tells when it is empty nor sends all
// when the client half-closes; so a lane has its own descriptor of the socket
// and a goroutine that lasts as long as the congestion does, or, once gnet has
// closed its side, until the session is done.
type lane struct {
	nc      net.Conn
	emptied func()          // called from the goroutine whenever nothing is unsent
	ended   func(heir bool) // called from the goroutine when it ends

	mu     sync.Mutex
	more   sync.Cond
	queue  [][]byte
	unsent int
	stay   bool // do not end when the queue is empty: wait for more
	over   bool // no more bytes are taken
	heir   bool // the lane is all that is left of the connection
}

// newLane makes a lane that owns nc, with its first bytes, and starts it.
func newLane(nc net.Conn, first []byte, stay bool, emptied func(), ended func(heir bool)) *lane {
	n := &lane{nc: nc, emptied: emptied, ended: ended, stay: stay}
	n.more.L = &n.mu
	if len(first) > 0 {
		n.queue = append(n.queue, first)
		n.unsent = len(first)
	}
	go n.run()
	return n
}

// add queues p, which must not change any more. It reports false when the
// lane is over: everything before was written, or the connection is dead.
func (n *lane) add(p []byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return false
	}
	n.queue = append(n.queue, p)
	n.unsent += len(p)
	n.more.Signal()
	return true
}

// len is the number of bytes not yet taken by the socket.
func (n *lane) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unsent
}

// keep makes the lane stay when its queue is empty. It reports false when it
// is over already.
func (n *lane) keep() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stay = !n.over
	return n.stay
}

// inherit makes the lane stand for the connection, which gnet has let go. It
// reports false when it is over already.
func (n *lane) inherit() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heir = !n.over
	return n.heir
}

// lingerMax is how long a closed connection may take to read its last replies.
const lingerMax = 10 * time.Second

// finish ends the lane once the queue is empty.
func (n *lane) finish() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stay = false
	n.nc.SetWriteDeadline(time.Now().Add(lingerMax))
	n.more.Signal()
}

// drop ends the lane at once.
func (n *lane) drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop()
	n.nc.Close() // wakes a write that blocks
}

func (n *lane) stop() {
	n.over, n.stay = true, false
	for _, p := range n.queue {
		n.unsent -= len(p)
	}
	n.queue = nil
	n.more.Signal()
}

func (n *lane) run() {
	defer func() {
		n.nc.Close()
		n.mu.Lock()
		heir := n.heir
		n.mu.Unlock()
		n.ended(heir)
	}()
	for {
		queue, size := n.next()
		if queue == nil {
			return
		}
		// Blocks for as long as the client does not read, like the reference.
		_, err := queue.WriteTo(n.nc)
		n.mu.Lock()
		if n.unsent -= size; err != nil {
			n.stop()
		}
		empty := n.unsent == 0
		n.mu.Unlock()
		if empty {
			n.emptied()
		}
	}
}

// next waits for bytes to write; nil ends the lane.
func (n *lane) next() (queue net.Buffers, size int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) == 0 && n.stay {
		n.more.Wait()
	}
	if len(n.queue) == 0 {
		n.over = true
		return nil, 0
	}
	for _, p := range n.queue {
		size += len(p)
	}
	queue, n.queue = n.queue, nil
	return queue, size
}
