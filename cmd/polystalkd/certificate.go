package main

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/router/access"
)

// A certificate is the TLS certificate of HTTP with its key, as last read from their files.
type certificate struct {
	cert, key, from string // the files, and the origin of cert
	current         atomic.Pointer[tls.Certificate]
}

// openCertificate reads the certificate of c; nil: HTTP without TLS. Errors are faults.
func openCertificate(c *config.Config) (*certificate, error) {
	if c.HTTP.Cert == "" {
		return nil, nil
	}
	k := &certificate{cert: c.HTTP.Cert, key: c.HTTP.Key, from: c.Origin("http-tls-cert")}
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

// pemMax bounds each file, in bytes. A certificate chain has a few thousand bytes.
const pemMax = 1 << 20

func (k *certificate) read() (pair tls.Certificate, err error) {
	cert, err := access.ReadSecret(k.cert, pemMax)
	if err != nil {
		return pair, err
	}
	key, err := access.ReadSecret(k.key, pemMax)
	if err != nil {
		return pair, err
	}
	return tls.X509KeyPair(cert, key)
}

// until returns the time at which the certificate expires.
func (k *certificate) until() time.Time { return k.current.Load().Leaf.NotAfter }

// config returns the TLS configuration.
func (k *certificate) config() *tls.Config {
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.current.Load(), nil },
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
	}
}
