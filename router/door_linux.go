package router

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A listening is a listener that is served. Every event loop has a door to it and
// accepts by itself: whoever is free first, without a thread in between that has to be
// woken and to wake the loop in turn. A loop that has more connections than another
// by then gives the new one to that.
type listening struct {
	net  *network
	l    net.Listener
	raw  syscall.RawConn
	gear bool
	from connectionLimit

	mu    sync.Mutex // the doors are opened and shut with it
	doors []*door
	over  bool          // they stay shut
	done  chan struct{} // closed then
}

// A door is one loop's way to a listener. To gnet it is a connection whose descriptor
// can always be read: the loop's poller looks at the listener instead, under that
// descriptor's number.
type door struct {
	in     *listening
	at     *reactor
	bell   int
	open   bool // guarded by in.mu
	accept func(fd uintptr)
	wait   atomic.Int64 // nanoseconds before it is opened again
	timer  *time.Timer  // that opens it; guarded by in.mu
}

// acceptMax connections are accepted before the loop's others have their turn.
const acceptMax = 16

// bellUnits is how often a bell can be read: for ever.
const bellUnits = 1 << 62

// listen accepts from l until n refuses it.
func (n *network) listen(l net.Listener, gear bool, limit connectionLimit) error {
	sc, ok := l.(syscall.Conn)
	if !ok {
		return errors.New("it has no descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	in := &listening{net: n, l: l, raw: raw, gear: gear, from: limit, done: make(chan struct{})}
	if _, ok := l.(*net.TCPListener); ok {
		if err := in.control(inheritable); err != nil {
			return err
		}
	}
	n.mu.Lock()
	if n.isRefusing(gear) {
		n.mu.Unlock()
		return l.Close()
	}
	n.listeners[l] = served{gear: gear, close: in.close, open: in.unlock}
	n.mu.Unlock()
	for _, l := range n.loops {
		opened := make(chan error, 1)
		l.reactor.do(func() { opened <- in.addDoor(l.reactor) })
		if err := <-opened; err != nil {
			in.close()
			return err
		}
	}
	<-in.done
	return nil
}

// inheritable sets what connections are to have that a listener accepts: Linux hands
// it on, and nothing has to be said to each.
func inheritable(fd uintptr) error {
	return errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1))
}

// unlock opens all doors.
func (in *listening) unlock() {
	in.mu.Lock()
	doors := in.doors
	in.mu.Unlock()
	for _, d := range doors {
		if err := d.unlock(); err != nil {
			d.lock()
		}
	}
}

// control calls f with the listener's descriptor, unless that is closed.
func (in *listening) control(f func(fd uintptr) error) error {
	var inner error
	err := in.raw.Control(func(fd uintptr) { inner = f(fd) })
	return errors.Join(err, inner)
}

// addDoor is called in the event loop.
func (in *listening) addDoor(r *reactor) error {
	d := &door{in: in, at: r}
	d.wait.Store(int64(retryMin))
	d.accept = d.acceptFrom
	fd, err := unix.Eventfd(0, unix.EFD_SEMAPHORE|unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	var count [8]byte
	for i := range count {
		count[i] = byte(uint64(bellUnits) >> (8 * i)) // both of our machines are little-endian
	}
	if _, err := unix.Write(fd, count[:]); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	d.bell = fd
	if err := r.adopt(fd, d); err != nil {
		return err
	}
	if err := r.lookAway(fd); err != nil {
		return err
	}
	in.mu.Lock()
	in.doors = append(in.doors, d)
	in.mu.Unlock()
	return d.unlock()
}

// unlock opens the door, unless its listener is over.
func (d *door) unlock() error {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	if d.open || d.in.over {
		return nil
	}
	err := d.in.control(func(fd uintptr) error { return d.at.look(int(fd), d.bell) })
	d.open = err == nil
	return err
}

// lock shuts the door: clients wait in the backlog. It is opened again later, or when
// a connection leaves.
func (d *door) lock() {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	d.shut()
	if d.timer != nil {
		d.timer.Stop() // the door was opened before its time, and is shut again
	}
	wait := d.wait.Load()
	d.timer = time.AfterFunc(time.Duration(wait), func() {
		if err := d.unlock(); err != nil && !errors.Is(err, net.ErrClosed) {
			d.in.net.srv.complain("cannot look at a listener; trying again", "addr", d.in.l.Addr().String(), "err", err)
			d.lock()
		}
	})
	d.wait.Store(min(2*wait, int64(retryMax)))
}

// shut is called with in.mu held.
func (d *door) shut() {
	if d.open {
		d.open = false
		d.in.control(func(fd uintptr) error { return d.at.lookAway(int(fd)) })
	}
}

// close ends the listening: the doors are shut first, since a descriptor that another
// process has as well, as a service manager does, stays in the pollers after its end here.
func (in *listening) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over {
		return
	}
	in.over = true
	for _, d := range in.doors {
		d.shut()
	}
	// Close waits for a loop that is accepting, and that may wait for the lock, or for
	// what the caller has locked.
	go func() {
		in.l.Close()
		close(in.done)
	}()
}

// knock is called by the event loop when somebody wants in.
func (d *door) knock() { d.in.raw.Control(d.accept) }

func (d *door) acceptFrom(fd uintptr) {
	n := d.in.net
	limit := int64(d.in.from.n)
	for range acceptMax {
		if d.in.from.asked {
			if !d.acceptOne(fd, func() bool { return n.reserve(limit) }) {
				return
			}
			continue
		}
		if !n.reserve(limit) {
			n.srv.complain(complaintFull, "addr", d.in.l.Addr().String(), "limit", d.in.from.n, "from", d.in.from.from)
			n.full.Store(true)
			d.lock()
			if n.open.Load() < limit {
				n.vacant()
			}
			return
		}
		taken := false
		more := d.acceptOne(fd, func() bool { taken = true; return true })
		if !taken {
			n.gone()
		}
		if !more {
			return
		}
	}
}

// reserve counts a connection, unless there are as many as may be.
func (n *network) reserve(limit int64) bool {
	for {
		open := n.open.Load()
		if open >= limit {
			return false
		}
		if n.open.CompareAndSwap(open, open+1) {
			return true
		}
	}
}

// acceptOne accepts a connection, if one waits, and seats it if it may come in: else it
// is turned away. It reports whether there may be another.
func (d *door) acceptOne(fd uintptr, mayCome func() bool) bool {
	c, err := accept(fd)
	switch {
	case err == 0 && mayCome():
		d.wait.Store(int64(retryMin))
		d.seat(c)
	case err == 0:
		d.in.net.turnAway(c, d.in.from)
	case err == unix.EAGAIN:
		return false
	case err == unix.EINTR || err == unix.ECONNABORTED:
	default:
		// Out of descriptors or memory, mostly. Those who want in wait in
		// the backlog; those who are in go on.
		d.in.net.srv.complain(complaintAccept, "addr", d.in.l.Addr().String(), "err", err)
		d.lock()
		return false
	}
	return true
}

// seat gives a new connection to a loop: this one, unless another has fewer.
func (d *door) seat(fd int) {
	n, r := d.in.net, d.at
	own := r.placed.Load()
	for _, l := range n.loops {
		// What differs by less than an eighth is not worth a wake-up.
		if least := l.reactor.placed.Load(); least+least/8 < own {
			r, own = l.reactor, least
		}
	}
	r.placed.Add(1)
	if r == d.at {
		d.in.adopt(r, fd)
		return
	}
	r.do(func() { d.in.adopt(r, fd) })
}

// adopt is called in the event loop of r.
func (in *listening) adopt(r *reactor, fd int) {
	n := in.net
	k := &socket{net: n, gear: in.gear}
	if err := r.adopt(fd, k); err != nil && k.s == nil {
		r.placed.Add(-1)
		n.gone()
		n.srv.complain(complaintLost, "addr", in.l.Addr().String(), "err", err)
	}
}

// vacant opens all doors, behind what the caller is doing.
func (n *network) vacant() {
	go func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, l := range n.listeners {
			l.open()
		}
	}()
}

// turnAway closes a connection that is one too many.
func (n *network) turnAway(fd int, limit connectionLimit) {
	n.srv.complain(complaintRefused, "conn", remote{peerAt(fd)}, "limit", limit.n, "from", limit.from)
	unix.Close(fd)
}

// accept never waits; see send.
func accept(fd uintptr) (int, unix.Errno) {
	c, _, err := unix.RawSyscall6(unix.SYS_ACCEPT4, fd, 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int(c), err
}
