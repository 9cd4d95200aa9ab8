package forward

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/router/cluster/transport"
)

// A Take serves a client on a duplicate of the descriptor of c, a *net.TCPConn or *net.UnixConn.
// It closes c, also on an error. client is the client's address; nil: the other end of c is
// the client.
type Take func(c net.Conn, protocol string, client net.Addr) error

// File descriptors that a forwarded client takes: on the leader without and with TLS, beside the
// one that the limit of connections counts, and on the follower.
const (
	DescriptorsPlain    = 1
	DescriptorsSecure   = 3
	DescriptorsFollower = 2
)

// A Receiver is the leader's side. Its methods are safe for concurrent use.
type Receiver struct {
	ctx   context.Context
	take  Take
	log   *slog.Logger
	pairs chan struct{} // one element for each socket pair
}

// NewReceiver returns a Receiver that gives clients to take. It serves at most secure streams with
// TLS at a time, because each needs three descriptors. The end of ctx ends these streams. log
// limits repeated lines.
func NewReceiver(ctx context.Context, take Take, secure int, log *slog.Logger) *Receiver {
	return &Receiver{ctx: ctx, take: take, log: log, pairs: make(chan struct{}, max(1, secure))}
}

// headerTimeout bounds the time to send or receive a header.
const headerTimeout = 3 * time.Second

// Receive serves a client of a follower and closes s. It returns when the leader has taken the
// client, with TLS when the client is gone.
func (r *Receiver) Receive(s *transport.Stream) {
	defer s.Close()
	if err := r.receive(s); err != nil {
		r.log.Warn("a client's connection that another server has forwarded cannot be served", "conn", s.RemoteAddr().String(), "err", err)
	}
}

func (r *Receiver) receive(s *transport.Stream) error {
	s.SetReadDeadline(time.Now().Add(headerTimeout))
	h, err := readHeader(s)
	if err != nil {
		return err
	}
	s.SetReadDeadline(time.Time{})
	if c := s.TCP(); c != nil {
		return r.take(c, h.protocol, h.client)
	}
	select {
	case r.pairs <- struct{}{}:
	default:
		return fmt.Errorf("%d such connections are served already", cap(r.pairs))
	}
	defer func() { <-r.pairs }()
	ours, theirs, err := socketpair()
	if err != nil {
		return err
	}
	if err := r.take(theirs, h.protocol, h.client); err != nil {
		ours.Close()
		return err
	}
	// If the client sends no more, splice only reads from ours: closing the stream would not end it.
	defer context.AfterFunc(r.ctx, func() { ours.Close() })()
	splice(s, ours)
	return nil
}

// socketpair returns two connected sockets.
func socketpair() (a, b *net.UnixConn, err error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if a, err = connOf(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	if b, err = connOf(fds[1]); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

// connOf returns the connection of a descriptor, which it closes.
func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socketpair")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}
