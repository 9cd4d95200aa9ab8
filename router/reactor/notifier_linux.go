package reactor

import (
	"os"

	"golang.org/x/sys/unix"
)

// A notifyPoller is the notifier's epoll.
type notifyPoller struct {
	poll, bell int // descriptors; ring makes bell readable, which ends wait
	events     [64]unix.EpollEvent
	ready      []int
}

func (p *notifyPoller) open() (err error) {
	if p.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if p.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		unix.Close(p.poll)
		return os.NewSyscallError("eventfd", err)
	}
	if err = unix.EpollCtl(p.poll, unix.EPOLL_CTL_ADD, p.bell, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(p.bell)}); err != nil {
		p.close()
		return os.NewSyscallError("epoll_ctl", err)
	}
	return nil
}

// add makes wait report fd once when it is writable, or, with input set, readable. again means
// that fd was added before.
func (p *notifyPoller) add(fd int, input, again bool) error {
	ev := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT, Fd: int32(fd)}
	if input {
		ev.Events = unix.EPOLLIN | unix.EPOLLONESHOT
	}
	op := unix.EPOLL_CTL_ADD
	if again {
		op = unix.EPOLL_CTL_MOD
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.poll, op, fd, &ev))
}

func (p *notifyPoller) remove(fd int) { unix.EpollCtl(p.poll, unix.EPOLL_CTL_DEL, fd, nil) }

// wait returns the ready descriptors, including bell. The slice is valid until the next call.
func (p *notifyPoller) wait() []int {
	got, err := unix.EpollWait(p.poll, p.events[:], -1)
	if err != nil && err != unix.EINTR {
		panic(os.NewSyscallError("epoll_wait", err)) // only for a bad descriptor
	}
	p.ready = p.ready[:0]
	for _, ev := range p.events[:max(got, 0)] {
		p.ready = append(p.ready, int(ev.Fd))
	}
	return p.ready
}

func (p *notifyPoller) ring() { unix.Write(p.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (p *notifyPoller) close() {
	unix.Close(p.bell)
	unix.Close(p.poll)
}
