package forward

import (
	"log/slog"
	"net"
	"time"

	"polystalk/router/cluster/transport"
)

// A Take serves a client on c: a *net.TCPConn, a *net.UnixConn or a connection with TLS. It owns c, also
// after an error. client describes the client of another server; nil: it has connected to this one.
type Take func(c net.Conn, protocol string, client *Client) error

// DescriptorsFollower is how many file descriptors a forwarded client takes on the follower.
const DescriptorsFollower = 2

// A Receiver is the leader's side. Its methods are safe for concurrent use.
type Receiver struct {
	take Take
	log  *slog.Logger
}

// NewReceiver returns a Receiver that gives clients to take. log limits repeated lines.
func NewReceiver(take Take, log *slog.Logger) *Receiver { return &Receiver{take, log} }

// headerTimeout bounds the time to send or receive a header.
const headerTimeout = 3 * time.Second

// Receive serves a client of a follower. It returns when the leader has taken the client.
func (r *Receiver) Receive(s *transport.Stream) {
	from := s.RemoteAddr().String()
	s.SetReadDeadline(time.Now().Add(headerTimeout))
	h, err := readHeader(s)
	if err != nil {
		s.Close()
	} else {
		s.SetReadDeadline(time.Time{})
		err = r.take(s.Detach(), h.protocol, &h.client)
	}
	if err != nil {
		r.log.Warn("a client's connection that another server has forwarded cannot be served", "conn", from, "err", err)
	}
}
