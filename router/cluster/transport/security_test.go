package transport

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polystalk/router/cluster/certtest"
)

// optionsOf has a certificate issued, and gives the options of the node for which it should be.
func optionsOf(ca *certtest.Authority, node string, r certtest.Request) SecureOptions {
	cert, key := ca.Issue(r)
	return SecureOptions{Name: node, Cert: cert, Key: key, CA: ca.File}
}

// goodOptions are those of a node whose certificate is good.
func goodOptions(ca *certtest.Authority, node string) SecureOptions {
	return optionsOf(ca, node, certtest.ForNode(node))
}

// expired and forServers are requests for certificates that are no good.
func expired(name string) certtest.Request {
	r := certtest.ForNode(name)
	r.Until = time.Now().Add(-time.Hour)
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

// with gives a node a security.
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

func TestMessagesOverBoth(t *testing.T) {
	forBoth(t, func(t *testing.T, a, b *node) {
		talk(t, a, b, "there")
		large := strings.Repeat("large ", 1<<20)
		a.say(t, b, large)
		a.say(t, b, "small")
		b.hear(t, a, large)
		b.hear(t, a, "small")
		talk(t, b, a, "and back")
	})
}

func TestWrongCertificatesAreRefused(t *testing.T) {
	ca, other := certtest.New(t), certtest.New(t)
	// unchecked is a security of whatever the files say.
	unchecked := func(o SecureOptions) *Security {
		s := &Security{o: o}
		good := goodOptions(ca, o.Name)
		g := mustSecure(t, good)
		m := *g.current.Load()
		if o.Cert != "" {
			m.pair = pairOf(t, o)
		}
		s.current.Store(&m)
		return s
	}
	for _, tt := range []struct {
		name     string
		security *Security
		here     string // what the other node logs
		atStart  string // what n2, which has the wrong one, is told when it connects
		byTheWay string // what n1 says of it when that connects
	}{
		{"another authority", unchecked(goodOptions(other, "n2")), "unknown authority", "its log says why", "another authority"},
		{"another name", unchecked(optionsOf(ca, "n2", certtest.ForNode("n3"))), "is for n3 and not for n2", "is for n3 and not for n2", "is for n3 and not for n2"},
		{"a pattern", unchecked(optionsOf(ca, "n2", certtest.ForNode("*.example.org"))), "and not for n2", "and not for n2", "and not for n2"},
		{"expired", unchecked(optionsOf(ca, "n2", expired("n2"))), "expired", "its log says why", "give that node a new one"},
		{"for servers only", unchecked(optionsOf(ca, "n2", forServers("n2"))), "incompatible key usage", "its log says why", ""},
		{"no TLS", nil, "it does not speak TLS", "it speaks TLS, and you do not", "it does not speak TLS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newNode(t, 1, with(mustSecure(t, goodOptions(ca, "n1"))))
			b := newNode(t, 2, with(tt.security))
			a.SetMembers([]Member{a.as(), b.as()})
			b.SetMembers([]Member{a.as(), b.as()})
			if _, err := b.OpenAddr(t.Context(), a.Addr().String(), Admin); tt.atStart != "" && (err == nil || !strings.Contains(err.Error(), tt.atStart)) {
				t.Errorf("who comes with it is told %v, want an error with %q", err, tt.atStart)
			}
			a.wantLogged(t, tt.here)
			if tt.byTheWay != "" {
				if _, err := a.Open(t.Context(), 2, Admin); err == nil || !strings.Contains(err.Error(), tt.byTheWay) {
					t.Errorf("who connects to it says %v, want an error with %q", err, tt.byTheWay)
				}
				// Nor does who does not know yet who should be there.
				if _, err := a.OpenAddr(t.Context(), b.Addr().String(), Admin); err == nil || !strings.Contains(err.Error(), tt.byTheWay) {
					t.Errorf("who connects to its address says %v, want an error with %q", err, tt.byTheWay)
				}
				if s := a.status(b); s.Sent > 0 {
					t.Errorf("status %+v, want nothing sent", s)
				}
			}
			if s := a.status(b); s.Hears {
				t.Errorf("status %+v, want it kept out", s)
			}
		})
	}
}

func TestPlaintextNodeMeetsTLS(t *testing.T) {
	ca := certtest.New(t)
	a := newNode(t, 1, nil)
	b := newNode(t, 2, with(mustSecure(t, goodOptions(ca, "n2"))))
	meet(a, b)
	a.wantLogged(t, "it speaks TLS")
	b.wantLogged(t, "it does not speak TLS")
	if a.status(b).Received+b.status(a).Received > 0 {
		t.Error("messages arrived")
	}
}

func TestReloadTakesNewFiles(t *testing.T) {
	ca := certtest.New(t)
	o := goodOptions(ca, "n1")
	s := mustSecure(t, o)
	if err := os.WriteFile(o.Cert, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	was := s.Until()
	if err := s.Reload(); err == nil || s.Until() != was {
		t.Errorf("a file that is none: %v, and it is valid until %v, want an error and %v", err, s.Until(), was)
	}
	r := certtest.ForNode("n1")
	r.Until = r.Until.Add(-time.Hour).Truncate(time.Second)
	later := r.Until
	ca.Renew(o.Cert, o.Key, r)
	if err := s.Reload(); err != nil || !s.Until().Equal(later) {
		t.Errorf("%v, valid until %v, want %v", err, s.Until(), later)
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
		{"keys swapped", change(func(o *SecureOptions) { o.Cert, o.Key = o.Key, o.Cert }), false, "belong together"},
		{"an authority that is none", change(func(o *SecureOptions) { o.CA = empty }), false, "has no certificate"},
		{"for another", change(func(o *SecureOptions) { o.Name = "n2" }), false, "for n1 and not for n2"},
		{"expired", optionsOf(ca, "n1", expired("n1")), false, "expired"},
		{"not for clients", optionsOf(ca, "n1", forServers("n1")), false, "for servers and clients"},
		{"of another authority", change(func(o *SecureOptions) { o.CA = certtest.New(t).File }), false, "would not be believed"},
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

// pairOf reads a certificate with its key, without looking at it.
func pairOf(t *testing.T, o SecureOptions) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
