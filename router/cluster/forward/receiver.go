package forward

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/router/cluster/complaint"
)

// A Stream is what a client's connection goes through between two nodes; a
// *transport.Stream is one.
type Stream interface {
	net.Conn
	// CloseWrite ends what is sent, Abort all by an error at the other end.
	CloseWrite() error
	Abort()
	// TCP is the connection itself, if what is written to it comes out as it is.
	TCP() *net.TCPConn
}

// A Take serves a client whose connection is c, a *net.TCPConn or *net.UnixConn, by a
// descriptor of its own; c is closed when it returns, also on an error. protocol names what it speaks, client is where it is;
// nil: c is from the client itself.
type Take func(c net.Conn, protocol string, client net.Addr) error

// What a client's connection takes of the leader's descriptors, which has counted one of them
// among its connections; and what it takes of a follower's.
const (
	DescriptorsPlain    = 1
	DescriptorsSecure   = 3
	DescriptorsFollower = 2
)

// A Receiver is the leader's side. Its methods may be called by anyone.
type Receiver struct {
	ctx   context.Context
	take  Take
	log   *complaint.Log
	pairs chan struct{} // has an element for each stream that stands behind a pair of sockets

	received, failed     atomic.Uint64
	fromClient, toClient atomic.Uint64
}

// NewReceiver makes a Receiver that gives clients to take. It serves at most secure streams with TLS
// at a time, because each needs three descriptors. The end of ctx ends these streams.
func NewReceiver(ctx context.Context, take Take, secure int, log *slog.Logger) *Receiver {
	return &Receiver{ctx: ctx, take: take, log: complaint.New(log), pairs: make(chan struct{}, max(1, secure))}
}

// headerWithin is how long a header may take to come.
const headerWithin = 3 * time.Second

// Receive takes a client's connection that another node hands on; s is the callee's. It
// returns once the client is served, with TLS when it has gone.
func (r *Receiver) Receive(s Stream) {
	defer s.Close()
	r.received.Add(1)
	if err := r.receive(s); err != nil {
		r.failed.Add(1)
		r.log.Warn("a client's connection that another server has handed on cannot be served", "conn", s.RemoteAddr().String(), "err", err)
	}
}

func (r *Receiver) receive(s Stream) error {
	s.SetReadDeadline(time.Now().Add(headerWithin))
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
		return fmt.Errorf("%d of them are served already", cap(r.pairs))
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
	// A client that sends no more is waited for on our end alone: closing the stream ends nothing then.
	defer context.AfterFunc(r.ctx, func() { ours.Close() })()
	join(s, ours, &r.fromClient, &r.toClient)
	return nil
}

// socketpair makes two connections that are each other's ends.
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

// connOf makes a connection of a descriptor, which it closes.
func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socketpair")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// Received is how many connections other nodes have handed on, and how many of them could
// not be served.
func (r *Receiver) Received() (all, failed uint64) { return r.received.Load(), r.failed.Load() }
