// Package certtest signs certificates for the nodes of a cluster in tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An Authority signs certificates.
type Authority struct {
	File string // its own certificate, in PEM

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// A Request describes a certificate.
type Request struct {
	Name  string    // subject
	From  time.Time // zero: two days ago
	Until time.Time
	Uses  []x509.ExtKeyUsage
}

// ForNode requests a certificate for a server: for servers and clients, until tomorrow.
func ForNode(name string) Request {
	return Request{Name: name, Until: Tomorrow(), Uses: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
}

// Tomorrow is after the end of the test.
func Tomorrow() time.Time { return time.Now().Add(24 * time.Hour) }

// New makes an authority with files that are removed after the test.
func New(t testing.TB) *Authority {
	t.Helper()
	return Named(t, "test")
}

// Named makes an authority with the name CN=name.
func Named(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem"), t: t}
	a.key = a.newKey()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: Tomorrow(), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &a.key.PublicKey, a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.write(a.File, "CERTIFICATE", der)
	return a
}

// Issue signs a certificate, and returns the PEM files of it and of its key.
func (a *Authority) Issue(r Request) (cert, key string) {
	a.t.Helper()
	dir := a.t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.Renew(cert, key, r)
	return cert, key
}

// Renew writes another certificate with another key into files.
func (a *Authority) Renew(cert, key string, r Request) {
	a.t.Helper()
	k := a.newKey()
	if r.From.IsZero() {
		r.From = time.Now().Add(-48 * time.Hour)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{r.Name}, ExtKeyUsage: r.Uses,
		NotBefore: r.From, NotAfter: r.Until, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(cert, "CERTIFICATE", der)
	if der, err = x509.MarshalECPrivateKey(k); err != nil {
		a.t.Fatal(err)
	}
	a.write(key, "EC PRIVATE KEY", der)
}

// Revoke writes a list of revoked certificates, named by their PEM files, which is valid until then.
// It returns the list's file.
func (a *Authority) Revoke(until time.Time, certs ...string) string {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-48 * time.Hour), NextUpdate: until}
	for _, name := range certs {
		text, err := os.ReadFile(name)
		if err != nil {
			a.t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			a.t.Fatal(err)
		}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: list.ThisUpdate})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	file := filepath.Join(a.t.TempDir(), "crl.pem")
	a.write(file, "X509 CRL", der)
	return file
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return k
}

func (a *Authority) write(file, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}
