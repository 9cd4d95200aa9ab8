//go:build !linux

package reactor

import (
	"os"

	"golang.org/x/sys/unix"
)

// A notifyPoller is the notifier's kqueue, which removes closed descriptors itself.
type notifyPoller struct {
	queue  int
	events [64]unix.Kevent_t
	ready  []int
}

func (p *notifyPoller) open() error {
	q, err := unix.Kqueue()
	if err != nil {
		return os.NewSyscallError("kqueue", err)
	}
	unix.CloseOnExec(q)
	p.queue = q
	return nil
}

func (p *notifyPoller) change(ident, filter, flags int, fflags uint32) error {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, ident, filter, flags)
	ev.Fflags = fflags
	_, err := unix.Kevent(p.queue, []unix.Kevent_t{ev}, nil, nil)
	return os.NewSyscallError("kevent", err)
}

// add makes wait report fd once when it is writable, or, with input set, readable.
func (p *notifyPoller) add(fd int, input, _ bool) error {
	filter := unix.EVFILT_WRITE
	if input {
		filter = unix.EVFILT_READ
	}
	return p.change(fd, filter, unix.EV_ADD|unix.EV_ONESHOT, 0)
}

func (p *notifyPoller) remove(fd int) {
	p.change(fd, unix.EVFILT_WRITE, unix.EV_DELETE, 0)
	p.change(fd, unix.EVFILT_READ, unix.EV_DELETE, 0)
}

// wait returns the ready descriptors, and 1 after ring. The slice is valid until the next call.
func (p *notifyPoller) wait() []int {
	got, err := unix.Kevent(p.queue, nil, p.events[:], nil)
	if err != nil && err != unix.EINTR {
		panic(os.NewSyscallError("kevent", err)) // only for a bad descriptor
	}
	p.ready = p.ready[:0]
	for _, ev := range p.events[:max(got, 0)] {
		p.ready = append(p.ready, int(ev.Ident))
	}
	return p.ready
}

func (p *notifyPoller) ring() {
	p.change(1, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR, unix.NOTE_TRIGGER)
}

func (p *notifyPoller) close() { unix.Close(p.queue) }
