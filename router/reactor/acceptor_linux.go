package reactor

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// An acceptor is one event loop's way to a listener. To gnet it is a connection whose
// descriptor, the bell, can always be read: the loop's poller looks at the listener
// instead, under that descriptor's number.
type acceptor struct {
	in     *listener
	at     *eventLoop
	bell   int
	isOpen bool             // the poller looks at the listener; guarded by in.mu
	from   func(fd uintptr) // acceptFrom, made a function value once
	wait   atomic.Int64     // nanoseconds before it is opened again
	timer  *time.Timer      // that opens it; guarded by in.mu
}

// acceptMax connections are accepted before the loop's others have their turn.
const acceptMax = 16

// bellUnits is how often a bell can be read: for ever.
const bellUnits = 1 << 62

// addAcceptor is called in the event loop. It does not look at the listener yet.
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
	if err := l.lookAway(bell); err != nil {
		return err
	}
	in.mu.Lock()
	in.acceptors = append(in.acceptors, a)
	in.mu.Unlock()
	return nil
}

// newBell makes a descriptor that can always be read, in small pieces.
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

// open has the loop look at the listener, unless that is over.
func (a *acceptor) open() error {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.isOpen || a.in.over {
		return nil
	}
	err := a.in.control(func(fd uintptr) error { return a.at.look(int(fd), a.bell) })
	a.isOpen = err == nil
	return err
}

// backOff shuts the acceptor: clients wait in the backlog. It is opened again later, or
// when a seat is given up.
func (a *acceptor) backOff() {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	a.shut()
	if a.timer != nil {
		a.timer.Stop() // it was opened before its time, and is shut again
	}
	wait := a.wait.Load()
	a.timer = a.in.reactor.afterFunc(time.Duration(wait), func() {
		if err := a.open(); err != nil && !errors.Is(err, net.ErrClosed) {
			a.in.reactor.host.Complain("cannot look at a listener; trying again", "addr", a.in.l.Addr().String(), "err", err)
			a.backOff()
		}
	})
	a.wait.Store(min(2*wait, int64(retryMax)))
}

// shut has the loop not look at the listener any more. It is called with in.mu held.
func (a *acceptor) shut() {
	if a.isOpen {
		a.isOpen = false
		a.in.control(func(fd uintptr) error { return a.at.lookAway(int(fd)) })
	}
}

// accept is called by the event loop when somebody wants in.
func (a *acceptor) accept() { a.in.raw.Control(a.from) }

// acceptFrom accepts those who wait, some at a time. Who has a limit of the operator's
// turns clients away that are too many, and looks at the limit once there is one; without
// it they wait in the backlog, so that a seat is taken before one is accepted.
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
				r.openAcceptors() // one was given up before it could know that somebody waits
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

// acceptOne accepts a connection, if one waits, and gives it to a loop if it may come in:
// else it is turned away. It reports whether there may be another.
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
		// Out of descriptors or memory, mostly. Those who want in wait in the backlog;
		// those who are in go on.
		a.in.reactor.host.Complain(complaintAccept, "addr", a.in.l.Addr().String(), "err", err)
		a.backOff()
		return false
	}
	return true
}

// place gives a new connection to a loop: this one, unless another has fewer.
func (a *acceptor) place(fd int) {
	to := a.in.reactor.roomiest(a.at)
	if to == a.at {
		a.in.adopt(to, fd)
		return
	}
	to.do(func() { a.in.adopt(to, fd) })
}

// roomiest is the loop for a new connection, which is counted there: the given one, unless
// another has fewer.
func (r *Reactor) roomiest(to *eventLoop) *eventLoop {
	fewest := to.placed.Load()
	for _, l := range r.loops {
		// What differs by less than an eighth is not worth a wake-up.
		if n := l.placed.Load(); n+n/8 < fewest {
			to, fewest = l, n
		}
	}
	to.placed.Add(1)
	return to
}

// turnAway closes a connection that is one too many.
func (a *acceptor) turnAway(fd int) {
	a.in.reactor.reject(peerAt(fd))
	unix.Close(fd)
}
