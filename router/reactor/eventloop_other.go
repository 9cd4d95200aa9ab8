//go:build !linux

package reactor

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// An eventLoop is one of gnet's event loops with its session.Loop; eventloop_linux.go has more.
type eventLoop struct {
	*session.Loop
	poller   int          // its kqueue descriptor
	adopting any          // stays nil: nothing is adopted
	placed   atomic.Int64 // open connections
	scratch  scratch
}

// newEventLoop returns the eventLoop of el, a gnet.EventLoop.
func newEventLoop(el any, l *session.Loop) (*eventLoop, error) {
	poller, err := pollerOf(el)
	return &eventLoop{Loop: l, poller: poller}, err
}

// pause makes the poller not watch a connection; resume makes it watch again.
func (l *eventLoop) pause(fd int) error { return l.change(fd, unix.EV_DISABLE) }

func (l *eventLoop) resume(fd int) error { return l.change(fd, unix.EV_ENABLE) }

func (l *eventLoop) change(fd int, flags uint16) error {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, fd, unix.EVFILT_READ, int(flags))
	_, err := unix.Kevent(l.poller, []unix.Kevent_t{ev}, nil, nil)
	return err
}

// opened counts a connection here, because gnet chooses its loop.
func (l *eventLoop) opened() { l.placed.Add(1) }

// uncount subtracts a connection from placed.
func (l *eventLoop) uncount() { l.placed.Add(-1) }

// hasTasks returns false: there are no tasks on this system.
func (l *eventLoop) hasTasks() bool { return false }

func (l *eventLoop) work() {}
