//go:build !linux

package reactor

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// An eventLoop is one of gnet's with the sessions' side of it; eventloop_linux.go has more.
type eventLoop struct {
	*session.Loop
	poller   int          // its kqueue descriptor
	adopting any          // stays nil: nothing is adopted
	placed   atomic.Int64 // connections that were opened and that have not gone
}

// newEventLoop is for el, a gnet.EventLoop.
func newEventLoop(el any, l *session.Loop) (*eventLoop, error) {
	poller, err := pollerOf(el)
	return &eventLoop{Loop: l, poller: poller}, err
}

// pause makes the loop not watch a connection, resume makes it watch it again.
func (l *eventLoop) pause(fd int) error { return l.change(fd, unix.EV_DISABLE) }

func (l *eventLoop) resume(fd int) error { return l.change(fd, unix.EV_ENABLE) }

func (l *eventLoop) change(fd int, flags uint16) error {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, fd, unix.EVFILT_READ, int(flags))
	_, err := unix.Kevent(l.poller, []unix.Kevent_t{ev}, nil, nil)
	return err
}

// opened counts a connection: gnet chooses its loop.
func (l *eventLoop) opened() { l.placed.Add(1) }

// uncount takes a connection off placed.
func (l *eventLoop) uncount() { l.placed.Add(-1) }

// hasTasks: there is no way to leave it one here.
func (l *eventLoop) hasTasks() bool { return false }

func (l *eventLoop) work() {}
