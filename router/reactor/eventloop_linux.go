package reactor

import (
	"fmt"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// An eventLoop is one of gnet's event loops with its session.Loop. It adds what gnet's interface
// lacks: it adopts connections by descriptor, controls which descriptors its poller watches, and
// runs tasks for other goroutines.
type eventLoop struct {
	*session.Loop
	gnet   unsafe.Pointer // gnet's *eventloop
	poller int            // its epoll descriptor

	adopting any          // context of the connection that is being adopted
	placed   atomic.Int64 // connections that were given to the loop and are not closed
	scratch  scratch

	mu      sync.Mutex
	tasks   []func()    // for work to call; guarded by mu
	waiting atomic.Bool // tasks is not empty
}

// newEventLoop returns the eventLoop of el, a gnet.EventLoop.
func newEventLoop(el any, l *session.Loop) (*eventLoop, error) {
	poller, err := pollerOf(el)
	return &eventLoop{Loop: l, gnet: reflect.ValueOf(el).UnsafePointer(), poller: poller}, err
}

// watch makes the poller watch fd, and report it as the connection with descriptor as. If several
// loops watch fd, the kernel wakes one or a few of them.
func (l *eventLoop) watch(fd, as int) error {
	return unix.EpollCtl(l.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLEXCLUSIVE, Fd: int32(as)})
}

// unwatch ends watch.
func (l *eventLoop) unwatch(fd int) error {
	return unix.EpollCtl(l.poller, unix.EPOLL_CTL_DEL, fd, nil)
}

// pause makes the poller not watch a connection; resume makes it watch again, for the same events
// as gnet.
func (l *eventLoop) pause(fd int) error { return l.unwatch(fd) }

func (l *eventLoop) resume(fd int) error {
	return unix.EpollCtl(l.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLPRI, Fd: int32(fd)})
}

// opened does nothing: a connection is counted when it is given to the loop.
func (l *eventLoop) opened() {}

// uncount subtracts a connection from placed.
func (l *eventLoop) uncount() {
	if n := l.placed.Add(-1); n < 0 {
		panic(fmt.Sprintf("event loop %d has %d connections", l.Index, n))
	}
}

// do makes the event loop call f, after its current callback. Any goroutine may call it.
func (l *eventLoop) do(f func()) {
	l.mu.Lock()
	l.tasks = append(l.tasks, f)
	l.waiting.Store(true)
	l.mu.Unlock()
	l.Ask()
}

// hasTasks reports whether work has something to do. Any goroutine may call it.
func (l *eventLoop) hasTasks() bool { return l.waiting.Load() }

// work runs the tasks. It is called in the event loop after each wake-up.
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

// adopt makes fd, a non-blocking socket, one of the loop's connections, and calls OnOpen before it
// returns. The loop owns fd, even after an error. adopt is called in the event loop.
//
// gnet's Enroll takes only a net.Conn, needs a second descriptor, and makes the caller wait for the
// loop: a client that connects, puts a job and disconnects would cost half as much again. gnet's
// acceptor is as cheap as adopt, but ends the server when descriptors run out. So two functions of
// gnet are linked by name, as in the version in go.mod; adopt_test.go compares their declarations
// with the source of that version.
func (l *eventLoop) adopt(fd int, context any) error {
	l.adopting = context
	return register(l.gnet, newStreamConn("tcp", fd, l.gnet, nil, nil, nil))
}

//go:linkname newStreamConn github.com/panjf2000/gnet/v2.newStreamConn
func newStreamConn(proto string, fd int, el unsafe.Pointer, sa unix.Sockaddr, localAddr, remoteAddr net.Addr) unsafe.Pointer

//go:linkname register github.com/panjf2000/gnet/v2.(*eventloop).register0
func register(el, c unsafe.Pointer) error
