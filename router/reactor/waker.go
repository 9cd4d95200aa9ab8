package reactor

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A waker has a loop's GoOn called by its poller: it is one end of a pair of sockets
// whose other end is among the loop's connections, and a byte in it makes that one ready.
// So the call takes its place among all that is ready, and every other socket has its turn
// between two of them.
//
// gnet's own way, EventLoop.Execute, does not: the poller runs what it is given until
// there is no more, before it looks at a socket again, and two loops that have something
// for each other feed each other.
type waker struct {
	loop  *eventLoop    // set by Reactor.meet, before anybody can want it woken
	turns atomic.Uint64 // times that the poller has called it

	mu sync.Mutex // held to use fd
	fd int        // -1: closed
}

// wakeAgain is when a wake-up that failed is tried again.
const wakeAgain = time.Millisecond

var oneByte = []byte{0}

// startWakers gives each of gnet's loops one of ours, and that a waker. gnet has the loop
// with the fewest connections take the next one, hence each one of these.
func (r *Reactor) startWakers() error {
	for range r.opts.Loops {
		if err := r.startWaker(); err != nil {
			return err
		}
	}
	if r.strange != nil {
		return r.strange
	}
	if len(r.loops) != r.opts.Loops {
		return errors.New("one cannot be woken")
	}
	return nil
}

func (r *Reactor) startWaker() error {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(p[0])
	unix.CloseOnExec(p[1])
	w := &waker{fd: p[1]}
	r.wakers = append(r.wakers, w)
	f := os.NewFile(uintptr(p[0]), "waker")
	defer f.Close()
	if err := unix.SetNonblock(w.fd, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	nc, err := net.FileConn(f)
	if err != nil {
		return err
	}
	_, err = r.client.EnrollContext(nc, w)
	return err
}

// wake has woken called; from any goroutine. At most one byte is under way.
func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.fd >= 0 {
		switch _, err := unix.Write(w.fd, oneByte); err {
		case nil:
			return
		case unix.EINTR:
		default:
			// The kernel had no memory for the byte. Without one under way the loop
			// would not be woken any more.
			w.loop.WakeFailed(wakeAgain)
			return
		}
	}
}

// woken is called by the event loop.
func (w *waker) woken() {
	w.loop.Enter()
	w.loop.GoOn(true)
	w.loop.Exit()
	w.loop.work()
	w.turns.Add(1)
}

// stopWakers is called when the event loops have ended.
func (r *Reactor) stopWakers() {
	for _, w := range r.wakers {
		w.mu.Lock()
		unix.Close(w.fd)
		w.fd = -1
		w.mu.Unlock()
	}
}
