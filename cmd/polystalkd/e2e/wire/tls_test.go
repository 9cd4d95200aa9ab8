package wire

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/wiretest/certtest"
)

// secured starts a server with TLS for clients. It returns the addresses of beanstalkd's protocol and
// of Gearman's, by the name in the certificate, and the file of the authority.
func secured(t *testing.T) (stalk, gear, ca string) {
	t.Helper()
	a := certtest.New(t)
	cert, key := a.Issue(certtest.ForNode("localhost"))
	s := daemon.Serve(t, "--tls-listen", "127.0.0.1:0", "--gearman-tls-listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	at := func(msg string) string {
		list, _ := s.WaitLog(msg)["tls-listen"].([]any)
		_, port, err := net.SplitHostPort(list[0].(string))
		if err != nil {
			t.Fatal(err)
		}
		return "localhost:" + port
	}
	return at("serving"), at("serving Gearman"), a.File
}

// TestClientsWithTLS takes a job through all that each client library can do, over TLS, and checks the
// server's certificate.
func TestClientsWithTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	stalk, gear, ca := secured(t)
	t.Setenv("SSL_CERT_FILE", ca)
	_, port, _ := net.SplitHostPort(stalk)
	_, gearPort, _ := net.SplitHostPort(gear)
	runClients(t, []clientScript{
		{"pheanstalk", "php", pheanstalkProbe, "php-cli and php-pda-pheanstalk", "whole_life.php", []string{"tls://localhost", port}},
		{"Python", "python3", []string{"-c", "import ssl"}, "python3", "tls.py", []string{"localhost", port, ca}},
		{"Gearman::Client", "perl", []string{"-MGearman::Client", "-MIO::Socket::SSL", "-e", "1"}, "libgearman-client-perl and libio-socket-ssl-perl", "tls_gearman.pl", []string{"localhost", gearPort, ca}},
	})
	t.Run("go-beanstalk", func(t *testing.T) {
		text, err := os.ReadFile(ca)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		goWholeLife(t, func() (net.Conn, error) {
			return tls.Dial("tcp", stalk, &tls.Config{RootCAs: roots, NextProtos: []string{"beanstalkd"}})
		})
	})
}

// TestOpenSSLMayUpdateKeys: the stream continues after new keys in one direction and in both. A
// renegotiation ends the connection.
func TestOpenSSLMayUpdateKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("install openssl")
	}
	stalk, _, ca := secured(t)
	for _, k := range []struct{ version, letters string }{{"-tls1_3", "kK"}, {"-tls1_2", "R"}} {
		cmd := exec.Command("openssl", "s_client", "-connect", stalk, "-CAfile", ca, "-verify_return_error", k.version)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "out")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = f, f
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := make(map[string]int) // how often each text was awaited: the next one is new
		says := func(text, want string) {
			t.Helper()
			said[want]++
			in.Write([]byte(text))
			for end := time.Now().Add(daemon.ClientTime); ; time.Sleep(5 * time.Millisecond) {
				out, _ := os.ReadFile(file)
				if strings.Count(string(out), want) >= said[want] {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("%s, after %q: there is no %q in\n%s", k.version, text, want, out)
				}
			}
		}
		says("", "Verify return code: 0")
		says("use tube-0\r\n", "USING tube-0")
		for _, letter := range k.letters {
			if letter == 'R' {
				says("R\n", "alert unexpected message")
				break
			}
			says(string(letter)+"\n", "KEYUPDATE")
			says("use tube-"+string(letter)+"\r\n", "USING tube-"+string(letter))
		}
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
		f.Close()
	}
}
