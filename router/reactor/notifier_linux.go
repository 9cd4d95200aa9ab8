package reactor

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A notifier tells loops when sockets can be written to that did not take all: gnet's
// poller has no ear for that. It is one poller and one goroutine for all of them, and
// needs no descriptor of a socket's own.
type notifier struct {
	mu    sync.Mutex
	poll  int             // its epoll descriptor
	bell  int             // ends it
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
	ev := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT, Fd: int32(k.fd)}
	if input {
		ev.Events = unix.EPOLLIN | unix.EPOLLONESHOT
	}
	op := unix.EPOLL_CTL_MOD
	if !k.notified {
		op = unix.EPOLL_CTL_ADD
	}
	if err := unix.EpollCtl(n.poll, op, k.fd, &ev); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
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
		unix.EpollCtl(n.poll, unix.EPOLL_CTL_DEL, k.fd, nil)
	}
}

func (n *notifier) start() (err error) {
	if n.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if n.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		unix.Close(n.poll)
		return os.NewSyscallError("eventfd", err)
	}
	if err = unix.EpollCtl(n.poll, unix.EPOLL_CTL_ADD, n.bell, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(n.bell)}); err != nil {
		unix.Close(n.bell)
		unix.Close(n.poll)
		return os.NewSyscallError("epoll_ctl", err)
	}
	n.known = make(map[int]*socket)
	n.ended = make(chan struct{})
	go n.run()
	return nil
}

func (n *notifier) run() {
	defer close(n.ended)
	var events [64]unix.EpollEvent
	for {
		got, err := unix.EpollWait(n.poll, events[:], -1)
		if err != nil && err != unix.EINTR {
			panic(os.NewSyscallError("epoll_wait", err)) // only for a bad descriptor
		}
		for _, ev := range events[:max(got, 0)] {
			n.mu.Lock()
			k := n.known[int(ev.Fd)]
			over := n.over
			n.mu.Unlock()
			if over {
				return
			}
			// Another connection may have got the number meanwhile. It is asked
			// once too often then.
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
		unix.Write(n.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	n.mu.Unlock()
	if started {
		<-n.ended
		unix.Close(n.bell)
		unix.Close(n.poll)
	}
}
