package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/router/access"
)

// A certificate is a TLS certificate with its key, as last read from their files.
type certificate struct {
	cert, key, from string // the files, and the origin of cert
	current         atomic.Pointer[tls.Certificate]
}

// openCertificate reads a certificate with its key; nil: there is none. from is the origin of cert.
// Errors are faults.
func openCertificate(cert, key, from string) (*certificate, error) {
	if cert == "" {
		return nil, nil
	}
	k := &certificate{cert: cert, key: key, from: from}
	use, err := k.prepare()
	if err != nil {
		return nil, err
	}
	use()
	return k, nil
}

// prepare reads the files again. Calling use makes new connections use them. Errors are
// faults.
func (k *certificate) prepare() (use func(), err error) {
	pair, err := k.read()
	if err != nil {
		return nil, fault.New(fault.Usage, "%s: %q and its key %q cannot be used: %v: give two files in PEM that this user may read and that belong together",
			k.from, k.cert, k.key, err)
	}
	return func() { k.current.Store(&pair) }, nil
}

func (k *certificate) read() (pair tls.Certificate, err error) {
	cert, err := access.ReadFile(k.cert, true)
	if err != nil {
		return pair, err
	}
	key, err := access.ReadFile(k.key, true)
	if err != nil {
		return pair, err
	}
	return tls.X509KeyPair(cert, key)
}

// get implements tls.Config.GetCertificate.
func (k *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return k.current.Load(), nil
}

// until returns the time at which the certificate expires.
func (k *certificate) until() time.Time { return k.current.Load().Leaf.NotAfter }

// config returns the TLS configuration of HTTP.
func (k *certificate) config() *tls.Config {
	return &tls.Config{GetCertificate: k.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

// certificateEnds implements http.Options.CertificateEnds. Both may be nil.
func certificateEnds(operators *certificate, clients *clientTLS) map[string]time.Time {
	ends := make(map[string]time.Time)
	if operators != nil {
		ends["http"] = operators.until()
	}
	if clients != nil {
		ends["clients"] = clients.pair.until()
	}
	return ends
}

// A clientTLS is the TLS of the two protocols.
type clientTLS struct {
	c       *config.Config
	pair    *certificate
	log     *slog.Logger
	current atomic.Pointer[authorities]
}

// openClientTLS reads the files of TLS; nil: there are none. Errors are faults.
func openClientTLS(c *config.Config, log *slog.Logger) (*clientTLS, error) {
	pair, err := openCertificate(c.TLS.Cert, c.TLS.Key, c.Origin("tls-cert"))
	if err != nil || pair == nil {
		return nil, err
	}
	t := &clientTLS{c: c, pair: pair, log: log}
	authorities, err := t.readAuthorities()
	if err != nil {
		return nil, err
	}
	t.use(authorities)
	return t, nil
}

// warn logs what makes TLS slow or unsafe.
func (t *clientTLS) warn(a *authorities) {
	if t.pair.current.Load().Leaf.PublicKeyAlgorithm == x509.RSA {
		t.log.Warn("the certificate has an RSA key: each new connection costs about four times as much as with an ECDSA key", "file", t.pair.cert,
			"remedy", "make a key with openssl ecparam -name prime256v1 -genkey -noout -out FILE, and a certificate for it")
	}
	if now := time.Now(); t.pair.until().Before(now) {
		t.log.Warn("the certificate has expired: clients that check it do not connect", "file", t.pair.cert, "until", t.pair.until())
	}
	if a.stale {
		t.log.Warn("a list of revoked certificates is out of date: certificates that were revoked later are accepted", "file", t.c.TLS.CRL,
			"remedy", "get the newest list of the authority, and send SIGHUP")
	}
}

// prepare is a reloadable.
func (t *clientTLS) prepare(*config.Config) (apply func(), err error) {
	use, err := t.pair.prepare()
	authorities, failed := t.readAuthorities()
	all := append(fault.Faults(fault.All(err)), fault.All(failed)...)
	return func() {
		use()
		t.use(authorities)
		t.log.Info("the files of TLS were read again", "until", t.pair.until())
	}, all.Err()
}

// use makes new connections use the certificate and the authorities.
func (t *clientTLS) use(a *authorities) {
	a.configs = make(map[string]*tls.Config)
	for protocol, name := range map[string]string{listen.BeanstalkdTLS: listen.Beanstalkd, listen.GearmanTLS: listen.Gearman} {
		k := &tls.Config{
			GetCertificate: t.pair.get,
			MinVersion:     tls.VersionTLS12,
			CipherSuites: []uint16{ // of TLS 1.2
				tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
				tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
			},
			// A browser offers other protocols, and a page could make it send commands.
			NextProtos:                  []string{name},
			DynamicRecordSizingDisabled: true, // one record for each reply
		}
		if a.roots != nil {
			k.ClientCAs, k.VerifyConnection = a.pool, a.verify
			k.ClientAuth = tls.RequestClientCert // verify checks them, also when a session is resumed
			if t.c.TLS.RequiresCertificates() {
				k.ClientAuth = tls.RequireAnyClientCert
			}
		}
		a.configs[protocol] = k
	}
	if last := t.current.Load(); last != nil {
		a.removed = last.removed || slices.ContainsFunc(last.roots, func(c *x509.Certificate) bool { return !slices.ContainsFunc(a.roots, c.Equal) })
	}
	t.current.Store(a)
	t.warn(a)
}

// config returns a function that returns the configuration for a new connection.
func (t *clientTLS) config(protocol string) func() *tls.Config {
	return func() *tls.Config { return t.current.Load().configs[protocol] }
}

// isRevoked reports whether the certificates that a client has shown are no longer accepted, for
// another reason than their age: the client's is revoked, or its authority was removed.
func (t *clientTLS) isRevoked(shown []*x509.Certificate) bool {
	a, now := t.current.Load(), time.Now()
	if len(shown) == 0 || !a.removed && !a.isRevoked(shown) { // a check of signatures costs as much as fifty commands
		return false
	}
	ended := now
	for _, c := range shown {
		if c.NotAfter.Before(ended) {
			ended = c.NotAfter
		}
	}
	return a.check(shown, now) != nil && a.check(shown, ended) != nil
}

// authorities check certificates of clients. The zero value has no authority.
type authorities struct {
	roots   []*x509.Certificate
	pool    *x509.CertPool // the same
	revoked map[string]bool
	stale   bool // a list of revoked certificates should have been replaced
	removed bool // one of the authorities since the start was removed
	// configs has a configuration for each protocol of listen. A reload replaces them: tickets of
	// the old ones become void, since they stand for certificates that were checked then.
	configs map[string]*tls.Config
}

// readAuthorities reads the authorities and the lists of revoked certificates. Errors are faults.
func (t *clientTLS) readAuthorities() (*authorities, error) {
	a := &authorities{pool: x509.NewCertPool(), revoked: make(map[string]bool)}
	k := &t.c.TLS
	if k.CA == "" {
		return a, nil
	}
	err := eachBlock(k.CA, "CERTIFICATE", func(der []byte) error {
		c, err := x509.ParseCertificate(der)
		if err == nil {
			a.roots = append(a.roots, c)
			a.pool.AddCert(c)
		}
		return err
	})
	if err != nil {
		return nil, fault.New(fault.Usage, "%s: %q cannot be used: %v: give the certificates of the authorities that sign clients' certificates, in PEM", t.c.Origin("tls-client-ca"), k.CA, err)
	}
	if k.CRL == "" {
		return a, nil
	}
	if err := eachBlock(k.CRL, "X509 CRL", a.addList); err != nil {
		return nil, fault.New(fault.Usage, "%s: %q cannot be used: %v: give the revocation lists of the authorities in %s, in PEM", t.c.Origin("tls-client-crl"), k.CRL, err, t.c.Spelling("tls-client-ca"))
	}
	return a, nil
}

// eachBlock calls f with each block of a kind in a PEM file, at least one.
func eachBlock(file, kind string, f func(der []byte) error) error {
	text, err := access.ReadFile(file, true)
	found := false
	for block, rest := pem.Decode(text); block != nil && err == nil; block, rest = pem.Decode(rest) {
		if block.Type == kind {
			found, err = true, f(block.Bytes)
		}
	}
	if err == nil && !found {
		err = fmt.Errorf("it has no %s", kind)
	}
	return err
}

// addList adds the certificates of a list that one of the authorities has signed.
func (a *authorities) addList(der []byte) error {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return err
	}
	signed := false
	for _, c := range a.roots {
		signed = signed || bytes.Equal(c.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(c) == nil
	}
	if !signed {
		return fmt.Errorf("the list of %q is not signed by one of the authorities", list.Issuer)
	}
	for _, e := range list.RevokedCertificateEntries {
		a.revoked[string(list.RawIssuer)+e.SerialNumber.String()] = true
	}
	a.stale = a.stale || !list.NextUpdate.IsZero() && list.NextUpdate.Before(time.Now())
	return nil
}

// chainMax is the most certificates that a client may show. Package tls bounds their keys.
const chainMax = 5

// verify implements tls.Config.VerifyConnection. A client without a certificate is accepted here:
// tls.RequireAnyClientCert refuses it if it must show one.
func (a *authorities) verify(state tls.ConnectionState) error {
	return a.check(state.PeerCertificates, time.Now())
}

// check verifies the certificates that a client has shown, at a time.
func (a *authorities) check(shown []*x509.Certificate, at time.Time) error {
	if len(shown) == 0 {
		return nil
	}
	if len(shown) > chainMax {
		return fmt.Errorf("the client shows %d certificates, more than %d", len(shown), chainMax)
	}
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	chains, err := shown[0].Verify(x509.VerifyOptions{
		Roots: a.pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: at,
	})
	if err != nil {
		return fmt.Errorf("the client's certificate: %w", err)
	}
	for _, chain := range chains {
		if !a.isRevoked(chain) {
			return nil
		}
	}
	return errors.New("the client's certificate is revoked")
}

// isRevoked reports whether a certificate of the chain is revoked.
func (a *authorities) isRevoked(chain []*x509.Certificate) bool {
	for _, c := range chain {
		if a.revoked[string(c.RawIssuer)+c.SerialNumber.String()] {
			return true
		}
	}
	return false
}
