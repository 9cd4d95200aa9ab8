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

// A FlagError is about what one flag was given.
type FlagError struct {
	Flag string // without the dashes
	Err  error  // which ends in what to do
}

func (e *FlagError) Error() string { return "--" + e.Flag + ": " + e.Err.Error() }

// Unwrap implements the interface of package errors.
func (e *FlagError) Unwrap() error { return e.Err }

// A doubt is why a certificate is not believed. There is one reason, though more may apply.
type doubt struct {
	reason reason
	shown  *x509.Certificate // that the doubt is about
	dated  *x509.Certificate // whose dates are wrong: that one, or one that has signed it
	name   string            // that it is to be for
	use    x509.ExtKeyUsage
	roots  []*x509.Certificate // of --cluster-ca
	now    time.Time
	err    error
}

type reason int

const (
	otherwise reason = iota // what package x509 says
	over                    // it is not valid any more
	early                   // it is not valid yet
	unsigned                // the authority has not signed it
	useless                 // it is not for this use
	misnamed                // it is for another
)

// explain finds the reason in an error of package x509.
func (d *doubt) explain(err error) error {
	d.err = err
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		d.dated, d.reason = invalid.Cert, over
		if d.now.Before(invalid.Cert.NotBefore) {
			d.reason = early
		}
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		d.reason = useless
	case errors.As(err, &unknown):
		d.reason = unsigned
	}
	return d
}

// Error says it of the certificate of another server, to who runs this one.
func (d *doubt) Error() string {
	switch {
	case d.isOfRoot():
		return fmt.Sprintf("--cluster-ca of this server, the certificate of %s, %s: give all servers one that is valid now, or set the clocks", who(d.dated), d.dates())
	case d.reason == over:
		return fmt.Sprintf("its certificate%s %s: give that server a new one, or set the clocks", d.behind(), d.dates())
	case d.reason == early:
		return fmt.Sprintf("its certificate%s %s: set the clocks, or give that server one that is valid now", d.behind(), d.dates())
	case d.reason == unsigned:
		return fmt.Sprintf("its certificate is signed by %s, and --cluster-ca of this server is %s: give all servers certificates and --cluster-ca of one authority", d.signer(), authorities(d.roots))
	case d.reason == useless:
		return fmt.Sprintf("its certificate is not for %s: give that server one for servers and clients", d.purpose())
	case d.reason == misnamed:
		return fmt.Sprintf("its certificate is for %s and not for %s: give that server one for its name, or correct the address if another was meant", forNames(d.shown.DNSNames), d.name)
	}
	return fmt.Sprintf("its certificate cannot be believed: %v: give that server one that the authority of --cluster-ca has signed, for servers and clients", d.err)
}

// ofOwn says it of this server's own certificate, by which flag is wrong. Whose authority it is
// not could be either's fault; which other servers have will be the right one.
func (d *doubt) ofOwn(o *SecureOptions) *FlagError {
	flag, text := "cluster-cert", ""
	switch {
	case d.isOfRoot():
		flag, text = "cluster-ca", fmt.Sprintf("%q, the certificate of %s, %s: give the authority's that is valid now, or set the clock", o.CA, who(d.dated), d.dates())
	case d.reason == over:
		text = fmt.Sprintf("%q%s %s: have the authority sign a new one, or set the clock", o.Cert, d.behind(), d.dates())
	case d.reason == early:
		text = fmt.Sprintf("%q%s %s: set the clock, or have the authority sign one that is valid now", o.Cert, d.behind(), d.dates())
	case d.reason == unsigned:
		flag, text = "cluster-ca", fmt.Sprintf("%q is %s, and --cluster-cert %q is signed by %s: give both of the authority that the other servers have", o.CA, authorities(d.roots), o.Cert, d.signer())
	case d.reason == useless:
		text = fmt.Sprintf("%q is not for %s: have the authority sign one for servers and clients", o.Cert, d.purpose())
	case d.reason == misnamed:
		text = fmt.Sprintf("%q is for %s and not for %s, as this server is called: give the one that is, or --cluster-node with its name", o.Cert, forNames(d.shown.DNSNames), d.name)
	default:
		text = fmt.Sprintf("%q would not be believed by other servers: %v: have the authority sign one for %s, for servers and clients", o.Cert, d.err, o.Name)
	}
	return &FlagError{flag, errors.New(text)}
}

// isOfRoot reports whether it is about the dates of a certificate of --cluster-ca.
func (d *doubt) isOfRoot() bool { return d.dated != nil && slices.ContainsFunc(d.roots, d.dated.Equal) }

// behind says whose dates are wrong where it is one between the server's and the authority's.
func (d *doubt) behind() string {
	if d.dated.Equal(d.shown) {
		return ""
	}
	return fmt.Sprintf(", or rather that of %s behind it,", who(d.dated))
}

// dates says which of them has gone by, or has not come.
func (d *doubt) dates() string {
	if d.reason == early {
		return fmt.Sprintf("is valid from %s on, and here it is %s", when(d.dated.NotBefore), when(d.now))
	}
	return fmt.Sprintf("was valid until %s, and here it is %s", when(d.dated.NotAfter), when(d.now))
}

// when is a time for people whose clocks may differ.
func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// who is what a certificate calls itself.
func who(c *x509.Certificate) string { return fmt.Sprintf("%q", c.Subject.String()) }

// signer is who has signed the certificate.
func (d *doubt) signer() string {
	name := fmt.Sprintf("%q", d.shown.Issuer.String())
	for _, root := range d.roots {
		if bytes.Equal(root.RawSubject, d.shown.RawIssuer) {
			return name + " with another key"
		}
	}
	return name
}

// authorities are those of --cluster-ca.
func authorities(roots []*x509.Certificate) string {
	var all []string
	for _, c := range roots {
		if w := who(c); !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return strings.Join(all, ", ")
}

// purpose is what the certificate is not for.
func (d *doubt) purpose() string {
	if d.use == x509.ExtKeyUsageClientAuth {
		return "clients, as a server is that connects to another"
	}
	return "servers"
}

// forNames lists names for people.
func forNames(names []string) string {
	if len(names) == 0 {
		return "no name"
	}
	return strings.Join(names, ", ")
}

// isFor checks that a certificate is for a name, among others perhaps. A pattern is for
// none: who has one for all servers could be any of them.
func isFor(c *x509.Certificate, name string) error {
	if slices.ContainsFunc(c.DNSNames, func(n string) bool { return strings.EqualFold(n, name) }) {
		return nil
	}
	return &doubt{reason: misnamed, shown: c, name: name}
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

// shownUntil is until when the certificate is valid that the other end has shown; zero: it has none.
func shownUntil(c net.Conn) time.Time {
	t, ok := c.(*tls.Conn)
	if !ok {
		return time.Time{}
	}
	return t.ConnectionState().PeerCertificates[0].NotAfter
}

// A disbelieved is why the other server has broken the connection off, as far as it can be told
// from here.
type disbelieved struct{ err error }

func (d *disbelieved) Error() string { return d.err.Error() }

// Unwrap implements the interface of package errors.
func (d *disbelieved) Unwrap() error { return d.err }

// Lasts marks an error that stays until an operator does what it says: trying again does not help.
func (d *disbelieved) Lasts() {}

// Lasts marks an error that stays until an operator does what it says: trying again does not help.
func (d *doubt) Lasts() {}

// refused says that the other server does not believe this one's certificate, which TLS tells
// without a reason: what can be told from here is.
func (s *Security) refused() error {
	m := s.current.Load()
	if err := m.own(&s.o); err != nil {
		return &disbelieved{fmt.Errorf("the other server does not believe this server's certificate, which is of no use any more: %w", err)}
	}
	leaf := m.pair.Leaf
	return &disbelieved{fmt.Errorf("the other server does not believe this server's certificate, --cluster-cert %q, which is for %s, signed by %q, and valid from %s until %s: "+
		"the log of the other says why; mostly --cluster-ca of the two is not of one authority, or the clocks differ",
		s.o.Cert, forNames(leaf.DNSNames), leaf.Issuer.String(), when(leaf.NotBefore), when(leaf.NotAfter))}
}
