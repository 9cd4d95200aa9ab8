package process

import (
	"crypto/tls"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/gearman"
	"polystalk/codec/wiretest/certtest"
)

// addressOf returns the address of a server's listener with TLS, from a line of its log.
func addressOf(t *testing.T, s *daemon.Server, msg string) string {
	t.Helper()
	list, _ := logged(t, s, msg)["tls-listen"].([]any)
	if len(list) != 1 {
		t.Fatalf("%q names the addresses %v", msg, list)
	}
	return list[0].(string)
}

// dialTLS connects a client, which expects the server's certificate to have a name.
func dialTLS(t *testing.T, address, name string) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(daemon.ClientTime)))
	if got := c.ConnectionState().PeerCertificates[0].DNSNames[0]; got != name {
		t.Errorf("the certificate is for %s, want %s", got, name)
	}
	return c
}

// TestClientsUseTLS: both protocols, and a reload of all files or none.
func TestClientsUseTLS(t *testing.T) {
	ca := certtest.New(t)
	cert, key := ca.Issue(certtest.ForNode("first"))
	s, notify := notified(t, nil, "--tls-listen", "127.0.0.1:0", "--gearman-tls-listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	stalk, gear := addressOf(t, s, "serving"), addressOf(t, s, "serving Gearman")
	first := dialTLS(t, stalk, "first")
	daemon.Says(t, first, "put 0 0 100 5\r\nhello\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 5\r\nhello\r\n")
	daemon.Says(t, dialTLS(t, gear, "first"), daemon.Request(gearman.EchoReq, "x"), daemon.Response(gearman.EchoRes, "x"))
	answers(t, s.Listen[0]) // without TLS as well
	reload(t, s, notify)
	logs(t, s, "the files of TLS were read again")
	write(t, key, "broken")
	reload(t, s, notify)
	logs(t, s, "flag --tls-cert", "give two files in PEM", "nothing was changed")
	dialTLS(t, stalk, "first")
	ca.Renew(cert, key, certtest.ForNode("second"))
	reload(t, s, notify)
	dialTLS(t, stalk, "second")
	daemon.Says(t, first, "delete 1\r\n", "DELETED\r\n") // it stays connected
	dialTLS(t, gear, "second")
	silent, err := net.Dial("tcp", stalk) // it does not delay the end
	must(t, err)
	defer silent.Close()
	ends(t, s, syscall.SIGTERM)
}

// TestCertificatesOfClientsAreRequired: also with gearmand's flags, which only ask for them.
func TestCertificatesOfClientsAreRequired(t *testing.T) {
	ca := certtest.New(t)
	cert, key := ca.Issue(certtest.ForNode("server"))
	own, err := tls.LoadX509KeyPair(ca.Issue(certtest.ForNode("client")))
	must(t, err)
	theirs, err := tls.LoadX509KeyPair(certtest.Named(t, "other").Issue(certtest.ForNode("client")))
	must(t, err)
	s := serve(t, nil, "--gearman-tls-listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File, "--tls-clients", "require")
	g := daemon.Await(t, daemon.GearmandCommand("--ssl", "--ssl-certificate", cert, "--ssl-key", key, "--ssl-ca-file", ca.File))
	for _, k := range []struct {
		server  *daemon.Server
		show    []tls.Certificate
		refused bool
	}{
		{s, nil, true}, {s, []tls.Certificate{own}, false}, {s, []tls.Certificate{theirs}, true},
		{g, nil, false}, {g, []tls.Certificate{own}, false}, {g, []tls.Certificate{theirs}, true},
	} {
		c, err := tls.Dial("tcp", addressOf(t, k.server, "serving Gearman"), &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if k.show == nil {
				return new(tls.Certificate), nil
			}
			return &k.show[0], nil
		}})
		must(t, err) // in TLS 1.3 the refusal comes after the client's last message
		must(t, c.SetDeadline(time.Now().Add(daemon.ClientTime)))
		_, err = c.Write([]byte(daemon.Request(gearman.EchoReq, "x")))
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		if (err != nil) != k.refused {
			t.Errorf("shows %d certificates: %v, refused %v", len(k.show), err, k.refused)
		}
		c.Close()
	}
	logs(t, s, "a TLS handshake has failed")
	if c, err := net.Dial("tcp", addressOf(t, g, "serving Gearman")); err != nil {
		t.Error(err)
	} else {
		c.Write([]byte(daemon.Request(gearman.EchoReq, "x")))
		c.SetDeadline(time.Now().Add(daemon.ClientTime))
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Error("gearmand's --ssl serves a client without TLS")
		}
		c.Close()
	}
}

// TestNamedSocketsUseTLS: a socket unit selects TLS by the name of its sockets.
func TestNamedSocketsUseTLS(t *testing.T) {
	cert, key := certtest.New(t).Issue(certtest.ForNode("server"))
	l, m := listenTCP(t), listenTCP(t)
	cmd := activated(t, []listener{l, m}, "-l", "127.0.0.1", "-p", "0", "--tls-cert", cert, "--tls-key", key, "--tls-listen", "127.0.0.1:0")
	cmd.Env = append(cmd.Env, "LISTEN_FDNAMES=beanstalkd-tls:gearman-tls")
	s := daemon.Await(t, cmd)
	ignores(t, s, "--tls-listen")
	daemon.Says(t, dialTLS(t, l.Addr().String(), "server"), "list-tube-used\r\n", "USING default\r\n")
	daemon.Says(t, dialTLS(t, m.Addr().String(), "server"), daemon.Request(gearman.EchoReq, "x"), daemon.Response(gearman.EchoRes, "x"))
	ends(t, s, syscall.SIGTERM)
	cmd = activated(t, []listener{l}, "-l", "127.0.0.1", "-p", "0")
	cmd.Env = append(cmd.Env, "LISTEN_FDNAMES=beanstalkd-tls")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "give --tls-cert and --tls-key") {
		t.Errorf("a socket without a certificate: %v, %s", err, out)
	}
}

// TestFlagsOfTLSAreRefused, each with a remedy.
func TestFlagsOfTLSAreRefused(t *testing.T) {
	ca := certtest.New(t)
	cert, key := ca.Issue(certtest.ForNode("server"))
	pair := " --tls-cert " + cert + " --tls-key " + key
	for _, r := range []refusal{
		{args: "--tls-listen 127.0.0.1:0", says: "flag --tls-listen: it needs --tls-cert as well"},
		{args: "--gearman-tls-listen 127.0.0.1:0", says: "flag --gearman-tls-listen: it needs --tls-cert as well"},
		{args: "--tls-listen 127.0.0.1" + pair, says: "flag --tls-listen|HOST:PORT"},
		{args: "--tls-listen unix:/x" + pair, says: "flag --tls-listen|HOST:PORT"},
		{args: "--tls-cert " + cert, says: "flag --tls-cert: it needs --tls-key as well"},
		{args: "--tls-key " + key, says: "flag --tls-key: it needs --tls-cert as well"},
		{args: "--tls-client-crl " + cert + pair, says: "flag --tls-client-crl: it needs --tls-client-ca as well"},
		{args: "--tls-clients require" + pair, says: "flag --tls-clients: it needs --tls-client-ca as well"},
		{args: "--tls-clients maybe" + pair, says: `flag --tls-clients: "maybe" is unknown: give ask or require`},
		{args: "-l 127.0.0.1 -p 0 --tls-client-ca " + key + pair, says: "flag --tls-client-ca: |it has no CERTIFICATE"},
		{args: "-l 127.0.0.1 -p 0 --tls-listen 127.0.0.1:0 --tls-cert " + key + " --tls-key " + key, says: "flag --tls-cert: |give two files in PEM"},
	} {
		r.code = fault.Usage
		r.refuses(t, "polystalkd")
	}
}

// TestRevokedClientsAreClosed by a reload; others stay.
func TestRevokedClientsAreClosed(t *testing.T) {
	ca := certtest.New(t)
	cert, key := ca.Issue(certtest.ForNode("server"))
	crl := ca.Revoke(certtest.Tomorrow())
	s, notify := notified(t, nil, "--tls-listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File, "--tls-client-crl", crl)
	connect := func(files ...string) *tls.Conn {
		config := &tls.Config{InsecureSkipVerify: true}
		if files != nil {
			pair, err := tls.LoadX509KeyPair(files[0], files[1])
			must(t, err)
			config.Certificates = []tls.Certificate{pair}
		}
		c, err := tls.Dial("tcp", addressOf(t, s, "serving"), config)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		must(t, c.SetDeadline(time.Now().Add(daemon.ClientTime)))
		return c
	}
	bad, badKey := ca.Issue(certtest.ForNode("bad"))
	revoked, other, none := connect(bad, badKey), connect(ca.Issue(certtest.ForNode("good"))), connect()
	daemon.Says(t, revoked, "put 0 0 100 1\r\na\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\na\r\n")
	text, err := os.ReadFile(ca.Revoke(certtest.Tomorrow(), bad))
	must(t, err)
	write(t, crl, string(text))
	reload(t, s, notify)
	if n, err := revoked.Read(make([]byte, 1)); err == nil {
		t.Errorf("the client with the revoked certificate reads %d bytes", n)
	}
	daemon.Says(t, other, "reserve\r\n", "RESERVED 1 1\r\na\r\n") // its job is ready again
	daemon.Says(t, none, "list-tube-used\r\n", "USING default\r\n")
}
