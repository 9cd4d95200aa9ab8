package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// A Refused is the error of a connection that the other side refused.
type Refused struct {
	By     Identity
	Reason string
}

func (r *Refused) Error() string { return fmt.Sprintf("server %v refuses: %s", r.By, r.Reason) }

// A Stream is a connection with another server after the greetings.
type Stream struct {
	net.Conn
	raw    net.Conn    // below TLS
	stop   func() bool // ends the wait for Transport.Close
	remote Identity
	kind   Kind
}

// Remote returns the server at the other end.
func (s *Stream) Remote() Identity { return s.remote }

// TCP returns the connection if it is plaintext; nil: it is TLS. It has read no byte after the
// greeting.
func (s *Stream) TCP() *net.TCPConn {
	c, _ := s.Conn.(*net.TCPConn)
	return c
}

// Detach returns the connection, which the caller owns from now on: a *net.TCPConn, or with TLS the
// result of Options.ServeTLS. The stream must not be used any more.
func (s *Stream) Detach() net.Conn {
	s.stop()
	return s.Conn
}

// NetConn returns the connection below TLS, for socket options.
func (s *Stream) NetConn() net.Conn { return s.raw }

// CloseWrite closes the sending side: the other side reads EOF.
func (s *Stream) CloseWrite() error {
	return s.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// Close closes the stream.
func (s *Stream) Close() error {
	err := s.Conn.Close()
	s.abort()
	return err
}

// Abort resets the stream: the other side reads an error.
func (s *Stream) Abort() {
	if t, ok := s.raw.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	s.abort()
}

// abort closes the stream without TLS's closing message, which blocks while the other side does not read.
func (s *Stream) abort() {
	s.stop()
	s.raw.Close()
}

type remoteKey struct{}

// ConnContext is an http.Server.ConnContext: RemoteOf tells which server has made the connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if s, ok := c.(interface{ Remote() Identity }); ok {
		return context.WithValue(ctx, remoteKey{}, s.Remote())
	}
	return ctx
}

// RemoteOf returns the server that has made the connection of a request; the zero value: a
// client of this machine.
func RemoteOf(ctx context.Context) Identity {
	remote, _ := ctx.Value(remoteKey{}).(Identity)
	return remote
}

// RoundTrip sends an HTTP request on a new connection. The connection ends with an error or with the
// answer's body, so the request is never repeated.
func RoundTrip(c net.Conn, req *http.Request) (*http.Response, error) {
	t := http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return c, nil },
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		c.Close()
	}
	return res, err
}

// Request sends an HTTP request on a new connection. It returns the status and at most max bytes.
func Request(ctx context.Context, dial func(context.Context) (net.Conn, error), method, path string, body []byte, max int64) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://server"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	c, err := dial(ctx)
	if err != nil {
		return 0, nil, err
	}
	res, err := RoundTrip(c, req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, max))
	return res.StatusCode, answer, err
}

// Open opens a stream to a member of the cluster.
func (t *Transport) Open(ctx context.Context, to uint64, kind Kind) (*Stream, error) {
	m := t.member(to)
	if m == nil {
		return nil, fmt.Errorf("server %x does not belong to the cluster", to)
	}
	return t.dial(ctx, *m, kind)
}

// OpenAddr opens a stream to whichever server listens at an address. If something else listens
// there, the error names it.
func (t *Transport) OpenAddr(ctx context.Context, addr string, kind Kind) (*Stream, error) {
	s, err := t.dial(ctx, Member{Addr: addr}, kind)
	if err != nil {
		return nil, explainPort(ctx, addr, err)
	}
	return s, nil
}

// dial connects to a server and exchanges greetings. Its number and name may be unknown.
func (t *Transport) dial(ctx context.Context, m Member, kind Kind) (*Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, t.within.greet)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	addr := m.Addr
	if other, ok := t.o.Redirect[addr]; ok {
		addr = other
	}
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := notItself(raw); err != nil {
		return nil, err
	}
	s := &Stream{raw: raw, kind: kind}
	interrupted := context.AfterFunc(ctx, func() { raw.Close() })
	err = t.introduce(s, m)
	if !interrupted() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		if ctx.Err() == context.DeadlineExceeded {
			err = fmt.Errorf("%s: %w within %v", m.Addr, ErrSilent, t.within.greet)
		}
		return nil, err
	}
	s.stop = context.AfterFunc(t.ctx, func() { raw.Close() })
	tune(raw, kind, t.within.silent)
	return s, nil
}

// notItself closes a connection that is connected to itself: dialing an unused port of this machine
// may choose the same port as the local one. A reset frees the port for the server that will listen
// there.
func notItself(c net.Conn) error {
	if c.LocalAddr().String() != c.RemoteAddr().String() {
		return nil
	}
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
	return fmt.Errorf("no server listens at %s", c.RemoteAddr())
}

// introduce exchanges greetings on the connecting side.
func (t *Transport) introduce(s *Stream, m Member) error {
	fail := func(err error) error { return fmt.Errorf("%s: %w", m.Addr, err) }
	s.Conn = s.raw
	if t.o.Security != nil {
		secure := tls.Client(s.raw, t.o.Security.config(m.Name, x509.ExtKeyUsageServerAuth)) // the name may be unknown
		if err := secure.Handshake(); err != nil {
			return fail(t.explain(err))
		}
		s.Conn = secure
	}
	self := t.Self()
	hello := greeting{kind: s.kind, from: self, to: m.Node, addr: t.o.Advertise}
	if _, err := s.Conn.Write(hello.append(nil)); err != nil {
		return err
	}
	g, err := readGreeting(s.Conn)
	s.remote = g.from
	switch {
	case err != nil:
		return fail(t.explain(err))
	case g.reason != "":
		return &Refused{g.from, g.reason}
	case g.kind != s.kind || g.to != self.Node:
		return fail(errMangled)
	case self.Cluster != 0 && g.from.Cluster != self.Cluster:
		return fmt.Errorf("%s is a server of cluster %x, this is one of cluster %x: correct the addresses that servers are given", m.Addr, g.from.Cluster, self.Cluster)
	case m.Node != 0 && g.from.Node != m.Node, m.Name != "" && g.from.Name != m.Name:
		return fmt.Errorf("%s is server %v, not %v", m.Addr, g.from, Identity{Node: m.Node, Name: m.Name})
	}
	if err := ValidName(g.from.Name); err != nil {
		return fail(err)
	}
	if err := certifies(s.Conn, g.from.Name); err != nil {
		return fail(err)
	}
	return nil
}

// explain replaces errors of TLS and of the greeting by errors for operators.
func (t *Transport) explain(err error) error {
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("it did not identify itself within %v", t.within.greet)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errUnshown
	case errors.As(err, &record):
		return &foreignError{"it does not speak TLS, this server does: " + mixedTLS}
	}
	if told, ok := errors.AsType[*net.OpError](err); ok && told.Op == "remote error" && t.o.Security != nil {
		return t.o.Security.refused()
	}
	return err
}

// tune sets keepalive, which detects a dead peer on an idle connection. On kind Raft sent bytes must
// also be acknowledged in time. On kind Forward clients may read slowly.
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
