package reactor

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// An acceptor accepts connections from a listener in one event loop. For gnet it is a connection
// with a descriptor, the bell, that is always readable. The loop's poller watches the listener
// instead of the bell, but reports the bell's number.
type acceptor struct {
	in     *listener
	at     *eventLoop
	bell   int
	isOpen bool             // the poller watches the listener; guarded by in.mu
	from   func(fd uintptr) // acceptFrom as a function value, allocated once
	wait   atomic.Int64     // nanoseconds until backOff reopens it
	timer  *time.Timer      // reopens it; guarded by in.mu
}

// acceptMax is how many connections are accepted before the turns of the loop's other connections.
const acceptMax = 16

// bellUnits is how often a bell can be read, practically without end.
const bellUnits = 1 << 62

// addAcceptor adds a shut acceptor to the event loop, in which it is called.
func (in *listener) addAcceptor(l *eventLoop) error {
	a := &acceptor{in: in, at: l}
	a.wait.Store(int64(retryMin))
	a.from = a.acceptFrom
	bell, err := newBell()
	if err != nil {
		return err
	}
	a.bell = bell
	if err := l.adopt(bell, a); err != nil {
		return err
	}
	if err := l.unwatch(bell); err != nil {
		return err
	}
	in.mu.Lock()
	in.acceptors = append(in.acceptors, a)
	in.mu.Unlock()
	return nil
}

// newBell makes a descriptor that stays readable however often it is read.
func newBell() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_SEMAPHORE|unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	var count [8]byte
	for i := range count {
		count[i] = byte(uint64(bellUnits) >> (8 * i)) // both of our machines are little-endian
	}
	if _, err := unix.Write(fd, count[:]); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// open makes the poller watch the listener, unless the listener is closed.
func (a *acceptor) open() error {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.isOpen || a.in.over {
		return nil
	}
	err := a.in.control(func(fd uintptr) error { return a.at.watch(int(fd), a.bell) })
	a.isOpen = err == nil
	return err
}

// backOff shuts the acceptor, so that clients wait in the backlog. A timer reopens it, or the
// release of a seat.
func (a *acceptor) backOff() {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	a.shut()
	if a.timer != nil {
		a.timer.Stop() // it was reopened before the timer fired
	}
	wait := a.wait.Load()
	a.timer = a.in.reactor.afterFunc(time.Duration(wait), func() {
		if err := a.open(); err != nil && !errors.Is(err, net.ErrClosed) {
			a.in.reactor.host.Complain("cannot watch a listener; retrying", "addr", a.in.l.Addr().String(), "err", err)
			a.backOff()
		}
	})
	a.wait.Store(min(2*wait, int64(retryMax)))
}

// shut makes the poller not watch the listener. The caller holds in.mu.
func (a *acceptor) shut() {
	if a.isOpen {
		a.isOpen = false
		a.in.control(func(fd uintptr) error { return a.at.unwatch(int(fd)) })
	}
}

// accept is called by the event loop when a client waits.
func (a *acceptor) accept() { a.in.raw.Control(a.from) }

// acceptFrom accepts up to acceptMax waiting clients. With an operator's limit it accepts first,
// and closes the connection if there is no seat. Without one, it takes a seat first, so that
// clients wait in the backlog.
func (a *acceptor) acceptFrom(fd uintptr) {
	r := a.in.reactor
	limit := r.limit.Load()
	most := int64(limit.n)
	for range acceptMax {
		if limit.asked {
			if !a.acceptOne(fd, func() bool { return r.seats.take(most) }) {
				return
			}
			continue
		}
		if !r.seats.take(most) {
			r.host.Complain(complaintFull, "addr", a.in.l.Addr().String(), "limit", limit.n, "from", limit.from)
			r.seats.full.Store(true)
			a.backOff()
			if r.seats.taken.Load() < most {
				r.openAcceptors() // a seat was released before full was set
			}
			return
		}
		came := false
		more := a.acceptOne(fd, func() bool { came = true; return true })
		if !came {
			r.giveUpSeat()
		}
		if !more {
			return
		}
	}
}

// acceptOne accepts a connection, if one waits. If mayCome returns true, it gives the connection
// to a loop, else it closes it. It reports whether another connection may wait.
func (a *acceptor) acceptOne(fd uintptr, mayCome func() bool) bool {
	c, err := accept(fd)
	switch {
	case err == 0 && mayCome():
		a.wait.Store(int64(retryMin))
		a.place(c)
	case err == 0:
		a.turnAway(c)
	case err == unix.EAGAIN:
		return false
	case err == unix.EINTR || err == unix.ECONNABORTED:
	default:
		// Usually out of descriptors or memory. New clients wait in the backlog; connected
		// clients continue.
		a.in.reactor.host.Complain(complaintAccept, "addr", a.in.l.Addr().String(), "err", err)
		a.backOff()
		return false
	}
	return true
}

// place gives a new connection to a loop: this one, unless another has fewer.
func (a *acceptor) place(fd int) {
	to := a.in.reactor.roomiest(a.at)
	r, k := a.in.reactor, &socket{reactor: a.in.reactor, front: a.in.front}
	if to == a.at {
		r.adopt(to, fd, k, a.in.l)
		return
	}
	to.do(func() { r.adopt(to, fd, k, a.in.l) })
}

// roomiest returns the loop for a new connection, and counts it there: the given loop,
// unless another has fewer.
func (r *Reactor) roomiest(to *eventLoop) *eventLoop {
	fewest := to.placed.Load()
	for _, l := range r.loops {
		// A difference of less than an eighth is not worth a wake-up.
		if n := l.placed.Load(); n+n/8 < fewest {
			to, fewest = l, n
		}
	}
	to.placed.Add(1)
	return to
}

// turnAway closes a connection above the limit.
func (a *acceptor) turnAway(fd int) {
	a.in.reactor.reject(peerAt(fd))
	unix.Close(fd)
}
