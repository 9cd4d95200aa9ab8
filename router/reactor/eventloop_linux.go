package reactor

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// An eventLoop is one of gnet's with the sessions' side of it, and with what gnet has no
// interface for: it takes connections by descriptor (adopt_linux.go), its poller can be
// told what to look at, and it can be left something to do.
type eventLoop struct {
	*session.Loop
	gnet   unsafe.Pointer // gnet's *eventloop
	poller int            // its epoll descriptor

	adopting any          // context of the connection that is being adopted
	placed   atomic.Int64 // connections that it was given and that have not gone

	mu      sync.Mutex
	tasks   []func()    // to be called in the event loop; guarded by mu
	waiting atomic.Bool // there are tasks
}

// newEventLoop is for el, a gnet.EventLoop.
func newEventLoop(el any, l *session.Loop) (*eventLoop, error) {
	poller, err := pollerOf(el)
	return &eventLoop{Loop: l, gnet: reflect.ValueOf(el).UnsafePointer(), poller: poller}, err
}

// look has the loop look at fd, and take what is ready for as connection. Of several loops
// that look at it one is told, or a few.
func (l *eventLoop) look(fd, as int) error {
	return unix.EpollCtl(l.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLEXCLUSIVE, Fd: int32(as)})
}

// lookAway ends look.
func (l *eventLoop) lookAway(fd int) error {
	return unix.EpollCtl(l.poller, unix.EPOLL_CTL_DEL, fd, nil)
}

// pause has the loop not look at a connection, resume has it look again, for what gnet's
// poller looks for.
func (l *eventLoop) pause(fd int) error { return l.lookAway(fd) }

func (l *eventLoop) resume(fd int) error {
	return unix.EpollCtl(l.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLPRI, Fd: int32(fd)})
}

// opened: a connection is counted when it is given to the loop, before it is opened.
func (l *eventLoop) opened() {}

// uncount takes a connection off placed.
func (l *eventLoop) uncount() {
	if n := l.placed.Add(-1); n < 0 {
		panic(fmt.Sprintf("event loop %d has %d connections", l.Index, n))
	}
}

// do has f called in the event loop, behind what that is doing; from any goroutine.
func (l *eventLoop) do(f func()) {
	l.mu.Lock()
	l.tasks = append(l.tasks, f)
	l.waiting.Store(true)
	l.mu.Unlock()
	l.Ask()
}

// hasTasks reports whether work has something to do; from any goroutine.
func (l *eventLoop) hasTasks() bool { return l.waiting.Load() }

// work is called in the event loop whenever it was woken.
func (l *eventLoop) work() {
	if !l.waiting.Load() {
		return
	}
	l.mu.Lock()
	tasks := l.tasks
	l.tasks = nil
	l.waiting.Store(false)
	l.mu.Unlock()
	for _, f := range tasks {
		f()
	}
}
