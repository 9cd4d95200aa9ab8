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

	mu     sync.Mutex
	more   sync.Cond
	queue  [][]byte
	own    bool // the last of queue is ours, and may be appended to
	unsent int
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
func newLane(to laneWriter, first []byte, stay bool, emptied func(), ended func(heir, failed bool)) *lane {
	n := &lane{to: to, emptied: emptied, ended: ended, stay: stay}
	n.more.L = &n.mu
	if len(first) > 0 {
		n.queue = append(n.queue, first)
		n.unsent = len(first)
	}
	return n
}

// laneBlock is the least memory for copied bytes, so that many small replies
// share one entry of the queue.
const laneBlock = 4 << 10

// add queues p, a copy of it unless it is stable: it never changes then. It
// reports false when the lane is over: everything before was written, or the
// connection is dead.
func (n *lane) add(p []byte, stable bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return false
	}
	switch last := len(n.queue) - 1; {
	case stable:
		n.queue = append(n.queue, p)
	case last >= 0 && n.own && cap(n.queue[last])-len(n.queue[last]) >= len(p):
		n.queue[last] = append(n.queue[last], p...)
	default:
		n.queue = append(n.queue, append(make([]byte, 0, max(laneBlock, len(p))), p...))
	}
	n.own = !stable
	n.unsent += len(p)
	n.more.Signal()
	return true
}

// len is the number of bytes not yet taken by the socket.
func (n *lane) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unsent
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
	for _, p := range n.queue {
		n.unsent -= len(p)
	}
	n.queue = nil
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
	for {
		queue, size := n.next()
		if queue == nil {
			return
		}
		// Blocks for as long as the client does not read, like the reference.
		_, err := queue.WriteTo(n.to)
		n.mu.Lock()
		if n.unsent -= size; err != nil {
			n.failed = true
			n.stop()
		}
		empty := n.unsent == 0 && !n.failed
		n.mu.Unlock()
		if empty {
			n.emptied()
		}
	}
}

// next waits for bytes to write; nil ends the lane.
func (n *lane) next() (queue net.Buffers, size int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) == 0 && n.stay {
		n.more.Wait()
	}
	if len(n.queue) == 0 {
		n.over = true
		return nil, 0
	}
	for _, p := range n.queue {
		size += len(p)
	}
	queue, n.queue, n.own = n.queue, nil, false
	return queue, size
}
