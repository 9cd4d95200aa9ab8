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

// An eventLoop is one of gnet's with the sessions' side of it, and with what gnet has no
// interface for: it adopts connections by descriptor, its poller can be told what to watch,
// and other goroutines can leave it tasks.
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

// watch makes the loop watch fd, and report it as connection as. Of several loops that
// watch it one is told, or a few.
func (l *eventLoop) watch(fd, as int) error {
	return unix.EpollCtl(l.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLEXCLUSIVE, Fd: int32(as)})
}

// unwatch ends watch.
func (l *eventLoop) unwatch(fd int) error {
	return unix.EpollCtl(l.poller, unix.EPOLL_CTL_DEL, fd, nil)
}

// pause makes the loop not watch a connection, resume makes it watch it again, for the same
// events as gnet.
func (l *eventLoop) pause(fd int) error { return l.unwatch(fd) }

func (l *eventLoop) resume(fd int) error {
	return unix.EpollCtl(l.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLPRI, Fd: int32(fd)})
}

// opened does nothing: a connection is counted when it is given to the loop.
func (l *eventLoop) opened() {}

// uncount takes a connection off placed.
func (l *eventLoop) uncount() {
	if n := l.placed.Add(-1); n < 0 {
		panic(fmt.Sprintf("event loop %d has %d connections", l.Index, n))
	}
}

// do calls f in the event loop, after its present callback; from any goroutine.
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

// adopt makes fd, a socket that does not block, one of the loop's connections, and calls
// OnOpen before it returns. fd is the loop's, also on an error. It is called in the event
// loop.
//
// gnet enrolls a net.Conn only, with a second descriptor, and makes the caller wait for the
// loop: a client that connects, puts a job and goes would cost half as much again. Its own
// acceptor is as cheap as this, but ends the server when descriptors run out. So two of its
// functions are linked by name, as they are in the version that go.mod names; adopt_test.go
// compares their declarations with that version's source.
func (l *eventLoop) adopt(fd int, context any) error {
	l.adopting = context
	return register(l.gnet, newStreamConn("tcp", fd, l.gnet, nil, nil, nil))
}

//go:linkname newStreamConn github.com/panjf2000/gnet/v2.newStreamConn
func newStreamConn(proto string, fd int, el unsafe.Pointer, sa unix.Sockaddr, localAddr, remoteAddr net.Addr) unsafe.Pointer

//go:linkname register github.com/panjf2000/gnet/v2.(*eventloop).register0
func register(el, c unsafe.Pointer) error
