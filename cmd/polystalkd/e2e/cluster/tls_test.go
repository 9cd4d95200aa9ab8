package cluster

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/wiretest/certtest"
)

// secure returns the flags of a server with a certificate of an authority.
func secure(ca *certtest.Authority, name string) []string {
	cert, key := ca.Issue(certtest.ForNode(name))
	return []string{"--cluster-cert", cert, "--cluster-key", key, "--cluster-ca", ca.File}
}

// Servers with certificates of one authority form a cluster. A server with a certificate of another
// authority, or with none, cannot join.
func TestClusterWithTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	ours, theirs := certtest.New(t), certtest.New(t)
	one, two, stranger, plain := newNode(t, "jobs1"), newNode(t, "jobs2"), newNode(t, "jobs3"), newNode(t, "jobs4")
	flags := secure(ours, "jobs1")
	one.found(flags...)
	operators := daemon.FreeAddress(t)
	two.start(append(secure(ours, "jobs2"), "--cluster-join", one.cluster, "--http", operators)...)
	awaitVoters(t, one, 2)
	var jobs tally
	jobs.put(two, "through the follower")
	jobs.wantReady(one)
	works(t, "through the follower", "http://"+operators, "body", "1")
	works(t, "answered by jobs1, the leader", "http://"+operators, "put", "mail", "--body", "x", "-v")
	stranger.launch(append(secure(theirs, "jobs3"), "--cluster-join", one.cluster)...)
	plain.launch("--cluster-join", one.cluster)
	for _, n := range []*node{stranger, plain} {
		n.WaitLog("this server has not joined the cluster yet; trying again")
		n.Signal(syscall.SIGTERM)
		n.EndsWith(0)
	}
	if k := one.status(); k == nil || len(k.Members) != 2 {
		t.Errorf("%+v", k)
	}
	ends := func(name string) (at time.Time) {
		if m := one.member(name); m != nil && m.CertificateNotAfter != nil {
			at = *m.CertificateNotAfter
		}
		return at
	}
	was := ends("jobs1")
	if in := time.Until(ends("jobs2")); in < 23*time.Hour || in > 24*time.Hour || was.IsZero() {
		t.Errorf("the expiry of jobs1 is %v, and of jobs2 in %v", was, in)
	}
	sooner := certtest.ForNode("jobs1")
	sooner.Until = sooner.Until.Add(-12 * time.Hour)
	ours.Renew(flags[1], flags[3], sooner)
	one.Signal(syscall.SIGHUP)
	one.WaitLog("the certificate of the cluster was read again")
	if now := ends("jobs1"); !now.Equal(sooner.Until.Truncate(time.Second)) {
		t.Errorf("the expiry in the status is %v, want %v", now, sooner.Until)
	}
	bad := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), append(one.args(secure(ours, "jobs9")...), "--check-config")...)
	if bad.Code != 5 || !strings.Contains(bad.Stderr, "--cluster-cert") || !strings.Contains(bad.Stderr, "jobs1") {
		t.Errorf("a certificate for another name: %d %s", bad.Code, bad.Stderr)
	}
}

// TestFollowerServesClientsWithTLS: TLS ends at the follower.
func TestFollowerServesClientsWithTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	ca := certtest.New(t)
	flags := func(name, address string) []string {
		cert, key := ca.Issue(certtest.ForNode(name))
		return []string{"--tls-listen", address, "--tls-cert", cert, "--tls-key", key}
	}
	one, two := newNode(t, "jobs1"), newNode(t, "jobs2")
	at := daemon.FreeAddress(t)
	one.found(append(secure(ca, "jobs1"), flags("jobs1", "127.0.0.1:0")...)...)
	two.start(append(append(secure(ca, "jobs2"), flags("jobs2", at)...), "--cluster-join", one.cluster)...)
	awaitVoters(t, one, 2)
	dial := func() *tls.Conn {
		c, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(daemon.ClientTime))
		return c
	}
	c := dial()
	if name := c.ConnectionState().PeerCertificates[0].DNSNames[0]; name != "jobs2" {
		t.Errorf("the certificate is for %s, want the follower's", name)
	}
	body := strings.Repeat("x", 60_000)
	daemon.Says(t, c, "put 0 0 100 60000\r\n"+body+"\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 60000\r\n"+body+"\r\n")
	c.CloseWrite() // then the server answers everything, and says that it closes
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Errorf("at the end %d bytes more, %v", len(rest), err)
	}
	strangers, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer strangers.Close()
	io.WriteString(strangers, "put 0 0 100 1\r\na\r\n")
	strangers.SetDeadline(time.Now().Add(daemon.ClientTime))
	if n, err := strangers.Read(make([]byte, 1)); n > 0 || err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a client without TLS: %d bytes, %v", n, err)
	}
	if silent, err := net.Dial("tcp", at); err != nil {
		t.Error(err)
	} else {
		defer silent.Close()
	}
	two.Signal(syscall.SIGTERM)
	two.EndsWith(0) // clients do not delay it
	jobs := tally{acknowledged: 1, tried: 1}
	jobs.wantReady(one)
}
