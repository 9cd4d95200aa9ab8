package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"polystalk/router/access"
)

// SecureOptions are the operator's settings about security.
type SecureOptions struct {
	Name            string // of this server
	Listen          string // --cluster-listen
	Advertise       string // --cluster-advertise; may be empty
	Cert, Key, CA   string // files in PEM: --cluster-cert, --cluster-key, --cluster-ca
	AllowsPlaintext bool   // --cluster-plaintext
}

// A FlagError is about the value of one flag.
type FlagError struct {
	Flag string // without the dashes
	Err  error  // ends in a remedy
}

func (e *FlagError) Error() string { return "--" + e.Flag + ": " + e.Err.Error() }

// Unwrap implements the interface of package errors.
func (e *FlagError) Unwrap() error { return e.Err }

// A Security authenticates both ends of a connection by TLS 1.3. Its methods are safe for
// concurrent use.
type Security struct {
	o       SecureOptions
	current atomic.Pointer[material]
}

// A material is the content of the files.
type material struct {
	pair  tls.Certificate
	chain []*x509.Certificate // of --cluster-cert
	roots []*x509.Certificate // of --cluster-ca
	pool  *x509.CertPool      // the same
	ends  *x509.Certificate   // see Security.Expiry
}

// Secure reads the certificates. It returns nil without an error if none are given and none are
// needed: on loopback addresses, or with --cluster-plaintext. Errors end in a remedy.
func Secure(o SecureOptions) (*Security, error) {
	switch given := o.Cert != "" || o.Key != "" || o.CA != ""; {
	case given && (o.Cert == "" || o.Key == "" || o.CA == ""):
		return nil, errors.New("--cluster-cert, --cluster-key and --cluster-ca belong together: give all three, or none")
	case given && o.AllowsPlaintext:
		return nil, errors.New("--cluster-plaintext excludes --cluster-cert, --cluster-key and --cluster-ca: give either it or them")
	case given:
		s := &Security{o: o}
		return s, s.Reload()
	case o.AllowsPlaintext:
		return nil, nil
	}
	for _, at := range []struct{ flag, addr string }{{"--cluster-listen", o.Listen}, {"--cluster-advertise", o.Advertise}} {
		if at.addr != "" && !isLoopback(at.addr) {
			return nil, fmt.Errorf("%s is %s, which other machines can reach, and any of them could take the jobs: give --cluster-cert, --cluster-key and --cluster-ca, "+
				"or --cluster-plaintext if the network is trusted", at.flag, at.addr)
		}
	}
	return nil, nil
}

// isLoopback reports whether only this machine reaches an address. A name other than localhost may
// be another machine's.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Reload reads the files again. After an error the old certificates stay in use. Connections stay
// open.
func (s *Security) Reload() error {
	m, err := s.read()
	if err != nil {
		return err
	}
	s.current.Store(m)
	return nil
}

func (s *Security) read() (*material, error) {
	var texts [3][]byte
	for i, f := range []struct{ flag, path string }{{"cluster-cert", s.o.Cert}, {"cluster-key", s.o.Key}, {"cluster-ca", s.o.CA}} {
		text, err := access.ReadFile(f.path, true)
		if err != nil {
			return nil, &FlagError{f.flag, fmt.Errorf("%w: give a file in PEM that this user may read", err)}
		}
		texts[i] = text
	}
	m := &material{pool: x509.NewCertPool()}
	var err error
	if m.roots, err = certificates(texts[2]); err != nil {
		return nil, &FlagError{"cluster-ca", fmt.Errorf("%q cannot be used: %w: give the certificate of the authority that has signed the servers' certificates, in PEM", s.o.CA, err)}
	}
	if m.chain, err = certificates(texts[0]); err != nil {
		return nil, &FlagError{"cluster-cert", fmt.Errorf("%q cannot be used: %w: give this server's certificate, and all intermediate certificates, in PEM", s.o.Cert, err)}
	}
	if m.pair, err = tls.X509KeyPair(texts[0], texts[1]); err != nil {
		return nil, &FlagError{"cluster-key", fmt.Errorf("%q cannot be used: %w: give the key in PEM that belongs to --cluster-cert %q", s.o.Key, err, s.o.Cert)}
	}
	for _, c := range m.roots {
		m.pool.AddCert(c)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if err := m.verify(m.chain, s.o.Name, use); err != nil { // other servers would not accept it either
			return nil, &FlagError{"cluster-cert", fmt.Errorf("%q and --cluster-ca %q: %w", s.o.Cert, s.o.CA, err)}
		}
	}
	m.ends = m.firstToEnd()
	return m, nil
}

// certificates parses the certificates of a PEM file, at least one.
func certificates(text []byte) (list []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if list == nil {
		return nil, errors.New("it has no certificate")
	}
	return list, nil
}

func (m *material) verifyOptions(chain []*x509.Certificate, use x509.ExtKeyUsage, now time.Time) x509.VerifyOptions {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	return x509.VerifyOptions{Roots: m.pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}, CurrentTime: now}
}

// verify checks the signatures, dates, use and name of a chain. An empty name is not checked. The
// error is a *certError.
func (m *material) verify(chain []*x509.Certificate, name string, use x509.ExtKeyUsage) error {
	if _, err := chain[0].Verify(m.verifyOptions(chain, use, time.Now())); err != nil {
		return &certError{chain[0], err}
	}
	if name == "" {
		return nil
	}
	return checkName(chain[0], name)
}

// A certError says why a certificate is not accepted.
type certError struct {
	cert *x509.Certificate
	err  error
}

// Error describes the certificate, and says what to do.
func (e *certError) Error() string {
	return fmt.Sprintf("the certificate, %s, is not accepted: %v: give that server one for its name, for servers and clients, that is valid now "+
		"and signed by the authority in --cluster-ca of all servers, or set the clocks", describe(e.cert), e.err)
}

func describe(c *x509.Certificate) string {
	const utc = "2006-01-02 15:04:05 UTC"
	return fmt.Sprintf("which is for %q, signed by %q, and valid from %s until %s",
		c.DNSNames, c.Issuer.String(), c.NotBefore.UTC().Format(utc), c.NotAfter.UTC().Format(utc))
}

// checkName checks that a certificate is for a name. A wildcard matches no name: one certificate
// for all servers would not tell them apart.
func checkName(c *x509.Certificate, name string) error {
	if slices.ContainsFunc(c.DNSNames, func(n string) bool { return strings.EqualFold(n, name) }) {
		return nil
	}
	return &certError{c, fmt.Errorf("it is not for %s, the server's name", name)}
}

// certificateOf returns the certificate that the other end has shown, or nil.
func certificateOf(c net.Conn) *x509.Certificate {
	if t, ok := c.(tlsConn); ok {
		return t.ConnectionState().PeerCertificates[0]
	}
	return nil
}

// certifies checks that the other end has shown a certificate for a name. Without TLS it accepts
// every name.
func certifies(c net.Conn, name string) error {
	if cert := certificateOf(c); cert != nil {
		return checkName(cert, name)
	}
	return nil
}

// errDistrusted says that the other server does not accept this server's certificate.
var errDistrusted = errors.New("the other server does not trust this server's certificate")

// refused explains errDistrusted. TLS gives no reason, so refused describes the certificate.
func (s *Security) refused() error {
	return fmt.Errorf("%w, --cluster-cert %q, %s: the log of the other says why; usually --cluster-ca of the two is not of one authority, or the clocks differ",
		errDistrusted, s.o.Cert, describe(s.current.Load().chain[0]))
}

// config returns the TLS configuration of either side. other is the name of the other end, or empty
// if it is checked later. VerifyConnection checks certificates instead of package tls, which would
// compare the dialed address, and keep the authorities of the start.
func (s *Security) config(other string, use x509.ExtKeyUsage) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		// One record for each write: small records only help browsers.
		DynamicRecordSizingDisabled: true,
		ClientAuth:                  tls.RequireAnyClientCert,
		GetCertificate:              func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.current.Load().pair, nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &s.current.Load().pair, nil
		},
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			return s.current.Load().verify(c.PeerCertificates, other, use)
		},
	}
}

// An Expiry says when other servers stop accepting this one, and which file must be replaced.
type Expiry struct {
	At   time.Time
	Flag string // without the dashes: cluster-cert, or cluster-ca
	File string
}

// Expiry returns the first expiry in the chain of certificates read last: the server's, an
// intermediate one, or the authority's.
func (s *Security) Expiry() Expiry {
	m := s.current.Load()
	e := Expiry{At: m.ends.NotAfter, Flag: "cluster-cert", File: s.o.Cert}
	if slices.ContainsFunc(m.roots, m.ends.Equal) && !m.ends.Equal(m.chain[0]) {
		e.Flag, e.File = "cluster-ca", s.o.CA
	}
	return e
}

// firstToEnd returns the certificate that expires first in the chain that is valid for longest.
func (m *material) firstToEnd() (ends *x509.Certificate) {
	chains, err := m.chain[0].Verify(m.verifyOptions(m.chain, x509.ExtKeyUsageAny, time.Now()))
	if err != nil {
		return m.chain[0]
	}
	for _, chain := range chains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		if ends == nil || first.NotAfter.After(ends.NotAfter) {
			ends = first
		}
	}
	return ends
}
