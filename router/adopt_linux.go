package router

import (
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A reactor is one of gnet's event loops, with what gnet has no interface for: it takes
// connections by descriptor, and its poller can be told what to look at.
//
// gnet enrolls a net.Conn only, by way of a second descriptor, and has the caller wait
// until the loop has taken it: with that a client that connects, puts a job and goes
// costs half as much again. Its own acceptor would be as cheap as this, but ends the
// server when descriptors run out. So two of its functions are called by their names
// here, as they are in the version that go.mod names; adopt_test.go compares their
// declarations with that version's source, so that no other is taken unseen.
type reactor struct {
	el     unsafe.Pointer // gnet's *eventloop
	poller int            // its epoll descriptor
	loop   *loop          // ours on top of it

	opening any          // context of the connection that is being adopted
	placed  atomic.Int64 // connections that it was given and that have not gone

	mu      sync.Mutex
	tasks   []func() // to be called in the event loop
	waiting atomic.Bool
}

// newReactor is for el, a gnet.EventLoop.
func newReactor(el any, l *loop) (*reactor, error) {
	poller, err := pollerOf(el)
	return &reactor{el: reflect.ValueOf(el).UnsafePointer(), poller: poller, loop: l}, err
}

// adopt makes fd, a socket that does not block, one of the loop's connections, with
// OnOpen called before it returns. fd is the loop's, also on an error. It is called in
// the event loop.
func (r *reactor) adopt(fd int, context any) error {
	r.opening = context
	return register(r.el, newStreamConn("tcp", fd, r.el, nil, nil, nil))
}

// look has the loop look at fd, and take what is ready for as connection. Of several
// loops that look at it one is told, or a few.
func (r *reactor) look(fd, as int) error {
	return unix.EpollCtl(r.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLEXCLUSIVE, Fd: int32(as)})
}

// lookAway ends look.
func (r *reactor) lookAway(fd int) error {
	return unix.EpollCtl(r.poller, unix.EPOLL_CTL_DEL, fd, nil)
}

// pause has the loop not look at a connection, resume has it look again, for what
// gnet's poller looks for.
func (r *reactor) pause(fd int) error { return r.lookAway(fd) }

func (r *reactor) resume(fd int) error {
	return unix.EpollCtl(r.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLPRI, Fd: int32(fd)})
}

// do has f called in the event loop, behind what that is doing; from any goroutine.
func (r *reactor) do(f func()) {
	r.mu.Lock()
	r.tasks = append(r.tasks, f)
	r.waiting.Store(true)
	r.mu.Unlock()
	r.loop.ask()
}

// hasTasks reports whether work has something to do; from any goroutine.
func (r *reactor) hasTasks() bool { return r.waiting.Load() }

// work is called in the event loop whenever it was woken.
func (r *reactor) work() {
	if !r.waiting.Load() {
		return
	}
	r.mu.Lock()
	tasks := r.tasks
	r.tasks = nil
	r.waiting.Store(false)
	r.mu.Unlock()
	for _, f := range tasks {
		f()
	}
}

//go:linkname newStreamConn github.com/panjf2000/gnet/v2.newStreamConn
func newStreamConn(proto string, fd int, el unsafe.Pointer, sa unix.Sockaddr, localAddr, remoteAddr net.Addr) unsafe.Pointer

//go:linkname register github.com/panjf2000/gnet/v2.(*eventloop).register0
func register(el, c unsafe.Pointer) error
