//go:build !linux

package reactor

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A notifier tells loops when sockets can be written to that did not take all. See
// notifier_linux.go; here it is a kqueue, which forgets what is closed by itself.
type notifier struct {
	mu    sync.Mutex
	queue int
	known map[int]*socket // by descriptor; nil: not started
	over  bool
	ended chan struct{}
}

// watch has k.ready called in a turn of its session, once, when its socket can be
// written to, or read from.
func (n *notifier) watch(k *socket, input bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return os.ErrClosed
	}
	filter := unix.EVFILT_WRITE
	if input {
		filter = unix.EVFILT_READ
	}
	k.notified = true
	n.known[k.fd] = k
	return n.change(k.fd, filter, unix.EV_ADD|unix.EV_ONESHOT, 0)
}

func (n *notifier) start() error {
	q, err := unix.Kqueue()
	if err != nil {
		return os.NewSyscallError("kqueue", err)
	}
	unix.CloseOnExec(q)
	n.queue, n.known, n.ended = q, make(map[int]*socket), make(chan struct{})
	go n.run()
	return nil
}

func (n *notifier) change(ident, filter, flags int, fflags uint32) error {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, ident, filter, flags)
	ev.Fflags = fflags
	_, err := unix.Kevent(n.queue, []unix.Kevent_t{ev}, nil, nil)
	return os.NewSyscallError("kevent", err)
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
		n.change(k.fd, unix.EVFILT_WRITE, unix.EV_DELETE, 0)
		n.change(k.fd, unix.EVFILT_READ, unix.EV_DELETE, 0)
	}
}

func (n *notifier) run() {
	defer close(n.ended)
	var events [64]unix.Kevent_t
	for {
		got, err := unix.Kevent(n.queue, nil, events[:], nil)
		if err != nil && err != unix.EINTR {
			panic(os.NewSyscallError("kevent", err)) // only for a bad descriptor
		}
		for _, ev := range events[:max(got, 0)] {
			n.mu.Lock()
			k, over := n.known[int(ev.Ident)], n.over
			n.mu.Unlock()
			if over {
				return
			}
			if k != nil {
				k.loop.Signal(k.s, k.ready)
			}
		}
	}
}

// stop ends it, when nobody calls watch any more.
func (n *notifier) stop() {
	n.mu.Lock()
	started := n.known != nil
	n.over = true
	if started {
		n.change(1, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR, unix.NOTE_TRIGGER)
	}
	n.mu.Unlock()
	if started {
		<-n.ended
		unix.Close(n.queue)
	}
}
