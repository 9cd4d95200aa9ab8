package reactor

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"polystalk/router/access"
	"polystalk/router/session"
)

// TLS: package net carries the handshake (handshake.go). Then the event loop of the connection
// feeds package tls, which no goroutine waits for:
//
//	OnTraffic(records) ─► link.in  ─► tls.Conn.Read  ─► one Input(plaintext)
//	Write(plaintext)   ─► tls.Conn.Write ─► link.out ─► send, records of one step together
//
// Output that the socket does not take waits as plaintext in the SendQueue, because bodies are
// shared there. Only the rest of one step waits as records, in link.out. A socket with such a rest
// always has a SendQueue, perhaps an empty one.
//
// At the end of the input link returns the error of a deadline: package tls keeps an incomplete
// record, and its next Read continues. TestContractOfTLS shows that the version of Go in use keeps
// this contract.

const (
	// stepMax is how many bytes of plaintext are encrypted for one send.
	stepMax = 64 << 10
	// restMax bounds the records that a client does not read. A step with its overhead fits. Only
	// requests for new keys, which package tls answers at once, can add more.
	restMax = 2 * stepMax
	// plainMax is the size of the buffer for decrypted input: a read of gnet, with the beginning
	// of its first record.
	plainMax = 96 << 10
)

// A secure is the server's end of a connection with TLS. It is a net.Conn until a loop adopts it.
type secure struct {
	*tls.Conn
	link      link
	certified *access.Credential // what the client's certificate proves; nil: nothing
	revoked   func([]*x509.Certificate) bool
	closed    bool // close_notify was sent, or could not be
}

// A link is the net.Conn below a tls.Conn.
type link struct {
	net.Conn             // nil: a loop feeds the link
	handshake *handshake // with Conn, perhaps over

	in, out []byte // records that package tls has not read, and that the socket has not taken
	kept    int    // capacity of out that the account counts; 0: out is the loop's buffer
}

// scratch has a loop's buffers for TLS.
type scratch struct{ plain, records []byte }

// errNoInput ends a Read of package tls in the event loop, as if its deadline had passed.
var errNoInput = os.ErrDeadlineExceeded

// Read implements net.Conn. It returns errNoInput only without bytes: package tls must not lose any.
func (l *link) Read(p []byte) (int, error) {
	switch {
	case l.Conn != nil && l.handshake.isOpen():
		return l.handshake.read(p)
	case l.Conn != nil:
		return l.Conn.Read(p)
	case len(l.in) == 0:
		return 0, errNoInput
	}
	n := copy(p, l.in)
	l.in = l.in[n:]
	return n, nil
}

// Write implements net.Conn.
func (l *link) Write(p []byte) (int, error) {
	if l.Conn != nil {
		if l.handshake.isOpen() {
			l.handshake.release()
		}
		return l.Conn.Write(p)
	}
	l.out = append(l.out, p...)
	return len(p), nil
}

// Close implements net.Conn.
func (l *link) Close() error {
	if l.handshake.isOpen() {
		l.handshake.end()
	}
	return l.Conn.Close()
}

// SetWriteDeadline implements net.Conn. Package tls sets a deadline for close_notify.
func (l *link) SetWriteDeadline(t time.Time) error {
	if l.Conn == nil {
		return nil // a loop never blocks
	}
	return l.Conn.SetWriteDeadline(t)
}

// ServeTLS returns the server's end of TLS on a connection of another server of the cluster. It can be
// used as a net.Conn, and passed to Take after its handshake, which waits for no slot.
func ServeTLS(nc net.Conn, config *tls.Config) net.Conn {
	s := &secure{link: link{Conn: nc}}
	s.Conn = tls.Server(&s.link, config)
	return s
}

// TLS implements the interface of package session for a client that Forward describes.
func (s *secure) TLS() (used bool, certified *access.Credential) { return true, s.certified }

// TLS reports whether the connection uses TLS, and what its certificate proves; nil: nothing.
func (k *socket) TLS() (used bool, certified *access.Credential) {
	if k.tls == nil {
		return false, nil
	}
	return true, k.tls.certified
}

// Revoked reports whether the client's certificate is revoked by now.
func (k *socket) Revoked() bool { return k.tls != nil && k.tls.Revoked() }

// Revoked implements the interface of package session, as TLS does.
func (s *secure) Revoked() bool {
	return s.revoked != nil && s.revoked(s.ConnectionState().PeerCertificates)
}

// decrypt gives the session the plaintext of b, the received records. It is called in a callback.
func (k *socket) decrypt(b []byte) {
	t, l := k.tls, k.loop
	if l.scratch.plain == nil {
		l.scratch.plain = make([]byte, plainMax)
	}
	plain, n := l.scratch.plain, 0
	t.link.in = b
	k.openRecords()
	err := error(nil)
	for err == nil {
		if n == len(plain) { // only bytes behind the handshake can fill it
			l.Input(k.s, plain)
			n = 0
			k.openRecords()
		}
		var m int
		m, err = t.Read(plain[n:])
		n += m
	}
	t.link.in = nil
	if !k.sendRecords() { // alerts, and answers to requests for new keys
		return
	}
	if n > 0 {
		l.Input(k.s, plain[:n])
	} else {
		l.Event(k.s, func(s *session.Session) { s.Spend(session.InputUnits) })
	}
	switch {
	case err == errNoInput && len(t.link.out) <= restMax:
	case err == io.EOF:
		l.Event(k.s, (*session.Session).HalfClose)
	default: // the records cannot be trusted, or the client does not read
		k.fail()
	}
}

// openRecords makes package tls write to the loop's buffer, unless the socket has a rest.
func (k *socket) openRecords() {
	if t := &k.tls.link; len(t.out) == 0 {
		t.out = k.loop.scratch.records[:0]
	}
}

// sendRecords sends the records in link.out. It keeps the rest if the socket is full, and returns
// false if it is broken.
func (k *socket) sendRecords() bool {
	t, account := &k.tls.link, k.reactor.host.Account
	sent := 0
	for sent < len(t.out) {
		n, ok := k.send(t.out[sent:])
		if !ok {
			return false
		}
		if n == 0 {
			break
		}
		sent += n
	}
	was := t.kept
	switch rest := t.out[sent:]; {
	case len(rest) > 0 && (sent > 0 || was == 0):
		t.out = slices.Clone(rest)
		fallthrough
	case len(rest) > 0:
		t.kept = cap(t.out)
	case was > 0:
		t.out, t.kept = nil, 0
	default:
		if cap(t.out) > cap(k.loop.scratch.records) {
			k.loop.scratch.records = t.out[:0]
		}
		t.out = nil
	}
	if t.kept != was {
		account.Add(t.kept - was)
	}
	if t.kept > 0 && k.unsent == nil {
		k.fallBehind()
	}
	return true
}

// encrypt sends a step of p, and returns its size. full means that the socket has a rest.
func (k *socket) encrypt(p []byte) (n int, full, ok bool) {
	p = p[:min(len(p), stepMax)]
	k.openRecords()
	if _, err := k.tls.Write(p); err != nil { // package tls has sent an alert
		k.fail()
		return 0, false, false
	}
	ok = k.sendRecords()
	return len(p), k.rest() > 0, ok
}

// rest returns the number of unsent bytes in records.
func (k *socket) rest() int {
	if k.tls == nil || k.tls.link.kept == 0 {
		return 0
	}
	return len(k.tls.link.out)
}

// dropRest drops unsent records.
func (k *socket) dropRest() {
	if k.tls != nil {
		t := &k.tls.link
		k.reactor.host.Account.Add(-t.kept)
		t.out, t.kept = nil, 0
	}
}

// sayClosed sends close_notify behind the last reply, once.
func (k *socket) sayClosed() {
	if k.tls == nil || k.tls.closed {
		return
	}
	k.tls.closed = true
	k.openRecords()
	k.tls.CloseWrite() // an error means that an alert was sent before
	k.sendRecords()
}
