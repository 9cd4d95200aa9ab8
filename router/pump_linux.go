package router

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A pump tells loops when sockets can be written to that did not take all: gnet's
// poller has no ear for that. It is one poller and one goroutine for all of them, and
// needs no descriptor of a socket's own.
type pump struct {
	mu    sync.Mutex
	poll  int             // its epoll descriptor
	bell  int             // ends it
	known map[int]*socket // by descriptor; nil: not started
	over  bool
	ended chan struct{}
}

// watch has k.ready called in a turn of its session, once, when its socket can be
// written to, or read from.
func (p *pump) watch(k *socket, input bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return os.ErrClosed
	}
	ev := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT, Fd: int32(k.fd)}
	if input {
		ev.Events = unix.EPOLLIN | unix.EPOLLONESHOT
	}
	op := unix.EPOLL_CTL_MOD
	if !k.pumped {
		op = unix.EPOLL_CTL_ADD
	}
	if err := unix.EpollCtl(p.poll, op, k.fd, &ev); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	k.pumped = true
	p.known[k.fd] = k
	return nil
}

// forget is called before the socket's descriptor is closed.
func (p *pump) forget(k *socket) {
	if !k.pumped {
		return
	}
	k.pumped = false
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, k.fd)
	if !p.over {
		unix.EpollCtl(p.poll, unix.EPOLL_CTL_DEL, k.fd, nil)
	}
}

func (p *pump) start() (err error) {
	if p.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if p.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		unix.Close(p.poll)
		return os.NewSyscallError("eventfd", err)
	}
	if err = unix.EpollCtl(p.poll, unix.EPOLL_CTL_ADD, p.bell, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(p.bell)}); err != nil {
		unix.Close(p.bell)
		unix.Close(p.poll)
		return os.NewSyscallError("epoll_ctl", err)
	}
	p.known = make(map[int]*socket)
	p.ended = make(chan struct{})
	go p.run()
	return nil
}

func (p *pump) run() {
	defer close(p.ended)
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(p.poll, events[:], -1)
		if err != nil && err != unix.EINTR {
			panic(os.NewSyscallError("epoll_wait", err)) // only for a bad descriptor
		}
		for _, ev := range events[:max(n, 0)] {
			p.mu.Lock()
			k := p.known[int(ev.Fd)]
			over := p.over
			p.mu.Unlock()
			if over {
				return
			}
			// Another connection may have got the number meanwhile. It is asked
			// once too often then.
			if k != nil {
				k.loop.signal(k.s, k.ready)
			}
		}
	}
}

// stop ends it, when nobody calls watch any more.
func (p *pump) stop() {
	p.mu.Lock()
	started := p.known != nil
	p.over = true
	if started {
		unix.Write(p.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	p.mu.Unlock()
	if started {
		<-p.ended
		unix.Close(p.bell)
		unix.Close(p.poll)
	}
}
