package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"polystalk/router/access"
)

// SecureOptions are what the operator says of who may come to the cluster's port.
type SecureOptions struct {
	Name            string // this node's
	Listen          string // --cluster-listen
	Advertise       string // --cluster-advertise; may be empty
	Cert, Key, CA   string // files in PEM: --cluster-cert, --cluster-key, --cluster-ca
	AllowsPlaintext bool   // --cluster-plaintext
}

// A Security is how connections between nodes are kept from strangers: TLS 1.3, with a
// certificate at both ends. Its methods may be called by anyone.
type Security struct {
	o       SecureOptions
	current atomic.Pointer[material]
}

// material is what the files say.
type material struct {
	pair  tls.Certificate
	chain []*x509.Certificate // of --cluster-cert
	roots []*x509.Certificate // of --cluster-ca
	pool  *x509.CertPool      // the same
	ends  *x509.Certificate   // see Security.Ending
}

// Secure reads the certificates. It gives nil without an error where there are none and
// need not be any: on this machine's own addresses, or if the operator says so. Errors end
// in what to do.
func Secure(o SecureOptions) (*Security, error) {
	switch given := o.Cert != "" || o.Key != "" || o.CA != ""; {
	case given && (o.Cert == "" || o.Key == "" || o.CA == ""):
		return nil, errors.New("of --cluster-cert, --cluster-key and --cluster-ca some are missing: give all three, or none")
	case given && o.AllowsPlaintext:
		return nil, errors.New("--cluster-plaintext goes without --cluster-cert, --cluster-key and --cluster-ca: give either it or them")
	case given:
		s := &Security{o: o}
		return s, s.Reload()
	case o.AllowsPlaintext:
		return nil, nil
	}
	for _, at := range []struct{ flag, addr string }{{"--cluster-listen", o.Listen}, {"--cluster-advertise", o.Advertise}} {
		if at.addr != "" && !isLoopback(at.addr) {
			return nil, fmt.Errorf("%s is %s, which other machines reach, and anybody who does could take the jobs: give --cluster-cert, --cluster-key and --cluster-ca, "+
				"or --cluster-plaintext if nobody else can be in that network", at.flag, at.addr)
		}
	}
	return nil, nil
}

// isLoopback reports whether only this machine reaches an address. A name is another
// machine's, for all that is known, but for the one that means this.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// pemMax bounds each of the files in bytes.
const pemMax = 1 << 20

// Reload reads the files again; on an error what was read before stays in use. Connections
// that are open go on.
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
		text, err := access.ReadSecret(f.path, pemMax)
		if err != nil {
			return nil, &FlagError{f.flag, fmt.Errorf("%w: give a file in PEM that this user may read", err)}
		}
		texts[i] = text
	}
	m := new(material)
	var err error
	if m.roots, err = certificates(texts[2]); err != nil {
		return nil, &FlagError{"cluster-ca", fmt.Errorf("%q cannot be used: %w: give the certificate of the authority which has signed those of the servers, in PEM", s.o.CA, err)}
	}
	if m.chain, err = certificates(texts[0]); err != nil {
		return nil, &FlagError{"cluster-cert", fmt.Errorf("%q cannot be used: %w: give this server's certificate, and those between it and the authority's, in PEM", s.o.Cert, err)}
	}
	if m.pair, err = tls.X509KeyPair(texts[0], texts[1]); err != nil {
		return nil, &FlagError{"cluster-key", fmt.Errorf("%q cannot be used: %w: give the key in PEM that belongs to --cluster-cert %q", s.o.Key, err, s.o.Cert)}
	}
	m.pool = x509.NewCertPool()
	for _, c := range m.roots {
		m.pool.AddCert(c)
	}
	if err := m.own(&s.o); err != nil {
		return nil, err
	}
	m.ends = m.firstToEnd()
	return m, nil
}

// certificates are those of a file in PEM, one at least.
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

// own checks that others will believe this server. The error is a *FlagError.
func (m *material) own(o *SecureOptions) error {
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if d, ok := errors.AsType[*doubt](m.verify(m.chain, o.Name, use)); ok {
			return d.ofOwn(o)
		}
	}
	return nil
}

// options are how a chain is verified.
func (m *material) options(chain []*x509.Certificate, use x509.ExtKeyUsage, now time.Time) x509.VerifyOptions {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	return x509.VerifyOptions{Roots: m.pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}, CurrentTime: now}
}

// verify checks that the authority has signed a chain, for a use and now, and that it is
// for the name; an empty one is not looked at. The error is a *doubt.
func (m *material) verify(chain []*x509.Certificate, name string, use x509.ExtKeyUsage) error {
	now := time.Now()
	if _, err := chain[0].Verify(m.options(chain, use, now)); err != nil {
		d := &doubt{shown: chain[0], name: name, use: use, roots: m.roots, now: now}
		return d.explain(err)
	}
	if name == "" {
		return nil
	}
	return isFor(chain[0], name)
}

// config is how TLS is spoken, by who connects or is connected to; other is the name that
// the other end must have, empty if that is looked at later. Certificates are checked here
// rather than by package tls, which would look for the address that was dialed, and keep
// the authorities of the start.
func (s *Security) config(other string, use x509.ExtKeyUsage) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		ClientAuth:             tls.RequireAnyClientCert,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.current.Load().pair, nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &s.current.Load().pair, nil
		},
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(c tls.ConnectionState) error {
			return s.current.Load().verify(c.PeerCertificates, other, use)
		},
	}
}

// client is the side of who connects to a node of a name, or to one whose name is not known.
func (s *Security) client(c net.Conn, other string) *tls.Conn {
	return tls.Client(c, s.config(other, x509.ExtKeyUsageServerAuth))
}

// server is the side of who is connected to.
func (s *Security) server(c net.Conn) *tls.Conn {
	return tls.Server(c, s.config("", x509.ExtKeyUsageClientAuth))
}
