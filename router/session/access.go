package session

import (
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
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

// throttleMin is the shortest time for which a put waits: a timer for each put of a high rate would
// cost more than the put.
const throttleMin = 10 * time.Millisecond

// pay takes a put from the rate of the client's identity, once for each put. Wait: pay has stopped
// the session. Refuse: the put would wait for too long, or the client sends no more and may be gone.
func (s *Session) pay() verdict {
	most := access.WaitMax
	if s.end > open {
		most = 0
	}
	wait := s.access.Pay(1, int64(s.loop.awake()), most)
	if wait > most {
		s.loop.host.Complain("refused a put: its identity has used its puts-per-second", "conn", s, "identity", s.access.Name(), "for", wait)
		return Refuse
	}
	if s.body.paid = true; wait == 0 {
		return Run
	}
	wait = max(wait, throttleMin)
	s.access.Waits(wait)
	s.stops |= Throttled
	r := &s.loop.registry
	if r.timers == nil {
		r.timers = make(map[*Session]func() bool)
	}
	r.timers[s] = s.loop.host.After(wait, func() { s.loop.Signal(s, (*Session).unthrottle) })
	return Wait
}

// unthrottle lets a put run that waits for its rate.
func (s *Session) unthrottle() {
	if s.life < closing && s.stops&Throttled != 0 {
		s.stopTimer()
		s.lift(Throttled)
	}
}

// stopTimer stops the timer of a Throttled session.
func (s *Session) stopTimer() {
	timers := s.loop.registry.timers
	timers[s]()
	delete(timers, s)
}

// refund gives back a put that was paid and does not run.
func (s *Session) refund() {
	if s.body.paid {
		s.body.paid = false
		s.access.Refund(1)
	}
}

// Exceeds reports whether a job of size bytes in a tube exceeds a limit of jobs or bytes.
func (s *Session) Exceeds(tube []byte, size int) bool {
	h := s.loop.host
	if s.access == nil || !h.Access.Exceeds(s.access, tube, 1, size, h.Map.Used) {
		return false
	}
	h.Complain("refused a job: the tubes of its identity are full", "conn", s, "identity", s.access.Name(), "tube", string(tube[:min(len(tube), externalMax)]))
	return true
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
	if l, ok := c.(local); ok {
		if uid, ok := l.User(); ok {
			if by := h.Access.User(uid); by != nil {
				return by
			}
		}
	}
	if a, isUnix := networkOf(peer); a.IsValid() && !isUnix {
		if by := h.Access.Network(a); by != nil {
			return by
		}
	}
	return h.Access.Default()
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
		var client any = c
		if u, ok := c.(*net.UnixConn); ok {
			client = unixClient{u}
		}
		by := h.identify(client, f.Addr)
		f.Identity = by.Name() + ":" + by.By().String()
	}
	return f, !isRevoked(c)
}

// A unixClient is a client of a unix socket that no loop serves.
type unixClient struct{ *net.UnixConn }

// User implements local.
func (c unixClient) User() (uid uint32, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	failed := raw.Control(func(fd uintptr) { uid, err = access.PeerUser(int(fd)) })
	return uid, err == nil && failed == nil
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

// Reauthorize checks every session after a reload of the access file, or of the authorities and
// lists of revoked certificates. It kills a session that uses a lost right, has no identity any more,
// or has a certificate that is no longer accepted. The reserved jobs of a killed session become ready
// again. At the end Reauthorize calls done, in a loop or at once, with the number of killed sessions.
// Any goroutine may call it.
func (h *Host) Reauthorize(done func(killed int)) {
	loops := h.Loops()
	c := &check{done: done}
	c.loops.Store(int64(len(loops)))
	if len(loops) == 0 {
		done(0)
	}
	for _, l := range loops {
		l.Do(func() { c.part(l, 0) })
	}
}

// A check is a Reauthorize in progress.
type check struct {
	done   func(killed int)
	loops  atomic.Int64 // that are not done
	killed atomic.Int64
}

// checkMost is how many sessions are checked in one turn of a loop, which takes about 50 µs.
const checkMost = 256

// part checks the next sessions of a loop. Signals are answered in their order: when the last part
// ends, the sessions of all parts were killed.
func (c *check) part(l *Loop, above uint64) {
	n := 0
	for s := range l.Sessions(above) {
		l.Spend(1)
		if !s.reauthorize() {
			c.killed.Add(1)
			l.Signal(s, (*Session).Kill)
		}
		if n++; n == checkMost {
			above = s.Number()
			l.Do(func() { c.part(l, above) })
			return
		}
	}
	l.Do(func() {
		if c.loops.Add(-1) == 0 {
			c.done(int(c.killed.Load()))
		}
	})
}

// isRevoked reports whether the certificate of the client was revoked since it has connected.
func isRevoked(c any) bool {
	r, ok := c.(interface{ Revoked() bool })
	return ok && r.Revoked()
}

// reauthorize reports whether the session may stay.
func (s *Session) reauthorize() bool {
	if s.stops&Throttled != 0 { // the file may have a higher rate
		s.loop.Signal(s, (*Session).unthrottle)
	}
	switch {
	case s.life >= closing:
		return true
	case isRevoked(s.conn):
		return false
	case s.loop.host.Access == nil:
		return true
	case s.unproven || s.activity.last == 0 && s.access.By() != access.ByToken: // it has had no command yet
		was := s.unproven
		if !s.identify() {
			return false
		}
		if !was {
			s.loop.expect(s)
		}
	case s.access.Identity() == nil:
		return false
	}
	p, ok := s.proto.(reauthorizer)
	return !ok || p.Reauthorize()
}
