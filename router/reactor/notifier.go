package reactor

import (
	"os"
	"sync"
)

// A notifier tells loops when sockets that did not take all output are writable: gnet's
// poller cannot. One poller and one goroutine serve all of them, without a descriptor for
// each socket.
type notifier struct {
	notifyPoller
	mu    sync.Mutex
	known map[int]*socket // by descriptor; nil: not started
	over  bool
	ended chan struct{}
}

// watch has k.ready called in a turn of its session, once, when its socket is writable, or
// readable.
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

// forget is called before the socket's descriptor is closed.
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
			// Another connection may have got the number meanwhile. It is called once too
			// often then.
			if k != nil {
				k.loop.Signal(k.s, k.ready)
			}
		}
	}
}

// stop ends it, when nothing calls watch any more.
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
