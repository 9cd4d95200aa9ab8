package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// acceptPause is the pause before a failed Accept is retried.
const acceptPause = 100 * time.Millisecond

// Log messages about incoming connections.
const (
	logAccept  = "cannot accept connections of other servers; trying again"
	logRefused = "refused a connection to the cluster's port"
	logBroken  = "another server has closed its connection to the cluster's port"
	logCrowd   = "closed a connection to the cluster's port: too many connections have not identified themselves"
)

// lobbyMax bounds the connections without a valid greeting.
const lobbyMax = 64

// A lobby holds the connections without a valid greeting, oldest first. When it is full, the oldest
// is closed, so that silent connections do not keep servers out.
type lobby struct {
	mu      sync.Mutex
	waiting []net.Conn
}

// enter adds a connection, and returns the connection that it evicts, or nil.
func (l *lobby) enter(c net.Conn) (out net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == lobbyMax {
		out = l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	l.waiting = append(l.waiting, c)
	return out
}

func (l *lobby) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(w net.Conn) bool { return w == c })
}

// accept accepts connections until Close.
func (t *Transport) accept() {
	for {
		c, err := t.o.Listener.Accept()
		switch {
		case err == nil && t.ctx.Err() == nil:
			if out := t.lobby.enter(c); out != nil {
				out.Close() // its goroutine notices
				t.log.Warn(logCrowd, "conn", out.RemoteAddr().String())
			}
			t.work.Go(func() { t.meet(c) })
		case err == nil:
			c.Close()
			return
		case t.ctx.Err() != nil, errors.Is(err, net.ErrClosed):
			return // the program is about to end
		default:
			t.log.Warn(logAccept, "addr", t.Addr().String(), "err", err)
			select {
			case <-time.After(acceptPause):
			case <-t.ctx.Done():
			}
		}
	}
}

// meet exchanges greetings with a new connection, and serves it.
func (t *Transport) meet(raw net.Conn) {
	s := &Stream{raw: raw, stop: context.AfterFunc(t.ctx, func() { raw.Close() })}
	g, err := t.welcome(s)
	t.lobby.leave(raw)
	if err != nil {
		t.logRefusal(raw, &g, err)
		s.abort()
		return
	}
	if g.kind == Raft {
		t.listen(s, g.addr)
		return
	}
	defer t.release(g.kind)
	t.o.Streams[g.kind](s)
}

// errNoMember refuses a connection while this server has not joined a cluster yet.
var errNoMember = errors.New("this server does not belong to a cluster yet")

// logRefusal logs a connection that was refused, or that the other side broke off. At every change
// of the leader, followers forward clients and requests to a server that does not lead. Those
// refusals are debug messages: the follower logs the problem if it lasts. Other servers may connect
// to a joining server before it is ready, which is information.
func (t *Transport) logRefusal(raw net.Conn, g *greeting, err error) {
	msg, args := logRefused, []any{"conn", raw.RemoteAddr().String()}
	if errors.Is(err, errDistrusted) {
		msg = logBroken
	}
	if g.from.Name != "" {
		args = append(args, "node", g.from.Name)
	}
	args = append(args, "reason", err)
	switch {
	case t.ctx.Err() != nil:
	case g.kind == Forward, g.kind == Relay:
		t.log.Debug(msg, args...)
	case errors.Is(err, errNoMember):
		t.log.Info(msg, args...)
	default: // repeated refusals differ in ports and times
		host, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
		t.log.WarnContext(WithSubject(t.ctx, fmt.Sprintf("%s %s %T", host, g.from.Name, err)), msg, args...)
	}
}

// welcome exchanges greetings on the accepting side. It sends the reason of an error to the other
// side, if that understands greetings.
func (t *Transport) welcome(s *Stream) (greeting, error) {
	s.raw.SetDeadline(time.Now().Add(t.within.greet))
	s.Conn = s.raw
	if t.o.Security != nil {
		secure := t.serveTLS(s.raw, t.o.Security.config("", x509.ExtKeyUsageClientAuth))
		if err := secure.HandshakeContext(context.Background()); err != nil { // t.ctx closes raw
			t.refusePlaintext(err)
			return greeting{}, t.explain(err)
		}
		s.Conn = secure
	}
	g, err := readGreeting(s.Conn)
	if err != nil {
		_, foreign := errors.AsType[*foreignError](err)
		if err = t.explain(err); !foreign && !errors.Is(err, errMangled) {
			return g, err
		}
	} else {
		err = t.admit(s.Conn, &g)
	}
	answer := greeting{kind: g.kind, from: t.Self(), to: g.from.Node, addr: t.o.Advertise}
	if err != nil {
		answer.reason = err.Error()
	}
	_, failed := s.Conn.Write(answer.append(nil))
	if err == nil && failed != nil {
		t.release(g.kind)
	}
	if err = cmp.Or(err, failed); err != nil {
		linger(s.Conn)
		return g, err
	}
	tune(s.raw, g.kind, t.within.silent)
	s.raw.SetDeadline(time.Time{})
	s.remote, s.kind = g.from, g.kind
	return g, nil
}

// A tlsConn is a *tls.Conn, or wraps one.
type tlsConn interface {
	net.Conn
	HandshakeContext(context.Context) error
	ConnectionState() tls.ConnectionState
}

func (t *Transport) serveTLS(raw net.Conn, config *tls.Config) tlsConn {
	if t.o.ServeTLS == nil {
		return tls.Server(raw, config)
	}
	return t.o.ServeTLS(raw, config).(tlsConn)
}

// refusePlaintext answers another server that does not use TLS, while this one does.
func (t *Transport) refusePlaintext(err error) {
	record, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || record.Conn == nil || !strings.HasPrefix(magic, string(record.RecordHeader[:])) {
		return
	}
	answer := greeting{from: t.Self(), reason: "it speaks TLS, and you do not: " + mixedTLS}
	if _, err := record.Conn.Write(answer.append(nil)); err == nil {
		linger(record.Conn)
	}
}

// linger lets the other side read the refusal: unread bytes would make the kernel reset the
// connection.
func linger(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok && h.CloseWrite() == nil {
		var b [512]byte
		for range 8 {
			if _, err := c.Read(b[:]); err != nil {
				return
			}
		}
	}
}

// admit checks a greeting, and takes a seat for the stream.
func (t *Transport) admit(c net.Conn, g *greeting) error {
	self, from := t.Self(), g.from
	_, served := t.o.Streams[g.kind]
	switch {
	case !served && g.kind != Raft:
		return fmt.Errorf("this server serves no connections of %v", g.kind)
	case self.Cluster == 0 && !(t.o.Bootstrap && g.kind == Admin):
		return errNoMember
	case from.Cluster == 0 && g.kind != Admin:
		return errors.New("it does not belong to a cluster yet")
	case from.Cluster != 0 && self.Cluster != 0 && from.Cluster != self.Cluster:
		return fmt.Errorf("%v is of cluster %016x, %v of cluster %016x: if one of the two was recovered alone, move the directory of the other away; else correct the addresses that servers are given", from, from.Cluster, self, self.Cluster)
	case g.to != 0 && g.to != self.Node:
		return fmt.Errorf("it expects server %x, this is %v: another server has its address now", g.to, self)
	case from.Node == 0:
		return errMangled
	case from.Node == self.Node && g.kind != Admin: // a process may ask whether another has its identity
		return fmt.Errorf("it says that it is this server, %v: servers must not be started from copies of a directory", self)
	}
	if err := ValidName(from.Name); err != nil {
		return err
	}
	if m := t.member(from.Node); m != nil && m.Name != from.Name {
		return fmt.Errorf("it says that it is server %v, which is called %s", from, m.Name)
	}
	if err := certifies(c, from.Name); err != nil {
		return err
	}
	if t.o.Admit != nil {
		if err := t.o.Admit(from, g.kind); err != nil {
			return err
		}
	}
	if seats := t.seats[g.kind]; seats != nil {
		select {
		case seats <- struct{}{}:
		default:
			return fmt.Errorf("%d connections of %v are open already: try again later", cap(seats), g.kind)
		}
	}
	return nil
}

// release gives back a seat.
func (t *Transport) release(kind Kind) {
	if seats := t.seats[kind]; seats != nil {
		<-seats
	}
}
