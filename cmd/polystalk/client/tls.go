package client

import (
	"crypto/tls"
	"crypto/x509"
	"os"
)

// ReadTLS returns the configuration for servers with TLS. ca, cert and key are files in PEM: the
// authorities that sign servers' certificates, and the client's own certificate with its key. An
// empty ca means the system's authorities, an empty cert no certificate.
func ReadTLS(ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, Errorf(Usage, "the authorities cannot be read: %v: give a file in PEM by --tls-ca", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, Errorf(Usage, "%s has no certificate: give the authorities in PEM by --tls-ca", ca)
		}
	}
	if cert == "" && key != "" {
		return nil, Errorf(Usage, "there is a key without a certificate: give its certificate by --tls-cert")
	}
	if cert != "" {
		if key == "" {
			key = cert
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, Errorf(Usage, "the client's certificate cannot be used: %v: give two files in PEM by --tls-cert and --tls-key", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
