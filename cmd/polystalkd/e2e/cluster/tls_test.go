package cluster

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
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// An authority signs the certificates of a cluster.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	lasts time.Duration // of what it signs
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), lasts: 24 * time.Hour}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes a certificate and its key, NAME.crt and NAME.key; the first signs itself.
func (a *authority) sign(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(a.lasts)
	by, with := a.cert, a.key
	if by == nil {
		by, with = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, with)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(a.dir, name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

// flags returns the flags of a server, and makes its certificate.
func (a *authority) flags(name string) []string {
	a.t.Helper()
	a.sign(name, &x509.Certificate{DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	return []string{
		"--cluster-cert", filepath.Join(a.dir, name+".crt"), "--cluster-key", filepath.Join(a.dir, name+".key"),
		"--cluster-ca", filepath.Join(a.dir, "ca.crt"),
	}
}

// Servers with certificates of one authority form a cluster. A server with a certificate of another
// authority, or with none, cannot join.
func TestClusterWithTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	ours, theirs := newAuthority(t), newAuthority(t)
	one, two, stranger, plain := newNode(t, "jobs1"), newNode(t, "jobs2"), newNode(t, "jobs3"), newNode(t, "jobs4")
	one.start(append(ours.flags("jobs1"), "--cluster-new")...)
	operators := daemon.FreeAddress(t)
	two.start(append(ours.flags("jobs2"), "--cluster-join", one.cluster, "--http", operators)...)
	awaitVoters(t, one, 2)
	var jobs tally
	jobs.put(two, "by way of the other")
	jobs.wantReady(one)
	works(t, "by way of the other", "http://"+operators, "body", "1")
	works(t, "answered by jobs1, the leader", "http://"+operators, "put", "mail", "--body", "x", "-v")
	stranger.launch(append(theirs.flags("jobs3"), "--cluster-join", one.cluster)...)
	plain.launch("--cluster-join", one.cluster)
	for _, n := range []*node{stranger, plain} {
		n.WaitLog("this server has not joined the cluster yet; trying again")
		n.Signal(syscall.SIGTERM)
		n.EndsWith(0)
	}
	if k := one.status(); k == nil || len(k.Members) != 2 {
		t.Errorf("%+v", k)
	}
	ends := func(name string) time.Time {
		if k := one.status(); k != nil {
			for _, m := range k.Members {
				if m.Name == name && m.CertificateNotAfter != nil {
					return *m.CertificateNotAfter
				}
			}
		}
		return time.Time{}
	}
	was := ends("jobs1")
	if in := time.Until(ends("jobs2")); in < 23*time.Hour || in > 24*time.Hour || was.IsZero() {
		t.Errorf("the certificates are said to be valid until %v, and for %v", was, in)
	}
	ours.lasts = 12 * time.Hour
	ours.flags("jobs1")
	one.Signal(syscall.SIGHUP)
	one.WaitLog("the certificate of the cluster was read again")
	if now := ends("jobs1"); was.Sub(now) < 11*time.Hour || was.Sub(now) > 13*time.Hour {
		t.Errorf("the certificate is said to be valid until %v, before %v", now, was)
	}
	bad := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), append(one.args(ours.flags("jobs9")...), "--check-config")...)
	if bad.Code != 5 || !strings.Contains(bad.Stderr, "--cluster-cert") || !strings.Contains(bad.Stderr, "jobs1") {
		t.Errorf("a certificate for another name: %d %s", bad.Code, bad.Stderr)
	}
}
