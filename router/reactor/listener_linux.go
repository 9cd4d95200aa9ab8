package reactor

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// A listener is one that is served. Every event loop has an acceptor for it and accepts by
// itself: whoever is free first, without a thread in between that has to be woken and to
// wake the loop in turn. A loop that has more connections than another by then gives the
// new one to that.
type listener struct {
	reactor *Reactor
	l       net.Listener
	raw     syscall.RawConn
	front   session.Front

	mu        sync.Mutex // the acceptors are opened and shut with it
	acceptors []*acceptor
	over      bool          // they stay shut
	done      chan struct{} // closed then
}

// listen accepts from l until r refuses it.
func (r *Reactor) listen(l net.Listener, f session.Front) error {
	sc, ok := l.(syscall.Conn)
	if !ok {
		return errors.New("it has no descriptor")
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
	// Nobody is let in before all loops have what they need for it.
	for _, a := range in.acceptors {
		if err := a.open(); err != nil {
			in.close()
			return err
		}
	}
	<-in.done
	return nil
}

// inheritable sets what connections are to have that a listener accepts: Linux hands it
// on, and nothing has to be said to each.
func inheritable(fd uintptr) error {
	return errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1))
}

// control calls f with the listener's descriptor, unless that is closed.
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

// close ends the listener: the acceptors are shut first, since a descriptor that another
// process has as well, as a service manager does, stays in the pollers after its end here.
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
	// Close waits for a loop that is accepting, and that may wait for the lock, or for what
	// the caller has locked.
	go func() {
		in.l.Close()
		close(in.done)
	}()
}

// adopt is called in the event loop, which is given a new connection.
func (in *listener) adopt(l *eventLoop, fd int) {
	r := in.reactor
	k := &socket{reactor: r, front: in.front}
	if err := l.adopt(fd, k); err != nil && k.s == nil {
		l.uncount()
		r.giveUpSeat()
		r.host.CountRejection(session.RejectedLost)
		r.host.Complain(complaintLost, "addr", in.l.Addr().String(), "err", err)
	}
}

// openAcceptors opens those of all listeners, behind what the caller is doing.
func (r *Reactor) openAcceptors() {
	go func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, l := range r.listeners {
			l.open()
		}
	}()
}
