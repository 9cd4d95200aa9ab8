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
	next, free := reader(from)
	for {
		b, err := next()
		if len(b) > 0 {
			_, failed := to.Write(b)
			n.Add(uint64(len(b)))
			free(b)
			if failed != nil {
				return failed
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		}
	}
}

const (
	// pieceMax bytes are read at a time.
	pieceMax = 64 << 10
	// recordMax bytes are what TLS reads at a time.
	recordMax = 16 << 10
)

// pieces are buffers of pieceMax bytes that nobody uses.
var pieces = sync.Pool{New: func() any { return new([pieceMax]byte) }}

// reader gives what reads from a connection, a piece at a time, which is to be freed. While
// it waits it has no buffer, if the connection is one of the system's.
func reader(c end) (next func() ([]byte, error), free func([]byte)) {
	sc, ok := c.(syscall.Conn)
	if s, isStream := c.(Stream); isStream {
		sc, ok = s.TCP(), s.TCP() != nil
	}
	if ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return func() ([]byte, error) { return readRaw(raw) }, freePiece
		}
	}
	b := make([]byte, recordMax)
	return func() ([]byte, error) {
		n, err := c.Read(b)
		return b[:n], err
	}, func([]byte) {}
}

// freePiece takes back the beginning of a piece.
func freePiece(b []byte) { pieces.Put((*[pieceMax]byte)(b[:pieceMax])) }

// readRaw reads from a descriptor.
func readRaw(raw syscall.RawConn) (b []byte, err error) {
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		piece := pieces.Get().(*[pieceMax]byte)
		for {
			n, err := unix.Read(int(fd), piece[:])
			switch {
			case err == unix.EINTR:
				continue
			case n > 0:
				b = piece[:n]
				return true
			case err == unix.EAGAIN:
			case err != nil:
				failed = os.NewSyscallError("read", err)
			default:
				failed = io.EOF
			}
			pieces.Put(piece)
			return err != unix.EAGAIN
		}
	})
	if err == nil {
		err = failed
	}
	return b, err
}
