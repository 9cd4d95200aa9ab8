package cluster

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/wiretest/certtest"
)

const aToken = "a-token-0123456789-0123456789"

// rulesOf returns an access file in which each identity may put into and watch the tube of its name.
func rulesOf(identities ...string) string {
	ways := map[string]string{
		"cert":  `certificates = ["DNS:client"]`,
		"other": `certificates = ["DNS:client"]`,
		"user":  fmt.Sprintf(`users = ["%d"]`, os.Getuid()),
		"net":   `networks = ["127.0.0.1/32"]`,
		"token": fmt.Sprintf(`tokens = ["sha256:%x"]`, sha256.Sum256([]byte(aToken))),
	}
	var text strings.Builder
	for _, name := range identities {
		text.WriteString(fmt.Sprintf("[identity.%s]\n%s\nput = [\"%s\"]\nwork = [\"%s\"]\n", name, ways[name], name, name))
	}
	return text.String()
}

// A guarded node has an access file, and serves clients with TLS and at a unix socket.
type guarded struct {
	*node
	rules, tls, unix string
	flags            []string
}

func (g *guarded) write(identities ...string) {
	g.t.Helper()
	if err := os.WriteFile(g.rules, []byte(rulesOf(identities...)), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// reload gives it an access file with other identities.
func (g *guarded) reload(identities ...string) {
	g.t.Helper()
	read := func() int { return strings.Count(g.LogText(), "the access file was read again") }
	n := read()
	g.write(identities...)
	g.Signal(syscall.SIGHUP)
	eventually(g.t, "the access file is read", func() bool { return read() > n })
}

// A client connects in one of the ways to be identified. It is of another network than the identity net.
func (g *guarded) client(how string, own *tls.Certificate) net.Conn {
	g.t.Helper()
	network, addr, from := "tcp", g.queue, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)})
	switch how {
	case "net":
		from = nil
	case "user":
		network, addr, from = "unix", g.unix, nil
	case "TLS", "cert":
		addr = g.tls
	}
	c, err := (&net.Dialer{LocalAddr: from, Timeout: daemon.Hang}).Dial(network, addr)
	if err != nil {
		g.t.Fatal(err)
	}
	if how == "TLS" || how == "cert" {
		config := &tls.Config{InsecureSkipVerify: true}
		if how == "cert" {
			config.Certificates = []tls.Certificate{*own}
		}
		c = tls.Client(c, config)
	}
	g.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(daemon.ClientTime))
	return c
}

func ends(t *testing.T, c net.Conn, what string) {
	t.Helper()
	if n, err := c.Read(make([]byte, 100)); n > 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("%s: read %d bytes, %v, want the end", what, n, err)
	}
}

const put = "put 0 0 60 1\r\nx\r\n"

// Every way to be identified works at a follower, with TLS between the servers. The follower names the
// client, the leader decides what it may do, also after a reload and after a failover.
func TestAccessThroughAFollower(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	ca := certtest.New(t)
	cert, key := ca.Issue(certtest.ForNode("server"))
	crl := ca.Revoke(certtest.Tomorrow())
	clientCert, clientKey := ca.Issue(certtest.ForNode("client"))
	own, err := tls.LoadX509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	everybody := []string{"cert", "user", "net", "token"}
	var all []*node
	guards := make(map[*node]*guarded)
	for i := range 3 {
		n := newNode(t, fmt.Sprint("jobs", i+1))
		n.timeout = "5s"
		dir := daemon.ShortDir(t)
		g := &guarded{node: n, rules: filepath.Join(dir, "access.toml"), tls: daemon.FreeAddress(t), unix: filepath.Join(dir, "s")}
		g.write(everybody...)
		g.flags = append(secure(ca, n.name), "-l", "unix:"+g.unix, "--tls-listen", g.tls, "--tls-cert", cert, "--tls-key", key,
			"--tls-client-ca", ca.File, "--tls-client-crl", crl, "--access-file", g.rules)
		first := "--cluster-new"
		if i > 0 {
			first = "--cluster-join=" + all[0].cluster
		}
		n.start(append(g.flags, first)...)
		all, guards[n] = append(all, n), g
	}
	awaitVoters(t, all[0], 3)
	l, others := leader(t, all)
	lead, f := guards[l], guards[others[0]]

	for _, how := range []string{"cert", "user", "net"} {
		c := f.client(how, &own)
		daemon.Says(t, c, "use "+how+"\r\n", "USING "+how+"\r\n")
		daemon.Says(t, c, put, "INSERTED")
		c = f.client(how, &own)
		daemon.Says(t, c, "use token\r\n"+put, "USING token\r\nUNKNOWN_COMMAND\r\n")
	}
	for _, how := range []string{"TLS", "loopback"} {
		c := f.client(how, nil)
		daemon.Says(t, c, "auth "+aToken+"\r\nuse token\r\n", "AUTHENTICATED\r\nUSING token\r\n")
		daemon.Says(t, c, put, "INSERTED")
		c = f.client(how, nil)
		daemon.Says(t, c, "auth "+aToken+"x\r\n", "UNAUTHORIZED\r\n")
		ends(t, c, how+" with a wrong token")
		c = f.client(how, nil)
		daemon.Says(t, c, "list-tubes\r\n", "UNKNOWN_COMMAND\r\n")
		ends(t, c, how+" without a token")
	}

	// The leader's file loses an identity and a token. The follower still names the one, and the
	// servers say that they differ.
	watching, user, token := f.client("cert", &own), f.client("user", nil), f.client("TLS", nil)
	daemon.Says(t, watching, "watch cert\r\n", "WATCHING 2\r\n")
	daemon.Says(t, user, "watch user\r\n", "WATCHING 2\r\n")
	daemon.Says(t, token, "auth "+aToken+"\r\n", "AUTHENTICATED\r\n")
	lead.reload("user", "net")
	ends(t, watching, "an identity that has gone")
	ends(t, token, "a token that has gone")
	daemon.Says(t, user, "watch user\r\n", "WATCHING 2\r\n")
	c := f.client("cert", &own)
	daemon.Says(t, c, "use cert\r\n", "UNKNOWN_COMMAND\r\n")
	ends(t, c, "an unknown name")
	eventually(t, "the servers say that their rules differ", func() bool {
		m := f.member(f.name)
		return m != nil && m.AccessDiffers
	})
	if m := f.member(l.name); m == nil || m.AccessDigest == nil || m.AccessDiffers {
		t.Errorf("the leader is shown as %+v", m)
	}
	if out := operate(t, "cluster", "status", "--dir", l.dir, "-o", "wide"); strings.Count(out.Stdout, "(differs)") != 2 {
		t.Errorf("%s", out.Stdout)
	}
	if out := at(t, "unix:"+filepath.Join(l.dir, "cluster.sock"), "check", "--cluster"); out.Code != 1 || !strings.Contains(out.Stdout, f.name+" has other rules in its access file than "+l.name) {
		t.Errorf("%d %s%s", out.Code, out.Stdout, out.Stderr)
	}
	l.WaitLog("servers have other rules in their access files than this one, which leads: give all the same file, and send each SIGHUP")

	// At the follower the certificate proves another identity now. The connection ends, because the
	// leader knows it by the earlier name.
	lead.reload("cert", "user", "net", "token")
	c = f.client("cert", &own)
	daemon.Says(t, c, "watch cert\r\n", "WATCHING 2\r\n")
	f.reload("other", "user", "net", "token")
	ends(t, c, "another identity at the follower")
	daemon.Says(t, user, "watch user\r\n", "WATCHING 2\r\n")
	lead.reload("other", "user", "net", "token")
	c = f.client("cert", &own)
	daemon.Says(t, c, "watch other\r\nwatch cert\r\n", "WATCHING 2\r\nUNKNOWN_COMMAND\r\n")
	f.reload(everybody...)
	lead.reload(everybody...)

	l.Crash()
	leader(t, others)
	for _, n := range others {
		g := guards[n]
		c := g.client("cert", &own)
		daemon.Says(t, c, "use cert\r\n", "USING cert\r\n")
		daemon.Says(t, c, put, "INSERTED")
		daemon.Says(t, g.client("net", nil), "use cert\r\n"+put, "USING cert\r\nUNKNOWN_COMMAND\r\n")
	}

	// The follower has the certificate, so it ends the connection when the certificate is revoked.
	_, others = leader(t, others)
	f = guards[others[0]]
	c, stays := f.client("cert", &own), f.client("TLS", nil)
	daemon.Says(t, c, "watch cert\r\n", "WATCHING 2\r\n")
	daemon.Says(t, stays, "auth "+aToken+"\r\n", "AUTHENTICATED\r\n")
	revoked, err := os.ReadFile(ca.Revoke(certtest.Tomorrow(), clientCert))
	if err == nil {
		err = os.WriteFile(crl, revoked, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.reload(everybody...)
	ends(t, c, "a revoked certificate")
	daemon.Says(t, stays, "watch token\r\n", "WATCHING 2\r\n")
}
