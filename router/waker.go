package router

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A waker has a loop's drain called by its poller: it is one end of a pair of sockets
// whose other end is among the loop's connections, and a byte in it makes that one
// ready. So the call takes its place among all that is ready, and every other socket
// has its turn between two of them.
//
// gnet's own way, EventLoop.Execute, does not: the poller runs what it is given until
// there is no more, before it looks at a socket again, and two loops that have
// something for each other feed each other.
type waker struct {
	net  *network
	loop *loop

	mu sync.Mutex // held to use fd
	fd int        // -1: closed
}

// startWakers gives each of gnet's loops one of ours, and that a waker. gnet has the
// loop with the fewest connections take the next one, hence each one of these.
func (n *network) startWakers() error {
	for range n.srv.cfg.Loops {
		if err := n.startWaker(); err != nil {
			return err
		}
	}
	if n.strange != nil {
		return n.strange
	}
	if len(n.loops) != n.srv.cfg.Loops {
		return errors.New("one cannot be woken")
	}
	return nil
}

func (n *network) startWaker() error {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(p[0])
	unix.CloseOnExec(p[1])
	w := &waker{net: n, fd: p[1]}
	n.wakers = append(n.wakers, w)
	f := os.NewFile(uintptr(p[0]), "waker")
	defer f.Close()
	if err := unix.SetNonblock(w.fd, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	nc, err := net.FileConn(f)
	if err != nil {
		return err
	}
	_, err = n.client.EnrollContext(nc, w)
	return err
}

// opened makes the loop. Its event loop calls it, before there are others of its
// connections.
func (w *waker) opened() *loop {
	w.loop = newLoop(w.net.srv, w.wake)
	w.loop.helped = true
	w.net.srv.addLoop(w.loop)
	return w.loop
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
			w.loop.woken.Store(false)
			time.AfterFunc(wakeAgain, w.loop.run)
			return
		}
	}
}

// wakeAgain is when a wake-up that failed is tried again.
const wakeAgain = time.Millisecond

var oneByte = []byte{0}

func (w *waker) woken() {
	w.loop.enter()
	w.loop.drain(true)
	w.loop.exit()
	w.loop.reactor.work()
}

// stopWakers is called when the event loops have ended.
func (n *network) stopWakers() {
	for _, w := range n.wakers {
		w.mu.Lock()
		unix.Close(w.fd)
		w.fd = -1
		w.mu.Unlock()
	}
}
