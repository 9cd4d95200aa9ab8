package main

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/codec/wiretest/certtest"
)

// TestCertificateIsNotWaitedFor: a pipe without a writer must not block a reload, and with it
// SIGTERM, forever.
func TestCertificateIsNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	if _, err := openCertificate(pipe, pipe, "--tls-cert"); err == nil || !strings.Contains(err.Error(), "give two files in PEM") {
		t.Errorf("%v", err)
	}
}

// handshake performs a handshake of a client with a configuration of the server.
func handshake(server, client *tls.Config) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		c, err := tls.Dial("tcp", l.Addr().String(), client)
		if err == nil {
			c.Read(make([]byte, 1)) // the ticket
			c.Close()
		}
	}()
	nc, err := l.Accept()
	if err != nil {
		return err
	}
	defer nc.Close()
	c := tls.Server(nc, server)
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.Handshake()
}

// clientCertificate returns the configuration of a client that shows a certificate.
func clientCertificate(t *testing.T, cert, key string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	must(t, err)
	return &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
}

// forClient requests a certificate for a client.
func forClient(name string) certtest.Request {
	return certtest.Request{Name: name, Until: certtest.Tomorrow(), Uses: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// newClientTLS returns the TLS of a server that checks certificates of clients.
func newClientTLS(t *testing.T, log *slog.Logger, change func(c *config.Config)) *clientTLS {
	t.Helper()
	c := new(config.Config)
	c.TLS.Clients = "ask"
	c.TLS.Cert, c.TLS.Key = certtest.New(t).Issue(certtest.ForNode("server"))
	change(c)
	s, err := openClientTLS(c, log)
	must(t, err)
	return s
}

func TestCertificatesOfClientsAreChecked(t *testing.T) {
	ca := certtest.New(t)
	revoked, revokedKey := ca.Issue(forClient("revoked"))
	crl := ca.Revoke(certtest.Tomorrow(), revoked)
	issue := func(a *certtest.Authority, change func(r *certtest.Request)) *tls.Config {
		r := forClient("client")
		change(&r)
		cert, key := a.Issue(r)
		return clientCertificate(t, cert, key)
	}
	for _, k := range []struct {
		name   string
		client *tls.Config
		says   string // empty: accepted
	}{
		{"valid", issue(ca, func(*certtest.Request) {}), ""},
		{"none", &tls.Config{InsecureSkipVerify: true}, "didn't provide a certificate"},
		{"expired", issue(ca, func(r *certtest.Request) { r.Until = time.Now().Add(-time.Minute) }), "expired"},
		{"not yet valid", issue(ca, func(r *certtest.Request) { r.From = time.Now().Add(time.Hour) }), "not yet valid"},
		{"of another authority", issue(certtest.Named(t, "other"), func(*certtest.Request) {}), "unknown authority"},
		{"of another authority with the same name", issue(certtest.New(t), func(*certtest.Request) {}), "unknown authority"},
		{"for servers only", issue(ca, func(r *certtest.Request) { r.Uses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), "incompatible key usage"},
		{"revoked", clientCertificate(t, revoked, revokedKey), "revoked"},
		{"behind many others", longChain(issue(ca, func(*certtest.Request) {}), 6), "6 certificates"},
		{"with a chain of the greatest length", longChain(issue(ca, func(*certtest.Request) {}), 5), ""},
		{"with an RSA key of 16384 bits", hugeKey(t), "larger than 8192 bits"},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			s := newClientTLS(t, slog.New(slog.DiscardHandler), func(c *config.Config) {
				c.TLS.CA, c.TLS.CRL, c.TLS.Clients = ca.File, crl, "require"
			})
			k.client.MinVersion, k.client.MaxVersion = version, version
			err := handshake(s.config(listen.GearmanTLS)(), k.client)
			if (err == nil) != (k.says == "") || err != nil && !strings.Contains(err.Error(), k.says) {
				t.Errorf("a certificate that is %s, %s: %v, want %q", k.name, tls.VersionName(version), err, k.says)
			}
		}
	}
	s := newClientTLS(t, slog.New(slog.DiscardHandler), func(c *config.Config) { c.TLS.CA, c.TLS.CRL = ca.File, crl })
	for says, client := range map[string]*tls.Config{"": {InsecureSkipVerify: true}, "revoked": clientCertificate(t, revoked, revokedKey)} {
		if err := handshake(s.config(listen.GearmanTLS)(), client); (err == nil) != (says == "") {
			t.Errorf("asked for a certificate: %v, want %q", err, says)
		}
	}
}

// longChain makes a client show its certificate n times.
func longChain(c *tls.Config, n int) *tls.Config {
	pair, _ := c.GetClientCertificate(nil)
	pair.Certificate = slices.Repeat(pair.Certificate, n)
	return c
}

// hugeKey returns a client that shows a certificate with a key of 16384 bits, which it does not have.
func hugeKey(t *testing.T) *tls.Config {
	t.Helper()
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	n := new(big.Int).Lsh(big.NewInt(1), 16383)
	public := &rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: 65537}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: certtest.Tomorrow()}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, own)
	must(t, err)
	return &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: own}, nil
	}}
}

// TestRevokedClientsDoNotResume: a ticket from before a reload is void, and one of the same
// configuration is checked again.
func TestRevokedClientsDoNotResume(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ca := certtest.New(t)
		cert, key := ca.Issue(forClient("client"))
		list := ca.Revoke(certtest.Tomorrow())
		s := newClientTLS(t, slog.New(slog.DiscardHandler), func(c *config.Config) { c.TLS.CA, c.TLS.CRL = ca.File, list })
		client := clientCertificate(t, cert, key)
		client.ClientSessionCache, client.MinVersion, client.MaxVersion = tls.NewLRUClientSessionCache(1), version, version
		for range 2 {
			must(t, handshake(s.config(listen.BeanstalkdTLS)(), client))
		}
		b, err := os.ReadFile(ca.Revoke(certtest.Tomorrow(), cert))
		must(t, err)
		must(t, os.WriteFile(list, b, 0o600))
		apply, err := s.prepare(nil)
		must(t, err)
		must(t, handshake(s.config(listen.BeanstalkdTLS)(), client)) // nothing was applied yet
		apply()
		if err := handshake(s.config(listen.BeanstalkdTLS)(), client); err == nil || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

// TestSessionsEndWithTheirAuthority: a reload ends the sessions whose certificates new clients could
// not use any longer, unless only their time is over.
func TestSessionsEndWithTheirAuthority(t *testing.T) {
	old, kept := certtest.Named(t, "old"), certtest.Named(t, "kept")
	both, list := filepath.Join(t.TempDir(), "both"), kept.Revoke(certtest.Tomorrow())
	write := func(file string, parts ...string) {
		var all []byte
		for _, p := range parts {
			b, err := os.ReadFile(p)
			must(t, err)
			all = append(all, b...)
		}
		must(t, os.WriteFile(file, all, 0o600))
	}
	write(both, old.File, kept.File)
	shown := make(map[string][]*x509.Certificate)
	files := make(map[string]string)
	issue := func(name string, a *certtest.Authority, r certtest.Request) {
		cert, key := a.Issue(r)
		pair, err := tls.LoadX509KeyPair(cert, key)
		must(t, err)
		shown[name], files[name] = []*x509.Certificate{pair.Leaf}, cert
	}
	ended := forClient("ended")
	ended.Until = time.Now().Add(-time.Minute)
	issue("of the old authority", old, forClient("a"))
	issue("of the old authority, ended", old, ended)
	issue("of the other", kept, forClient("b"))
	issue("of the other, ended", kept, ended)
	issue("of the other, revoked", kept, forClient("c"))
	shown["none"] = nil
	s := newClientTLS(t, slog.New(slog.DiscardHandler), func(c *config.Config) { c.TLS.CA, c.TLS.CRL = both, list })
	revoked := func(want ...string) {
		t.Helper()
		apply, err := s.prepare(nil)
		must(t, err)
		apply()
		for name, certs := range shown {
			if s.isRevoked(certs) != slices.Contains(want, name) {
				t.Errorf("%s: %t", name, s.isRevoked(certs))
			}
		}
	}
	revoked()
	write(list, kept.Revoke(certtest.Tomorrow(), files["of the other, revoked"]))
	revoked("of the other, revoked")
	write(both, kept.File)
	for range 2 { // the second reload removes nothing
		revoked("of the other, revoked", "of the old authority", "of the old authority, ended")
	}
}

// TestFilesOfTLSAreAllOrNothing: each broken file has its message, and nothing changes.
func TestFilesOfTLSAreAllOrNothing(t *testing.T) {
	ca := certtest.New(t)
	var log bytes.Buffer
	s := newClientTLS(t, slog.New(slog.NewTextHandler(&log, nil)), func(c *config.Config) {
		c.TLS.CA, c.TLS.CRL = ca.File, ca.Revoke(time.Now().Add(-time.Hour))
	})
	if !strings.Contains(log.String(), "out of date") {
		t.Errorf("a list of yesterday gives no warning: %s", &log)
	}
	was := s.config(listen.GearmanTLS)()
	other := certtest.Named(t, "other")
	foreign, err := os.ReadFile(other.Revoke(certtest.Tomorrow()))
	must(t, err)
	for _, k := range []struct {
		file string
		text []byte
		says string
	}{
		{s.c.TLS.Cert, []byte("x"), "give two files in PEM"},
		{s.c.TLS.Key, []byte("x"), "give two files in PEM"},
		{s.c.TLS.CA, []byte("x"), "it has no CERTIFICATE"},
		{s.c.TLS.CRL, []byte("x"), "it has no X509 CRL"},
		{s.c.TLS.CRL, foreign, "not signed by one of the authorities"},
		{s.c.TLS.CRL, bytes.Repeat([]byte("x"), 1<<20+1), "more than 1048576 bytes"},
	} {
		text, err := os.ReadFile(k.file)
		must(t, err)
		must(t, os.WriteFile(k.file, k.text, 0o600))
		if _, err := s.prepare(nil); err == nil || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%s: %v, want %q", k.file, err, k.says)
		}
		must(t, os.WriteFile(k.file, text, 0o600))
	}
	if s.config(listen.GearmanTLS)() != was {
		t.Error("the configuration was replaced")
	}
	must(t, os.Remove(s.c.TLS.CRL))
	if _, err := s.prepare(nil); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}
