package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// A FlagError is about the value of one flag.
type FlagError struct {
	Flag string // without the dashes
	Err  error  // ends in a remedy
}

func (e *FlagError) Error() string { return "--" + e.Flag + ": " + e.Err.Error() }

// Unwrap implements the interface of package errors.
func (e *FlagError) Unwrap() error { return e.Err }

// A certError says why a certificate is not accepted.
type certError struct {
	reason reason
	shown  *x509.Certificate // the certificate of the server
	dated  *x509.Certificate // the certificate with wrong dates: shown, or one that has signed it
	name   string            // the name that is expected
	use    x509.ExtKeyUsage
	roots  []*x509.Certificate // of --cluster-ca
	now    time.Time
	err    error
}

type reason int

const (
	otherReason reason = iota // see err
	expired
	notYetValid
	untrusted // not signed by the authority
	wrongUse
	wrongName
)

// newCertError finds the reason in an error of package x509.
func newCertError(err error, d certError) *certError {
	d.err = err
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		d.dated, d.reason = invalid.Cert, expired
		if d.now.Before(invalid.Cert.NotBefore) {
			d.reason = notYetValid
		}
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		d.reason = wrongUse
	case errors.As(err, &unknown):
		d.reason = untrusted
	}
	return &d
}

// Error describes the certificate of another server to this server's operator.
func (d *certError) Error() string {
	if d.isRoot() {
		return fmt.Sprintf("--cluster-ca of this server, the certificate of %s, %s: give all servers one that is valid now, or set the clocks", subject(d.dated), d.dates())
	}
	if d.reason == untrusted {
		return fmt.Sprintf("its certificate is signed by %s, and --cluster-ca of this server is %s: give all servers certificates and --cluster-ca of one authority", d.signer(), subjects(d.roots))
	}
	what, remedy, _ := d.explain()
	return "its certificate" + what + remedy
}

// forOwn describes this server's own certificate, and names the flag. For an untrusted certificate
// either flag may be wrong: the other servers have the right authority.
func (d *certError) forOwn(o *SecureOptions) *FlagError {
	if d.isRoot() {
		return &FlagError{"cluster-ca", fmt.Errorf("%q, the certificate of %s, %s: give a certificate of the authority that is valid now, or set the clock", o.CA, subject(d.dated), d.dates())}
	}
	if d.reason == untrusted {
		return &FlagError{"cluster-ca", fmt.Errorf("%q is %s, and --cluster-cert %q is signed by %s: give both of the authority that the other servers have", o.CA, subjects(d.roots), o.Cert, d.signer())}
	}
	what, _, remedy := d.explain()
	return &FlagError{"cluster-cert", fmt.Errorf("%q%s%s", o.Cert, what, remedy)}
}

// explain returns what is wrong with a certificate, and what to do if it is another server's or own.
func (d *certError) explain() (what, others, own string) {
	switch d.reason {
	case expired:
		return d.signerDated() + " " + d.dates(), ": give that server a new one, or set the clocks", ": have the authority sign a new one, or set the clock"
	case notYetValid:
		return d.signerDated() + " " + d.dates(), ": set the clocks, or give that server one that is valid now", ": set the clock, or have the authority sign one that is valid now"
	case wrongUse:
		return " is not for " + d.purpose(), ": give that server one for servers and clients", ": have the authority sign one for servers and clients"
	case wrongName:
		return fmt.Sprintf(" is for %s and not for %s", names(d.shown), d.name),
			": give that server one for its name, or correct the address if another was meant", ", as this server is called: give the one that is, or --cluster-node with its name"
	}
	return fmt.Sprintf(" cannot be trusted: %v", d.err),
		": give that server one that the authority of --cluster-ca has signed, for servers and clients", ": have the authority sign one for " + d.name + ", for servers and clients"
}

// isRoot reports whether a certificate of --cluster-ca has wrong dates.
func (d *certError) isRoot() bool {
	return d.dated != nil && slices.ContainsFunc(d.roots, d.dated.Equal)
}

// signerDated names the certificate with wrong dates, if it is a signer's.
func (d *certError) signerDated() string {
	if d.dated.Equal(d.shown) {
		return ""
	}
	return fmt.Sprintf(", or rather the certificate of %s in its chain,", subject(d.dated))
}

// dates says which date is wrong.
func (d *certError) dates() string {
	if d.reason == notYetValid {
		return fmt.Sprintf("is valid from %s on, and here it is %s", utc(d.dated.NotBefore), utc(d.now))
	}
	return fmt.Sprintf("was valid until %s, and here it is %s", utc(d.dated.NotAfter), utc(d.now))
}

// utc formats a time for people in different time zones.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func subject(c *x509.Certificate) string { return fmt.Sprintf("%q", c.Subject.String()) }

func subjects(list []*x509.Certificate) string {
	var all []string
	for _, c := range list {
		if s := subject(c); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return strings.Join(all, ", ")
}

// signer names the authority that has signed the certificate.
func (d *certError) signer() string {
	name := fmt.Sprintf("%q", d.shown.Issuer.String())
	for _, root := range d.roots {
		if bytes.Equal(root.RawSubject, d.shown.RawIssuer) {
			return name + " with another key"
		}
	}
	return name
}

// purpose returns the use for which the certificate is not valid.
func (d *certError) purpose() string {
	if d.use == x509.ExtKeyUsageClientAuth {
		return "clients, as it must be to connect to another server"
	}
	return "servers"
}

func names(c *x509.Certificate) string {
	if len(c.DNSNames) == 0 {
		return "no name"
	}
	return strings.Join(c.DNSNames, ", ")
}

// checkName checks that a certificate is for a name. A wildcard matches no name: one certificate
// for all servers would not tell them apart.
func checkName(c *x509.Certificate, name string) error {
	if slices.ContainsFunc(c.DNSNames, func(n string) bool { return strings.EqualFold(n, name) }) {
		return nil
	}
	return &certError{reason: wrongName, shown: c, name: name}
}

// certifies checks that the other end has shown a certificate for a name. Without TLS it accepts
// every name.
func certifies(c net.Conn, name string) error {
	if t, ok := c.(*tls.Conn); ok {
		return checkName(t.ConnectionState().PeerCertificates[0], name)
	}
	return nil
}

// certificateUntil returns the expiry of the other end's certificate; zero: it has shown none.
func certificateUntil(c net.Conn) time.Time {
	if t, ok := c.(*tls.Conn); ok {
		return t.ConnectionState().PeerCertificates[0].NotAfter
	}
	return time.Time{}
}

// A distrusted error says that the other server does not accept this server's certificate.
type distrusted struct{ err error }

func (d *distrusted) Error() string { return d.err.Error() }

// Unwrap implements the interface of package errors.
func (d *distrusted) Unwrap() error { return d.err }

// Lasts marks an error that only an operator can fix.
func (d *distrusted) Lasts() {}

// Lasts marks an error that only an operator can fix.
func (d *certError) Lasts() {}

// refused explains that the other server does not accept this server's certificate. TLS gives no
// reason, so refused describes what this server can check.
func (s *Security) refused() error {
	m := s.current.Load()
	if err := m.checkOwn(&s.o); err != nil {
		return &distrusted{fmt.Errorf("the other server does not trust this server's certificate, which can no longer be used: %w", err)}
	}
	leaf := m.pair.Leaf
	return &distrusted{fmt.Errorf("the other server does not trust this server's certificate, --cluster-cert %q, which is for %s, signed by %q, and valid from %s until %s: "+
		"the log of the other says why; usually --cluster-ca of the two is not of one authority, or the clocks differ",
		s.o.Cert, names(leaf), leaf.Issuer.String(), utc(leaf.NotBefore), utc(leaf.NotAfter))}
}
