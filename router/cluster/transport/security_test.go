package transport

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/codec/wiretest/certtest"
)

// optionsOf returns the options of a server with a certificate as requested.
func optionsOf(ca *certtest.Authority, node string, r certtest.Request) SecureOptions {
	cert, key := ca.Issue(r)
	return SecureOptions{Name: node, Cert: cert, Key: key, CA: ca.File}
}

// goodOptions returns the options of a server with a valid certificate.
func goodOptions(ca *certtest.Authority, node string) SecureOptions {
	return optionsOf(ca, node, certtest.ForNode(node))
}

// expiredCert, tooEarly and forServers request invalid certificates.
func expiredCert(name string) certtest.Request {
	r := certtest.ForNode(name)
	r.Until = time.Now().Add(-time.Hour)
	return r
}

func tooEarly(name string) certtest.Request {
	r := certtest.ForNode(name)
	r.From = time.Now().Add(time.Hour)
	return r
}

func forServers(name string) certtest.Request {
	r := certtest.ForNode(name)
	r.Uses = r.Uses[:1]
	return r
}

func mustSecure(t *testing.T, o SecureOptions) *Security {
	t.Helper()
	s, err := Secure(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// with sets the Security of a node.
func with(s *Security) func(*Transport) { return func(x *Transport) { x.o.Security = s } }

// forBoth runs a test over plaintext and over TLS, between nodes 1 and 2.
func forBoth(t *testing.T, f func(t *testing.T, a, b *node)) {
	t.Run("plaintext", func(t *testing.T) {
		a, b := newNode(t, 1, nil), newNode(t, 2, nil)
		meet(a, b)
		f(t, a, b)
	})
	t.Run("TLS", func(t *testing.T) {
		ca := certtest.New(t)
		a := newNode(t, 1, with(mustSecure(t, goodOptions(ca, "n1"))))
		b := newNode(t, 2, with(mustSecure(t, goodOptions(ca, "n2"))))
		meet(a, b)
		f(t, a, b)
	})
}

// A caller is a connection from an address.
type caller struct {
	net.Conn
	from string
}

func (c caller) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from))
}

// Repeated refusals of a peer, with other ports and times, do not fill the log.
func TestSameRefusalIsLoggedOnce(t *testing.T) {
	ca := certtest.Named(t, "jobs")
	security := mustSecure(t, goodOptions(ca, "n1"))
	n1 := newNode(t, 1, with(security))
	leaf := security.current.Load().chain[0]
	for i := range 5 {
		for _, from := range []string{"10.0.0.1", "10.0.0.2"} {
			c := caller{from: fmt.Sprintf("%s:%d", from, 1000+i)}
			n1.logRefusal(c, &greeting{}, security.refused())
			n1.logRefusal(c, &greeting{}, &certError{leaf, fmt.Errorf("expired %d s ago", i)})
			n1.logRefusal(c, &greeting{}, &net.OpError{Op: "read", Source: c.RemoteAddr(), Err: syscall.ECONNRESET})
		}
	}
	wantCounts(t, n1.log.String(), map[string]int{logBroken: 2, logRefused: 4, "expired": 2, "connection reset": 2, "node=": 0})
}

// unchecked returns a Security with files that Secure would refuse.
func unchecked(t *testing.T, o SecureOptions) *Security {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		t.Fatal(err)
	}
	m := &material{pair: pair, chain: []*x509.Certificate{pair.Leaf}, pool: x509.NewCertPool()}
	text, err := os.ReadFile(o.CA)
	if err != nil || !m.pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	if m.roots, err = certificates(text); err != nil {
		t.Fatal(err)
	}
	s := &Security{o: o}
	s.current.Store(m)
	return s
}

// wantTexts wants an error with texts.
func wantTexts(t *testing.T, name string, err error, texts ...string) {
	t.Helper()
	for _, words := range texts {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q in it", name, err, words)
		}
	}
}

// The error describes the certificate, and has the reason and a remedy.
func TestWrongCertificatesAreExplained(t *testing.T) {
	ca, other := certtest.Named(t, "jobs"), certtest.Named(t, "other")
	n1 := mustSecure(t, goodOptions(ca, "n1")).current.Load()
	for _, tt := range []struct {
		name string
		o    SecureOptions
		want string
	}{
		{"another authority", goodOptions(other, "n2"), `signed by "CN=other", and valid from `},
		{"the same", goodOptions(other, "n2"), "signed by unknown authority"},
		{"another name", optionsOf(ca, "n2", certtest.ForNode("n3")), `is for ["n3"], signed by "CN=jobs"`},
		{"the same", optionsOf(ca, "n2", certtest.ForNode("n3")), "it is not for n2, the server's name"},
		{"a pattern", optionsOf(ca, "n2", certtest.ForNode("*.example.org")), "it is not for n2"},
		{"expired", optionsOf(ca, "n2", expiredCert("n2")), "certificate has expired or is not yet valid"},
		{"not valid yet", optionsOf(ca, "n2", tooEarly("n2")), "certificate has expired or is not yet valid"},
		{"for servers only", optionsOf(ca, "n2", forServers("n2")), "incompatible key usage"},
	} {
		err := n1.verify(unchecked(t, tt.o).current.Load().chain, "n2", x509.ExtKeyUsageClientAuth)
		wantTexts(t, tt.name, err, tt.want, "is not accepted: ", ": give that server one for its name")
	}
}

// A server with a certificate that the other does not accept, or without one, is refused, whichever of
// the two connects. Both log why.
func TestWrongCertificatesAreRefused(t *testing.T) {
	ca, other := certtest.Named(t, "jobs"), certtest.Named(t, "other")
	const (
		noTLS     = "it does not speak TLS, this server does: give --cluster-cert"
		distrust  = "the other server does not trust this server's certificate, --cluster-cert"
		authority = "signed by unknown authority"
		name      = "it is not for n2"
	)
	believes := goodOptions(ca, "n2")
	believes.CA = other.File
	for _, tt := range []struct {
		name       string
		security   *Security // of n2
		n1Met      string    // n2 connects: n1 logs this
		n2Told     string    // and n2 is told this
		n1Connects string    // n1 connects: it is told this
		n2Met      string    // and n2 logs this
	}{
		{"another authority", unchecked(t, goodOptions(other, "n2")), distrust, authority, authority, distrust},
		{"--cluster-ca of another authority", unchecked(t, believes), distrust, authority, distrust, authority},
		{"another name", unchecked(t, optionsOf(ca, "n2", certtest.ForNode("n3"))), name, name, name, distrust},
		{"no TLS", nil, noTLS, "it speaks TLS, and you do not: give --cluster-cert", noTLS, "it speaks TLS, this server does not: give --cluster-cert"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n1 := newNode(t, 1, with(mustSecure(t, goodOptions(ca, "n1"))))
			n2 := newNode(t, 2, with(tt.security))
			_, err := n2.OpenAddr(t.Context(), n1.Addr().String(), Admin)
			wantTexts(t, "n2", err, tt.n2Told)
			n1.wantLogged(t, tt.n1Met)
			if tt.n1Met == distrust {
				n1.wantLogged(t, logBroken)
			}
			n1.SetMembers([]Member{n1.as(), n2.as()})
			_, err = n1.Open(t.Context(), 2, Admin)
			wantTexts(t, "n1", err, tt.n1Connects)
			n2.wantLogged(t, tt.n2Met)
			if s := n1.status(n2); n1.hears(n2) || s.SentBytes > 0 {
				t.Errorf("status %+v, want no connection", s)
			}
		})
	}
}

// A certificate expires with its authority's. After a Reload that fails the old files stay in use.
func TestExpiryIsThatOfTheFilesReadLast(t *testing.T) {
	a := certtest.New(t)
	r := certtest.ForNode("n1")
	r.Until = time.Now().Add(1000 * time.Hour)
	cert, key := a.Issue(r)
	s, err := Secure(SecureOptions{Name: "n1", Listen: "10.0.0.1:1", Cert: cert, Key: key, CA: a.File})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Expiry().At; got.After(certtest.Tomorrow()) || got.Before(time.Now()) {
		t.Errorf("its expiry is %v", got)
	}
	if got := s.Expiry(); got.Flag != "cluster-ca" || got.File != a.File {
		t.Errorf("%+v, want the authority's to expire first", got)
	}
	was := s.Expiry()
	if err := os.WriteFile(cert, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil || s.Expiry() != was {
		t.Errorf("an invalid file: %v, and %+v, want an error and %+v", err, s.Expiry(), was)
	}
	r.Until = time.Now().Add(time.Hour)
	a.Renew(cert, key, r)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := s.Expiry(); got.Flag != "cluster-cert" || got.File != cert || !got.At.Equal(r.Until.Truncate(time.Second)) {
		t.Errorf("%+v, want its own to expire first", got)
	}
}

func TestPortsOfOthersNeedSecurity(t *testing.T) {
	ca := certtest.New(t)
	good := goodOptions(ca, "n1")
	change := func(f func(*SecureOptions)) SecureOptions {
		o := good
		f(&o)
		return o
	}
	none := func(listen, advertise string) SecureOptions {
		return SecureOptions{Name: "n1", Listen: listen, Advertise: advertise}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		o    SecureOptions
		tls  bool
		want string // words of the error; empty: none
	}{
		{"IPv4 loopback", none("127.0.0.1:1", ""), false, ""},
		{"any of it", none("127.9.9.9:1", "127.0.0.1:1"), false, ""},
		{"IPv6 loopback", none("[::1]:1", "[::1]:1"), false, ""},
		{"localhost", none("localhost:1", ""), false, ""},
		{"all addresses", none(":1", ""), false, "--cluster-plaintext"},
		{"another address", none("192.0.2.1:1", ""), false, "--cluster-listen is 192.0.2.1:1"},
		{"a name", none("queue-1:1", ""), false, "give --cluster-cert"},
		{"advertised elsewhere", none("127.0.0.1:1", "192.0.2.1:1"), false, "--cluster-advertise is 192.0.2.1:1"},
		{"allowed", SecureOptions{Name: "n1", Listen: ":1", AllowsPlaintext: true}, false, ""},
		{"certificates", change(func(o *SecureOptions) { o.Listen = ":1" }), true, ""},
		{"certificates and plaintext", change(func(o *SecureOptions) { o.AllowsPlaintext = true }), false, "either"},
		{"no key", change(func(o *SecureOptions) { o.Key = "" }), false, "give all three"},
		{"no authority", change(func(o *SecureOptions) { o.CA = "" }), false, "give all three"},
		{"no such file", change(func(o *SecureOptions) { o.Cert += "x" }), false, "--cluster-cert"},
		{"keys swapped", change(func(o *SecureOptions) { o.Cert, o.Key = o.Key, o.Cert }), false, "--cluster-cert: "},
		{"the key of another", change(func(o *SecureOptions) { o.Key = goodOptions(ca, "n1").Key }), false, "--cluster-key: "},
		{"an authority that is none", change(func(o *SecureOptions) { o.CA = empty }), false, "--cluster-ca: "},
		{"for another", change(func(o *SecureOptions) { o.Name = "n2" }), false, "it is not for n2"},
		{"expired", optionsOf(ca, "n1", expiredCert("n1")), false, "--cluster-cert: "},
		{"not valid yet", optionsOf(ca, "n1", tooEarly("n1")), false, "not yet valid"},
		{"not for clients", optionsOf(ca, "n1", forServers("n1")), false, "incompatible key usage"},
		{"of another authority", change(func(o *SecureOptions) { o.CA = certtest.Named(t, "other").File }), false, "--cluster-cert: "},
		{"--cluster-ca is the server's own", change(func(o *SecureOptions) { o.CA = goodOptions(ca, "n1").Cert }), false, "--cluster-cert: "},
	} {
		s, err := Secure(tt.o)
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want an error with %q", tt.name, err, tt.want)
		case err == nil && (s != nil) != tt.tls:
			t.Errorf("%s: TLS is %v, want %v", tt.name, s != nil, tt.tls)
		}
	}
}
