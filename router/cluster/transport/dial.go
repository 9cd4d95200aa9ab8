package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A Refused is the error of a connection that the other side has refused.
type Refused struct {
	By     Identity
	Reason string
}

func (r *Refused) Error() string { return fmt.Sprintf("server %v refuses: %s", r.By, r.Reason) }

// A Stream is a connection with another node behind the greeting: bytes.
type Stream struct {
	net.Conn
	raw       net.Conn // below TLS
	transport *Transport
	remote    Identity
	kind      Kind
}

// Remote is who is at the other end.
func (s *Stream) Remote() Identity { return s.remote }

// Kind is what the stream is for.
func (s *Stream) Kind() Kind { return s.kind }

// TCP is the connection itself where it is plaintext, of which not a byte more was read than
// belongs to the greeting; nil: it is TLS.
func (s *Stream) TCP() *net.TCPConn {
	c, _ := s.Conn.(*net.TCPConn)
	return c
}

// NetConn is the connection below TLS, or the connection itself: for who sets what the kernel
// does with it.
func (s *Stream) NetConn() net.Conn { return s.raw }

// CloseWrite ends what is sent: the other side reads an end.
func (s *Stream) CloseWrite() error {
	return s.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// Close closes the stream.
func (s *Stream) Close() error {
	err := s.Conn.Close()
	s.transport.conns.end(s.raw)
	return err
}

// Abort ends the stream by a reset: the other side reads an error rather than an end.
func (s *Stream) Abort() {
	if t, ok := s.raw.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	s.abort()
}

// abort closes the stream without a word: with TLS, Close waits for a while if the other
// side does not read.
func (s *Stream) abort() { s.transport.conns.end(s.raw) }

// Open makes a stream to a member of the cluster.
func (t *Transport) Open(ctx context.Context, to uint64, kind Kind) (*Stream, error) {
	m := t.member(to)
	if m == nil {
		return nil, fmt.Errorf("server %x does not belong to the cluster", to)
	}
	return t.dial(ctx, *m, kind)
}

// OpenAddr makes a stream to the node at an address, whichever that is. If something else listens
// there, the error names it.
func (t *Transport) OpenAddr(ctx context.Context, addr string, kind Kind) (*Stream, error) {
	s, err := t.dial(ctx, Member{Addr: addr}, kind)
	if err != nil {
		return nil, explainPort(ctx, addr, err)
	}
	return s, nil
}

// dial connects to a node, of which the number and the name may be unknown, and greets it.
func (t *Transport) dial(ctx context.Context, m Member, kind Kind) (*Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, t.within.greet)
	defer cancel()
	stop := context.AfterFunc(t.ctx, cancel)
	defer stop()
	addr := m.Addr
	if other, ok := t.o.Redirect[addr]; ok {
		addr = other
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := notItself(raw); err != nil {
		return nil, err
	}
	if !t.conns.keep(raw) {
		return nil, net.ErrClosed
	}
	// What ends the attempt ends the connection, whatever that is doing.
	broken := context.AfterFunc(ctx, func() { raw.Close() })
	s, err := t.introduce(raw, m, kind)
	if !broken() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		t.conns.end(raw)
		if ctx.Err() == context.DeadlineExceeded {
			err = fmt.Errorf("%s: %w within %v", m.Addr, ErrSilent, t.within.greet)
		}
		return nil, err
	}
	tune(raw, kind, t.within.silent)
	return s, nil
}

// notItself closes a connection whose two ends are one socket: who connects to a port of this
// machine at which nobody listens may be given that port for its own end. Closed by a reset,
// it does not keep the port from the node that is about to listen there.
func notItself(c net.Conn) error {
	if c.LocalAddr().String() != c.RemoteAddr().String() {
		return nil
	}
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
	return fmt.Errorf("nobody listens at %s", c.RemoteAddr())
}

// introduce does the greeting of who connects.
func (t *Transport) introduce(raw net.Conn, m Member, kind Kind) (*Stream, error) {
	c := raw
	if t.o.Security != nil {
		secure := t.o.Security.client(raw, m.Name)
		if err := secure.Handshake(); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Addr, t.describeTLS(err))
		}
		c = secure
	}
	self := t.Self()
	hello := greeting{kind: kind, from: self, to: m.Node, addr: t.o.Advertise}
	if _, err := c.Write(hello.append(nil)); err != nil {
		return nil, err
	}
	g, err := readGreeting(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Addr, t.describeTLS(err))
	}
	switch {
	case g.reason != "":
		return nil, &Refused{g.from, g.reason}
	case g.kind != kind || g.to != self.Node:
		return nil, fmt.Errorf("%s: %w", m.Addr, errMangled)
	case self.Cluster != 0 && g.from.Cluster != self.Cluster:
		return nil, fmt.Errorf("%s is a server of cluster %x, this is one of cluster %x: correct the addresses that servers are given", m.Addr, g.from.Cluster, self.Cluster)
	case m.Node != 0 && g.from.Node != m.Node, m.Name != "" && g.from.Name != m.Name:
		return nil, fmt.Errorf("%s is server %v, not %v", m.Addr, g.from, Identity{Node: m.Node, Name: m.Name})
	}
	if err := ValidName(g.from.Name); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Addr, err)
	}
	if err := certified(c, g.from.Name); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Addr, err)
	}
	return &Stream{Conn: c, raw: raw, transport: t, remote: g.from, kind: kind}, nil
}

// describeTLS says in words for operators what is wrong between two ends.
func (t *Transport) describeTLS(err error) error {
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errUnshown
	case errors.As(err, &record):
		return &strange{"it does not speak TLS, this server does: give --cluster-cert, --cluster-key and --cluster-ca to all servers or to none"}
	}
	if told, ok := errors.AsType[*net.OpError](err); ok && told.Op == "remote error" && t.o.Security != nil {
		return t.o.Security.refused()
	}
	return err
}

// tune prepares a connection for what follows the greeting: it may be quiet for as long as
// it likes, but not with an end that is gone. Messages are also to be taken in time, which
// a client behind a connection of kind Forward need not do.
func tune(c net.Conn, kind Kind, silent time.Duration) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: silent / 2, Interval: silent / 10, Count: 5})
	if kind == Raft {
		limitUnacknowledged(t, silent)
	}
}
