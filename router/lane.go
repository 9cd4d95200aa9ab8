package router

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A lane writes what a socket did not take at once. gnet would keep it in a
// buffer of its own, of which it neither tells when it is empty nor sends all
// when the client half-closes; so a lane has its own descriptor of the socket
// and a goroutine that lasts as long as the congestion does, or, once gnet has
// closed its side, until the session is done.
type lane struct {
	to      laneWriter
	emptied func()                  // called from the goroutine whenever all is sent
	ended   func(heir, failed bool) // called from the goroutine when it ends

	// direct writes what the socket takes at once; nil: that is not known.
	direct func(p []byte) (int, error)

	mu     sync.Mutex
	more   sync.Cond
	queue  sendQueue
	stay   bool // do not end when the queue is empty: wait for more
	over   bool // no more bytes are taken
	heir   bool // the lane is all that is left of the connection
	failed bool
}

// laneWriter is a socket whose Write blocks until all is taken: an *os.File.
type laneWriter interface {
	io.WriteCloser
	SetWriteDeadline(time.Time) error
}

// newLane makes a lane that owns to, with its first bytes. Its goroutine is
// the caller's to start: run.
func newLane(to laneWriter, acct *account, first []byte, stable, stay bool, emptied func(), ended func(heir, failed bool)) *lane {
	n := &lane{to: to, emptied: emptied, ended: ended, stay: stay}
	n.more.L = &n.mu
	n.queue.acct = acct
	n.queue.add(first, stable)
	return n
}

// write is add, but while nothing is queued the socket takes what it can at once: the
// lane of a connection that is paused has mostly nothing to wait for, and to wake its
// goroutine costs more than to write.
func (n *lane) write(p []byte, stable bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.direct != nil && n.queue.bytes == 0 && !n.over {
		if k, err := n.direct(p); err == nil {
			p = p[k:] // the goroutine meets an error as well, and says so
		}
		if len(p) == 0 {
			return true
		}
	}
	return n.put(p, stable)
}

// add queues p, a copy of it unless it is stable: it never changes then. It
// reports false when the lane is over: everything before was written, or the
// connection is dead.
func (n *lane) add(p []byte, stable bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.put(p, stable)
}

func (n *lane) put(p []byte, stable bool) bool {
	if n.over {
		return false
	}
	n.queue.add(p, stable)
	n.more.Signal()
	return true
}

// len is the number of bytes not yet taken by the socket.
func (n *lane) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.queue.bytes
}

// lasts reports whether the lane is not over.
func (n *lane) lasts() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.over
}

// keep makes the lane stay when its queue is empty. It reports false when it
// is over already.
func (n *lane) keep() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stay = !n.over
	return n.stay
}

// inherit makes the lane stand for the connection, which gnet has let go. It
// reports false when it is over already.
func (n *lane) inherit() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heir = !n.over
	return n.heir
}

// lingerMax is how long a closed connection may take to read its last replies.
const lingerMax = 10 * time.Second

// dup is the connection with a descriptor of its own.
func (n *lane) dup() (net.Conn, error) {
	fd := -1
	err := n.control(func(own uintptr) (err error) {
		fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
		return os.NewSyscallError("fcntl", err)
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "connection")
	defer f.Close()
	return net.FileConn(f)
}

// hungUp reports whether the client sends no more or is gone, without reading.
func (n *lane) hungUp() bool {
	hup := false
	err := n.control(func(own uintptr) error {
		p := []unix.PollFd{{Fd: int32(own), Events: pollHangUp}}
		if _, err := unix.Poll(p, 0); err != nil {
			return err
		}
		hup = p[0].Revents&(pollHangUp|unix.POLLHUP|unix.POLLERR) != 0
		return nil
	})
	return hup || errors.Is(err, os.ErrClosed)
}

// control calls f with the lane's descriptor.
func (n *lane) control(f func(fd uintptr) error) error {
	sc, ok := n.to.(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := rc.Control(func(fd uintptr) { inner = f(fd) }); err != nil {
		return err
	}
	return inner
}

// leave lets the lane end when its queue is empty: there is another way to
// write again.
func (n *lane) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stay = false
	n.more.Signal()
}

// finish ends the lane once the queue is empty.
func (n *lane) finish() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stay = false
	n.to.SetWriteDeadline(time.Now().Add(lingerMax))
	n.more.Signal()
}

// drop ends the lane at once.
func (n *lane) drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = true
	n.stop()
	n.to.Close() // wakes a write that blocks
}

func (n *lane) stop() {
	n.over, n.stay = true, false
	n.queue.drop()
	n.more.Signal()
}

func (n *lane) run() {
	defer func() {
		n.to.Close()
		n.mu.Lock()
		heir, failed := n.heir, n.failed
		n.mu.Unlock()
		n.ended(heir, failed)
	}()
	var room [laneParts][]byte
	for {
		bufs := net.Buffers(n.next(room[:0]))
		if len(bufs) == 0 {
			return
		}
		// Blocks for as long as the client does not read, like the reference.
		k, err := bufs.WriteTo(n.to)
		clear(room[:])
		n.mu.Lock()
		if !n.over { // else all was dropped meanwhile
			n.queue.sent(int(k))
		}
		if err != nil {
			n.failed = true
			n.stop()
		}
		empty := n.queue.bytes == 0 && !n.failed
		n.mu.Unlock()
		if empty {
			n.emptied()
		}
	}
}

// laneParts and laneBytes are what is written, and given back, at once.
const (
	laneParts = 64
	laneBytes = 256 << 10
)

// next waits for bytes to write; none ends the lane.
func (n *lane) next(room [][]byte) [][]byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.queue.bytes == 0 && n.stay {
		n.more.Wait()
	}
	if n.queue.bytes == 0 {
		n.over = true
		return nil
	}
	return n.queue.peek(room, laneBytes)
}
