package session

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"polystalk/router/access"
	"polystalk/shard/core"
)

// Access control. A session has the Credential of its client; nil: the server has no access file,
// so nothing is checked. The first of these identifies a new connection:
//
//	certificate  the handshake of TLS has verified it
//	user         of the process at the other end of a unix socket. Root and the server's own user
//	             have no rights here that the file does not give them; with HTTP they have.
//	network      the longest one with the client's address
//	default
//
// Another server of the cluster that forwards a client has identified it in the same way. It is
// trusted with the name of the identity. This server's file gives the rights.
//
// A token replaces an identity of network or default; the protocol passes it to Authenticate.
//
// A client without any right is unproven: it must authenticate before it reaches a shard, within
// proveWithin. The protocol refuses its other commands.
//
// Commands check the rules of the file as they are now. A reload replaces the rules, and then
// Reauthorize closes the sessions that use a right which they have lost. So a command pays nothing
// for revocation.

// proveWithin is how long a client without rights may take to authenticate.
const proveWithin = 10 * core.Second

// An encrypted is a Conn that may use TLS.
type encrypted interface {
	// TLS reports whether the connection uses TLS. certified is what the client's certificate
	// proves; nil: nothing.
	TLS() (used bool, certified *access.Credential)
}

// A local is a Conn that may be a unix socket.
type local interface {
	// User returns the user of the process at the other end; false: it is no process of this machine.
	User() (uid uint32, ok bool)
}

// A reauthorizer is a protocol that keeps rights between commands, as a watched tube does.
type reauthorizer interface {
	// Reauthorize adapts to the rules after a reload. It returns false if the client uses a right
	// that it has lost: the session is then killed. It is called with the loop held, in no turn of
	// the session, at any time before the session closes.
	Reauthorize() bool
}

// Credential returns the client's way to prove its identity; nil: everything is permitted.
func (s *Session) Credential() *access.Credential { return s.access }

// Unproven reports whether the client has no right and must authenticate.
func (s *Session) Unproven() bool { return s.unproven }

// identify finds the client's credential. It returns false if the identity has too many sessions.
func (s *Session) identify() bool {
	c := s.loop.host.identify(s.conn, s.Peer())
	ok := s.be(c) || c.By() == access.ByDefault // it may have a token
	s.unproven = s.access.IsEmpty()
	return ok
}

// be gives the session another credential. If the identity has too many sessions, be returns false,
// and the session has no identity.
func (s *Session) be(c *access.Credential) bool {
	if c == s.access {
		return true
	}
	s.refund()
	s.access.Leave()
	if s.access = c; c.Enter() {
		return true
	}
	s.access = access.Nobody()
	s.access.Enter()
	s.loop.host.CountRejection(RejectedQuota)
	s.loop.host.Complain("refused a connection: its identity has too many", "conn", s, "identity", c.Name())
	return false
}

// identify returns the credential of a Conn or a net.Conn.
func (h *Host) identify(c any, peer net.Addr) *access.Credential {
	if f, ok := peer.(Forwarded); ok && f.Identity != "" {
		return h.named(f.Identity)
	}
	if e, ok := c.(encrypted); ok {
		if _, by := e.TLS(); by != nil {
			return by
		}
	}
	uid, isUser := userOf(c)
	addr, _ := networkOf(peer)
	return h.Access.Client(uid, isUser, addr)
}

// named returns the credential of a Forwarded.Identity.
func (h *Host) named(identity string) *access.Credential {
	name, method, _ := strings.Cut(identity, ":")
	by, ok := access.ParseMethod(method)
	if !ok || by >= access.ByToken { // only this server checks tokens
		name, by = "", access.ByDefault
	}
	return h.Access.Named(name, by)
}

// Forward describes a client that this server forwards to another one. c is a *net.TCPConn, a
// *net.UnixConn or a connection with TLS after its handshake. ok is false if the client's certificate
// is revoked by now.
func (h *Host) Forward(c net.Conn) (f Forwarded, ok bool) {
	f.Addr = c.RemoteAddr()
	if e, ok := c.(encrypted); ok {
		f.TLS, _ = e.TLS()
	}
	if h.Access != nil {
		by := h.identify(c, f.Addr)
		f.Identity = by.Name() + ":" + by.By().String()
	}
	return f, !isRevoked(c)
}

// userOf returns the user of a Conn or a net.Conn; false: it is no process of this machine.
func userOf(c any) (uid uint32, ok bool) {
	switch c := c.(type) {
	case local:
		return c.User()
	case *net.UnixConn:
		return access.ConnUser(c)
	}
	return 0, false
}

// networkOf returns the address of a client, or that it uses a unix socket. Another server of the
// cluster is trusted with the address of a Forwarded.
func networkOf(peer net.Addr) (a netip.Addr, isUnix bool) {
	switch p := peer.(type) {
	case Forwarded:
		return networkOf(p.Addr)
	case *net.TCPAddr:
		return p.AddrPort().Addr().Unmap(), false
	case *net.UnixAddr:
		return a, true
	}
	return a, false
}

// Authenticate gives the client the identity of a token, unless its certificate or its user has
// proved one. It returns false for a token that is not in the file, and on a connection where others
// can read it: the protocol must then close the session.
func (s *Session) Authenticate(token string) bool {
	h := s.loop.host
	c := h.Access.Token(token)
	switch {
	case !s.mayPresentToken():
		h.Complain("refused a token that others can read: use TLS, or plaintext-tokens = true in the access file", "conn", s)
	case c == nil:
		h.Complain("refused a token that is not in the access file", "conn", s)
	default:
		if by := s.access.By(); by == access.ByCertificate || by == access.ByUser {
			return true // it keeps its identity, which may have no rights
		}
		if !s.be(c) {
			return false
		}
		s.unproven = false
		return true
	}
	h.CountRejection(RejectedToken)
	return false
}

// mayPresentToken reports whether only the server can read a token of the client.
func (s *Session) mayPresentToken() bool {
	peer := s.Peer()
	if f, ok := peer.(Forwarded); ok {
		if f.TLS {
			return true
		}
	} else if e, ok := s.conn.(encrypted); ok { // a Forwarded comes in the TLS between servers
		if used, _ := e.TLS(); used {
			return true
		}
	}
	a, isUnix := networkOf(peer)
	return isUnix || a.IsLoopback() || s.loop.host.Access.PlaintextTokens()
}

// RefuseUnproven closes the session of an unproven client behind the reply to its command.
func (s *Session) RefuseUnproven() {
	h := s.loop.host
	h.CountRejection(RejectedUnproven)
	h.Complain("closing a connection: its client has no right without a token", "conn", s)
	s.Refuse()
}

// externalMax is how many bytes of a name from outside the log shows.
const externalMax = 200

// Deny records that the client may not do something with a tube; an empty tube is the server.
func (s *Session) Deny(verb access.Verbs, tube []byte) {
	h, b := s.loop.host, &s.loop.batch
	tube = tube[:min(len(tube), externalMax)]
	h.Access.Denials.Add(s.access, verb, tube, time.Unix(0, int64(b.Now+b.Ahead)), func() string { return PeerName(s.Peer()) })
	h.Complain("refused a command: the identity lacks the right", "conn", s,
		"identity", s.access.Name(), "verb", verb.String(), "tube", string(tube))
}

// expect makes the loop close the session if its client does not authenticate in time.
func (l *Loop) expect(s *Session) {
	if s.unproven {
		l.registry.unproven.push(deadline{s.activity.number, l.awake() + proveWithin})
	}
}

// A deadline is the time at which a session must have authenticated.
type deadline struct {
	number uint64 // of the session
	at     core.Time
}

// EvictUnproven closes connections whose clients should have authenticated.
func (h *Host) EvictUnproven() {
	if h.Access == nil {
		return
	}
	for _, l := range h.Loops() {
		l.Do(func() {
			for l.registry.unproven.len() > 0 && l.registry.unproven.first().at <= l.awake() {
				l.Spend(1)
				if s := l.registry.find(l.registry.unproven.pop().number); s != nil && s.unproven {
					h.CountRejection(RejectedUnproven)
					l.Signal(s, (*Session).Kill)
				}
			}
		})
	}
}
