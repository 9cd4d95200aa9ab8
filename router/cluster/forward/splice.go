package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/router/cluster/transport"
)

// A conn is a *net.TCPConn, a *net.UnixConn, one with TLS, or a *transport.Stream.
type conn interface {
	net.Conn
	CloseWrite() error
}

// lingerMax is how long a client may keep its side open after the leader has closed the other: bytes
// that it still sends get no reply.
const lingerMax = 10 * time.Second

// Splice copies bytes between a client and a stream until both have ended, one breaks, or ctx ends,
// and closes them.
func Splice(ctx context.Context, client conn, leader *transport.Stream) {
	defer context.AfterFunc(ctx, func() { client.Close(); leader.Abort() })()
	splice(client, leader)
}

func splice(client, leader conn) {
	var both sync.WaitGroup
	both.Go(func() {
		if err := copyTo(leader, client); err != nil {
			abort(leader)
			client.Close()
			return
		}
		leader.CloseWrite()
	})
	if err := copyTo(client, leader); err != nil {
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
func abort(c conn) {
	switch c := c.(type) {
	case *transport.Stream:
		c.Abort()
	case interface {
		net.Conn
		SetLinger(sec int) error
	}:
		c.SetLinger(0)
		c.Close()
	case interface{ NetConn() net.Conn }: // TLS: without close_notify
		c.NetConn().Close()
	default:
		c.Close()
	}
}

// copyTo copies until EOF or a deadline, for which it returns nil.
func copyTo(to, from conn) error {
	next, free := reader(from)
	for {
		b, err := next()
		if len(b) > 0 {
			_, failed := to.Write(b)
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
	pieceMax  = 64 << 10 // bytes read at a time
	recordMax = 16 << 10 // bytes that TLS reads at a time
)

// pieces is a pool of buffers.
var pieces = sync.Pool{New: func() any { return new([pieceMax]byte) }}

// reader returns a function that reads the next bytes of a connection, and one that frees them. It
// uses no buffer while it waits, unless the connection is TLS.
func reader(c conn) (next func() ([]byte, error), free func([]byte)) {
	sc, ok := c.(syscall.Conn)
	if s, isStream := c.(*transport.Stream); isStream {
		sc, ok = s.TCP(), s.TCP() != nil
	}
	if ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return func() ([]byte, error) { return readRaw(raw) }, func(b []byte) { pieces.Put((*[pieceMax]byte)(b[:pieceMax])) }
		}
	}
	b := make([]byte, recordMax)
	return func() ([]byte, error) {
		n, err := c.Read(b)
		return b[:n], err
	}, func([]byte) {}
}

// readRaw reads from a descriptor into a buffer of pieces.
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
