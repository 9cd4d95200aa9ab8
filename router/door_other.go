//go:build !linux

package router

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A reactor counts what one of gnet's event loops was given. See adopt_linux.go for
// more than that.
type reactor struct {
	poller  int // its kqueue descriptor
	loop    *loop
	opening any
	placed  atomic.Int64
}

// hasTasks: there is no way to leave it one here.
func (r *reactor) hasTasks() bool { return false }

func newReactor(el any, l *loop) (*reactor, error) {
	poller, err := pollerOf(el)
	return &reactor{poller: poller, loop: l}, err
}

// pause has the loop not look at a connection, resume has it look again.
func (r *reactor) pause(fd int) error { return r.change(fd, unix.EV_DISABLE) }

func (r *reactor) resume(fd int) error { return r.change(fd, unix.EV_ENABLE) }

func (r *reactor) change(fd int, flags uint16) error {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, fd, unix.EVFILT_READ, int(flags))
	_, err := unix.Kevent(r.poller, []unix.Kevent_t{ev}, nil, nil)
	return err
}

func (r *reactor) work() {}

// A door is Linux's.
type door struct{}

func (*door) knock() {}

// listen accepts from l until n refuses it, by way of net and gnet's Enroll: options
// of a listener reach its connections on Linux only.
func (n *network) listen(l net.Listener, gear bool, limit connectionLimit) error {
	n.mu.Lock()
	if n.isRefusing(gear) {
		n.mu.Unlock()
		return l.Close()
	}
	n.listeners[l] = served{gear: gear, close: func() { l.Close() }, open: func() {}}
	n.mu.Unlock()
	wait := retryMin
	for {
		for !limit.asked && n.open.Load() >= int64(limit.n) && !n.isStopping(gear) {
			n.srv.complain(complaintFull, "addr", l.Addr().String(), "limit", limit.n, "from", limit.from)
			time.Sleep(retryMax)
		}
		nc, err := l.Accept()
		switch {
		case err == nil:
			wait = retryMin
			n.admit(nc, gear, limit)
		case n.isStopping(gear):
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		default:
			n.srv.complain(complaintAccept, "addr", l.Addr().String(), "err", err)
			time.Sleep(wait)
			wait = min(2*wait, retryMax)
		}
	}
}

// admit enrolls a new connection, or closes it when there are too many.
func (n *network) admit(nc net.Conn, gear bool, limit connectionLimit) {
	if n.open.Add(1) > int64(limit.n) && limit.asked {
		n.open.Add(-1)
		n.srv.complain(complaintRefused, "conn", remote{nc.RemoteAddr()}, "limit", limit.n, "from", limit.from)
		nc.Close()
		return
	}
	k := &socket{net: n, gear: gear}
	if _, err := n.client.EnrollContext(nc, k); err != nil || k.s == nil {
		n.gone()
		n.srv.complain(complaintLost, "conn", remote{nc.RemoteAddr()}, "err", err)
	}
}

func (n *network) isStopping(gear bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.isRefusing(gear)
}

func (n *network) vacant() {}
