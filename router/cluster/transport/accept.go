package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Accepting is tried again when descriptors or memory have run out, between these two times.
const (
	retryMin = 5 * time.Millisecond
	retryMax = 200 * time.Millisecond
)

// What the log says of connections that come.
const (
	complaintAccept  = "cannot accept connections of other servers; trying again"
	complaintRefused = "refused a connection to the cluster's port"
	complaintBroken  = "another server has broken off its connection to the cluster's port"
	complaintCrowd   = "closed a connection to the cluster's port: too many wait that have not shown who they are"
)

// accept takes connections until Close.
func (t *Transport) accept() {
	wait := retryMin
	for {
		c, err := t.o.Listener.Accept()
		switch {
		case t.ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return
		case errors.Is(err, net.ErrClosed):
			return // by the program, which is about to end
		case err != nil:
			t.log.Warn(complaintAccept, "addr", t.Addr().String(), "err", err)
			pause(t.ctx, wait)
			wait = min(2*wait, retryMax)
		default:
			wait = retryMin
			if t.conns.keep(c) {
				if out := t.lobby.enter(c); out != nil {
					out.Close() // who waits for it notices
					t.log.Warn(complaintCrowd, "conn", out.RemoteAddr().String())
				}
				t.work.Go(func() { t.meet(c) })
			}
		}
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// meet finds out who has come, and serves it.
func (t *Transport) meet(raw net.Conn) {
	c, g, err := t.welcome(raw)
	t.lobby.leave(raw)
	if err != nil {
		t.complain(raw, &g, err)
		t.conns.end(raw)
		return
	}
	s := &Stream{Conn: c, raw: raw, transport: t, remote: g.from, kind: g.kind}
	if g.kind == Raft {
		t.listen(s, g.addr)
		return
	}
	defer t.release(g.kind)
	t.o.Streams[g.kind](s)
}

// errNoMember is why a node refuses that is about to join, and whose cluster knows it already.
var errNoMember = errors.New("this server does not belong to a cluster yet")

// complain tells of who was refused, or does not want to be here. Clients and operators come to a
// node that does not lead any more, or not yet, with every change: that is for the one that has sent
// them to say, if it lasts. The others come to a node that joins before that is ready.
func (t *Transport) complain(raw net.Conn, g *greeting, err error) {
	msg, args := complaintRefused, []any{"conn", raw.RemoteAddr().String()}
	if _, broken := errors.AsType[*disbelieved](err); broken {
		msg = complaintBroken
	}
	if g.from.Name != "" {
		args = append(args, "node", g.from.Name)
	}
	args = append(args, "reason", err)
	switch {
	case t.ctx.Err() != nil:
	case g.kind == Forward, g.kind == Relay:
		t.o.Log.Debug(msg, args...)
	case errors.Is(err, errNoMember):
		t.log.Info(msg, args...)
	default:
		t.log.WarnOf(sameness(raw, g.from.Name, err), msg, args...)
	}
}

// sameness is the same for whoever comes again, from another port, and is refused for the same
// reason, at another time.
func sameness(raw net.Conn, name string, err error) string {
	host, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	why := err.Error()
	if d, ok := errors.AsType[*doubt](err); ok {
		why = fmt.Sprint("doubt ", d.reason)
	} else if op, ok := errors.AsType[*net.OpError](err); ok {
		why = op.Op + ": " + op.Err.Error()
	}
	return host + " " + name + " " + why
}

// welcome does the greeting of who is connected to. On an error the other side was told, as
// far as that is possible.
func (t *Transport) welcome(raw net.Conn) (net.Conn, greeting, error) {
	raw.SetDeadline(time.Now().Add(t.within.greet))
	c := raw
	if t.o.Security != nil {
		secure := t.o.Security.server(raw)
		if err := secure.Handshake(); err != nil {
			t.tellPlain(err)
			return nil, greeting{}, t.describe(err)
		}
		c = secure
	}
	g, err := readGreeting(c)
	answer := greeting{kind: g.kind, from: t.Self(), to: g.from.Node, addr: t.o.Advertise}
	if err == nil {
		err = t.admit(c, &g)
	} else if err = t.describe(err); !isTold(err) {
		return nil, g, err
	}
	if err != nil {
		answer.reason = err.Error()
	}
	_, failed := c.Write(answer.append(nil))
	if err == nil && failed != nil {
		t.release(g.kind)
	}
	if err = cmp.Or(err, failed); err != nil {
		linger(c)
		return nil, g, err
	}
	tune(raw, g.kind, t.within.silent)
	raw.SetDeadline(time.Time{})
	return c, g, nil
}

// tellPlain answers a node that does not speak TLS to one that does.
func (t *Transport) tellPlain(err error) {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || record.Conn == nil || !strings.HasPrefix(magic, string(record.RecordHeader[:])) {
		return
	}
	answer := greeting{from: t.Self(), reason: "it speaks TLS, and you do not: give --cluster-cert, --cluster-key and --cluster-ca to all servers or to none"}
	if _, err := record.Conn.Write(answer.append(nil)); err == nil {
		linger(record.Conn)
	}
}

// isTold reports whether an error is about what the other side has said, so that it hears
// of it. One that does not speak as nodes do is answered like one that does: if it is one of
// another version, it understands.
func isTold(err error) bool {
	var s *strange
	return errors.As(err, &s) || errors.Is(err, errMangled)
}

// describe says in words for operators why somebody could not be met.
func (t *Transport) describe(err error) error {
	var n net.Error
	switch {
	case errors.As(err, &n) && n.Timeout():
		return fmt.Errorf("it did not show within %v who it is", t.within.greet)
	default:
		return t.describeTLS(err)
	}
}

// linger lets the other side read why it is refused: what it has sent beyond its greeting
// would make the kernel reset the connection at once.
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

// admit checks who has come, and takes a seat for it.
func (t *Transport) admit(c net.Conn, g *greeting) error {
	self, from := t.Self(), g.from
	_, served := t.o.Streams[g.kind]
	switch {
	case !served && g.kind != Raft:
		return fmt.Errorf("this server serves no connections of %v", g.kind)
	case self.Cluster == 0:
		return errNoMember
	case from.Cluster == 0 && g.kind != Admin:
		return errors.New("it does not belong to a cluster yet")
	case from.Cluster != 0 && from.Cluster != self.Cluster:
		return fmt.Errorf("%v is of cluster %016x, %v of cluster %016x: if one of the two was recovered alone, move the directory of the other away; else correct the addresses that servers are given", from, from.Cluster, self, self.Cluster)
	case g.to != 0 && g.to != self.Node:
		return fmt.Errorf("it looks for server %x, this is %v: another server has its address now", g.to, self)
	case from.Node == 0:
		return errMangled
	case from.Node == self.Node && g.kind != Admin: // a process may ask which other one has its identity
		return fmt.Errorf("it says that it is this server, %v: servers must not be started from copies of a directory", self)
	}
	if err := ValidName(from.Name); err != nil {
		return err
	}
	if m := t.member(from.Node); m != nil && m.Name != from.Name {
		return fmt.Errorf("it says that it is server %v, whose name is %s", from, m.Name)
	}
	if err := certified(c, from.Name); err != nil {
		return err
	}
	if t.o.Admit != nil {
		if err := t.o.Admit(from, g.kind); err != nil {
			return err
		}
	}
	if seats := t.served[g.kind]; seats != nil {
		select {
		case seats <- struct{}{}:
		default:
			return fmt.Errorf("%d connections of %v are open already: try again later", g.kind.seats(), g.kind)
		}
	}
	return nil
}

// release gives back a seat.
func (t *Transport) release(kind Kind) {
	if seats := t.served[kind]; seats != nil {
		<-seats
	}
}
