package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
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
	roots *x509.CertPool
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
	for i, path := range []string{s.o.Cert, s.o.Key, s.o.CA} {
		text, err := access.ReadSecret(path, pemMax)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: give a file in PEM that this user may read", []string{"--cluster-cert", "--cluster-key", "--cluster-ca"}[i], err)
		}
		texts[i] = text
	}
	m := &material{roots: x509.NewCertPool()}
	var err error
	if m.pair, err = tls.X509KeyPair(texts[0], texts[1]); err != nil {
		return nil, fmt.Errorf("--cluster-cert %s and --cluster-key %s cannot be used: %w: give two files in PEM that belong together", s.o.Cert, s.o.Key, err)
	}
	if !m.roots.AppendCertsFromPEM(texts[2]) {
		return nil, fmt.Errorf("--cluster-ca %s has no certificate: give that of the authority which has signed the nodes' certificates, in PEM", s.o.CA)
	}
	chain := []*x509.Certificate{m.pair.Leaf}
	for _, der := range m.pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("--cluster-cert %s cannot be used: %w: give the node's certificate and those between it and the authority's", s.o.Cert, err)
		}
		chain = append(chain, c)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if err := m.verify(chain, s.o.Name, use); err != nil {
			return nil, fmt.Errorf("--cluster-cert %s would not be believed by other nodes: %w: have the cluster's authority sign one for %s, for servers and clients", s.o.Cert, err, s.o.Name)
		}
	}
	return m, nil
}

// Until is when this node's certificate is no longer valid.
func (s *Security) Until() time.Time { return s.current.Load().pair.Leaf.NotAfter }

// verify checks that the authority has signed a chain, for a use and now, and that it is
// for the name; an empty one is not looked at.
func (m *material) verify(chain []*x509.Certificate, name string, use x509.ExtKeyUsage) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{
		Roots: m.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use},
	}); err != nil {
		return err
	}
	if name == "" {
		return nil
	}
	return isFor(chain[0], name)
}

// isFor checks that a certificate is for a name, among others perhaps. A pattern is for
// none: who has one for all nodes could be any of them.
func isFor(c *x509.Certificate, name string) error {
	if slices.ContainsFunc(c.DNSNames, func(n string) bool { return strings.EqualFold(n, name) }) {
		return nil
	}
	return fmt.Errorf("the certificate is for %s and not for %s", forNames(c.DNSNames), name)
}

// forNames lists names for people.
func forNames(names []string) string {
	if len(names) == 0 {
		return "no name"
	}
	return strings.Join(names, ", ")
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

// certified checks that who is at the other end has shown a certificate for a name. Without
// TLS anybody is believed.
func certified(c net.Conn, name string) error {
	t, ok := c.(*tls.Conn)
	if !ok {
		return nil
	}
	return isFor(t.ConnectionState().PeerCertificates[0], name)
}
