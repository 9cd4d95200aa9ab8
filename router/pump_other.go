//go:build !linux

package router

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A pump tells loops when sockets can be written to that did not take all. See
// pump_linux.go; here it is a kqueue, which forgets what is closed by itself.
type pump struct {
	mu    sync.Mutex
	queue int
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
	filter := unix.EVFILT_WRITE
	if input {
		filter = unix.EVFILT_READ
	}
	k.pumped = true
	p.known[k.fd] = k
	return p.change(k.fd, filter, unix.EV_ADD|unix.EV_ONESHOT, 0)
}

func (p *pump) start() error {
	q, err := unix.Kqueue()
	if err != nil {
		return os.NewSyscallError("kqueue", err)
	}
	unix.CloseOnExec(q)
	p.queue, p.known, p.ended = q, make(map[int]*socket), make(chan struct{})
	go p.run()
	return nil
}

func (p *pump) change(ident, filter, flags int, fflags uint32) error {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, ident, filter, flags)
	ev.Fflags = fflags
	_, err := unix.Kevent(p.queue, []unix.Kevent_t{ev}, nil, nil)
	return os.NewSyscallError("kevent", err)
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
		p.change(k.fd, unix.EVFILT_WRITE, unix.EV_DELETE, 0)
		p.change(k.fd, unix.EVFILT_READ, unix.EV_DELETE, 0)
	}
}

func (p *pump) run() {
	defer close(p.ended)
	var events [64]unix.Kevent_t
	for {
		n, err := unix.Kevent(p.queue, nil, events[:], nil)
		if err != nil && err != unix.EINTR {
			panic(os.NewSyscallError("kevent", err)) // only for a bad descriptor
		}
		for _, ev := range events[:max(n, 0)] {
			p.mu.Lock()
			k, over := p.known[int(ev.Ident)], p.over
			p.mu.Unlock()
			if over {
				return
			}
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
		p.change(1, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR, unix.NOTE_TRIGGER)
	}
	p.mu.Unlock()
	if started {
		<-p.ended
		unix.Close(p.queue)
	}
}
