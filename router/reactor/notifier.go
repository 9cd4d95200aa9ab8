package reactor

import (
	"os"
	"sync"
)

// A notifier notifies loops when sockets with unsent output are writable, which gnet's poller
// cannot do. One poller and one goroutine serve all sockets, without a second descriptor for each.
type notifier struct {
	notifyPoller
	mu    sync.Mutex
	known map[int]*socket // by descriptor; nil: not started
	over  bool
	ended chan struct{}
}

// watch makes the notifier call k.ready once, in a turn of its session, when the socket is
// writable, or, with input set, readable.
func (n *notifier) watch(k *socket, input bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return os.ErrClosed
	}
	if err := n.add(k.fd, input, k.notified); err != nil {
		return err
	}
	k.notified = true
	n.known[k.fd] = k
	return nil
}

// forget removes a socket. Call it before the socket's descriptor is closed.
func (n *notifier) forget(k *socket) {
	if !k.notified {
		return
	}
	k.notified = false
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, k.fd)
	if !n.over {
		n.remove(k.fd)
	}
}

func (n *notifier) start() error {
	if err := n.open(); err != nil {
		return err
	}
	n.known, n.ended = make(map[int]*socket), make(chan struct{})
	go n.run()
	return nil
}

func (n *notifier) run() {
	defer close(n.ended)
	for {
		for _, fd := range n.wait() {
			n.mu.Lock()
			k, over := n.known[fd], n.over
			n.mu.Unlock()
			if over {
				return
			}
			// Another connection may have got the same descriptor meanwhile. An additional
			// call of its ready does no harm.
			if k != nil {
				k.loop.Signal(k.s, k.ready)
			}
		}
	}
}

// stop ends the notifier. Nothing may call watch afterwards.
func (n *notifier) stop() {
	n.mu.Lock()
	started := n.known != nil
	n.over = true
	if started {
		n.ring()
	}
	n.mu.Unlock()
	if started {
		<-n.ended
		n.close()
	}
}
