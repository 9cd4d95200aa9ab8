package forward

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An end is one of two connections that are joined: a *net.TCPConn, a *net.UnixConn, or a
// Stream.
type end interface {
	net.Conn
	CloseWrite() error
}

// lingerMax is how long a client may take to close its side when the leader has closed its
// own: what it still sends is answered by nobody.
const lingerMax = 10 * time.Second

// join hands on what comes at each end to the other, until both have ended or one is
// broken, and closes them. An end that sends no more still hears what the other says.
func join(client, leader end, toLeader, toClient *atomic.Uint64) {
	var both sync.WaitGroup
	both.Go(func() {
		if err := hand(client, leader, toLeader); err != nil {
			abort(leader)
			client.Close()
			return
		}
		leader.CloseWrite()
	})
	if err := hand(leader, client, toClient); err != nil {
		abort(client)
		abort(leader)
	} else {
		client.CloseWrite()
		client.SetReadDeadline(time.Now().Add(lingerMax))
	}
	both.Wait()
	client.Close()
	leader.Close()
}

// abort ends a connection so that its other end reads an error.
func abort(c end) {
	switch c := c.(type) {
	case Stream:
		c.Abort()
	case *net.TCPConn:
		c.SetLinger(0)
		c.Close()
	default:
		c.Close()
	}
}

// hand hands on what from says, until it ends: nil. A deadline is an end as well.
func hand(from, to end, n *atomic.Uint64) error {
	next := reader(from)
	for {
		b, err := next()
		if err == nil {
			_, err = to.Write(*b)
			n.Add(uint64(len(*b)))
			free(b)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		}
	}
}

// pieceMax bytes are read at a time.
const pieceMax = 64 << 10

// pieces are buffers of pieceMax bytes that nobody uses.
var pieces = sync.Pool{New: func() any { return new(make([]byte, pieceMax)) }}

func newPiece() *[]byte { return pieces.Get().(*[]byte) }

func free(b *[]byte) {
	*b = (*b)[:pieceMax]
	pieces.Put(b)
}

// reader gives what reads from a connection, a piece at a time, which is to be freed. While
// it waits it has no buffer, if the connection is one of the system's.
func reader(c end) func() (*[]byte, error) {
	sc, ok := c.(syscall.Conn)
	if s, isStream := c.(Stream); isStream {
		sc, ok = s.TCP(), s.TCP() != nil
	}
	if ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return func() (*[]byte, error) { return readRaw(raw) }
		}
	}
	return func() (*[]byte, error) {
		b := newPiece()
		n, err := c.Read(*b)
		if n == 0 && err != nil {
			free(b)
			return nil, err
		}
		*b = (*b)[:n] // an error comes again
		return b, nil
	}
}

// readRaw is reader for a descriptor.
func readRaw(raw syscall.RawConn) (*[]byte, error) {
	var (
		b      *[]byte
		failed error
	)
	err := raw.Read(func(fd uintptr) bool {
		b = newPiece()
		for {
			n, err := unix.Read(int(fd), *b)
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EAGAIN:
				free(b)
				b = nil
				return false
			case err != nil:
				failed = os.NewSyscallError("read", err)
			case n == 0:
				failed = io.EOF
			default:
				*b = (*b)[:n]
				return true
			}
			free(b)
			b = nil
			return true
		}
	})
	return b, errors.Join(err, failed)
}
