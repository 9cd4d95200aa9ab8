package reactor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// A listener has an acceptor in every event loop. The first free loop accepts, so no other thread
// must be woken to wake the loop. A loop gives the new connection to another loop if that one has
// fewer.
type listener struct {
	reactor *Reactor
	l       net.Listener
	raw     syscall.RawConn
	front   session.Front

	mu        sync.Mutex // held to open and shut acceptors
	acceptors []*acceptor
	over      bool          // the listener is closed: the acceptors stay shut
	done      chan struct{} // closed after the listener
}

// listen accepts from l until r refuses it.
func (r *Reactor) listen(l net.Listener, f session.Front) error {
	sc, ok := l.(syscall.Conn)
	if !ok {
		return errors.New("the listener has no descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	in := &listener{reactor: r, l: l, raw: raw, front: f, done: make(chan struct{})}
	if _, ok := l.(*net.TCPListener); ok {
		if err := in.control(inheritable); err != nil {
			return err
		}
	}
	r.mu.Lock()
	if r.refused.has(f) {
		r.mu.Unlock()
		return l.Close()
	}
	r.listeners[l] = served{front: f, close: in.close, open: in.open}
	r.mu.Unlock()
	for _, l := range r.loops {
		added := make(chan error, 1)
		l.do(func() { added <- in.addAcceptor(l) })
		if err := <-added; err != nil {
			in.close()
			return err
		}
	}
	// Nothing is accepted before all loops have their acceptors.
	for _, a := range in.acceptors {
		if err := a.open(); err != nil {
			in.close()
			return err
		}
	}
	<-in.done
	return nil
}

// inheritable sets options of a listener that its connections inherit on Linux.
func inheritable(fd uintptr) error {
	return errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1))
}

// control calls f with the listener's descriptor, unless it is closed.
func (in *listener) control(f func(fd uintptr) error) error {
	var inner error
	err := in.raw.Control(func(fd uintptr) { inner = f(fd) })
	return errors.Join(err, inner)
}

// open opens all acceptors.
func (in *listener) open() {
	in.mu.Lock()
	acceptors := in.acceptors
	in.mu.Unlock()
	for _, a := range acceptors {
		if err := a.open(); err != nil {
			a.backOff()
		}
	}
}

// close closes the listener. It shuts the acceptors first: if another process, such as a service
// manager, shares the descriptor, it stays in the pollers after it is closed here.
func (in *listener) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over {
		return
	}
	in.over = true
	for _, a := range in.acceptors {
		a.shut()
	}
	// Close waits for a loop that is accepting, and the loop may wait for in.mu or for a lock
	// of the caller.
	go func() {
		in.l.Close()
		close(in.done)
	}()
}

// openAcceptors opens the acceptors of all listeners. It does not wait.
func (r *Reactor) openAcceptors() {
	go func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, l := range r.listeners {
			l.open()
		}
	}()
}

// adopt gives l a connection that has a seat and is counted in l.placed. It is called in that
// event loop. in is the listener that has accepted the connection, or nil.
func (r *Reactor) adopt(l *eventLoop, fd int, k *socket, in net.Listener) {
	if err := l.adopt(fd, k); err != nil && k.s == nil {
		l.uncount()
		r.lost()
		if in == nil {
			r.host.Complain(complaintLost, "conn", session.Remote{Addr: k.client}, "err", err)
		} else {
			r.host.Complain(complaintLost, "addr", in.Addr().String(), "err", err)
		}
	}
}

// enroll gives a loop a connection that has a seat, with a duplicate of its descriptor.
func (r *Reactor) enroll(c net.Conn, k *socket) error {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a connection of type %T has no descriptor", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	fd, failed := -1, error(nil)
	err = raw.Control(func(of uintptr) { fd, failed = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("fcntl", failed)); err != nil {
		return err
	}
	var l *eventLoop
	for _, l = range r.loops {
		break
	}
	l = r.roomiest(l)
	l.do(func() { r.adopt(l, fd, k, nil) })
	return nil
}
