package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/wiretest/certtest"
)

// protected returns polystalk with the token of an identity that may put into mail-*, and work and
// look there, and the token file of an operator. Its server has TLS; queue is the address for operators.
func protected(t *testing.T) (p *program, s *daemon.Server, file, ops string) {
	t.Helper()
	ca := certtest.New(t)
	cert, key := ca.Issue(certtest.ForNode("localhost"))
	file = filepath.Join(t.TempDir(), "access.toml")
	p = &program{t: t}
	token := func(identity string) string {
		args := append([]string{"access", "new"}, strings.Fields(identity+" --write -o name --file "+file)...)
		name := filepath.Join(t.TempDir(), "token")
		must(t, os.WriteFile(name, []byte(p.must(0, args...).stdout), 0o600))
		return name
	}
	p.env = map[string]string{"POLYSTALK_TOKEN_FILE": token("web --put mail-* --work mail-* --look mail-*"), "POLYSTALK_TLS_CA": ca.File}
	ops = token("ops --role admin")
	address := daemon.FreeAddress(t)
	s = daemon.Serve(t, "--http", address, "--http-history-tubes", "0", "--access-file", file, "--tls-listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File)
	list, _ := s.WaitLog("serving")["tls-listen"].([]any)
	_, port, err := net.SplitHostPort(list[0].(string))
	must(t, err)
	p.server, p.queue = "beanstalk+tls://localhost:"+port, "http://"+address
	return p, s, file, ops
}

// TestProtectedServers: verbs of both protocols prove an identity by the same flags, and say what is
// missing.
func TestProtectedServers(t *testing.T) {
	p, s, file, ops := protected(t)
	p.must(0, "put", "mail-1", "--body", "hello")
	p.prints("hello", "reserve", "mail-1", "--wait", "0")
	if !testing.Short() {
		p.must(0, "work", "mail-1", "--idle", "1", "--", "true")
	}
	p.says("the identity of the token lacks the right", client.Refused, "put", "other", "--body", "x")
	p.says("the identity of the token lacks the right", client.Refused, "reserve", "other", "--wait", "0")
	p.says("the identity of the token lacks the right", client.Refused, "work", "other", "--idle", "1", "--", "true")
	p.says("there is no tube other", client.Nothing, "tube", "other")

	secure := p.server
	p.server = "beanstalk://" + s.Listen[0] // the token is also valid on a loopback address
	p.must(0, "put", "mail-1", "--body", "hello")
	p.says("as beanstalk+tls://HOST:PORT", client.System, "stats", "--server", strings.Replace(secure, "+tls", "", 1))
	p.says("TLS handshake has failed", client.System, "stats", "--server", strings.Replace(p.server, "beanstalk", "beanstalk+tls", 1))

	p.server = secure
	token := p.env["POLYSTALK_TOKEN_FILE"]
	p.env["POLYSTALK_TOKEN_FILE"] = ""
	p.says("needs a token", client.Refused, "tubes")
	wrong := filepath.Join(t.TempDir(), "wrong")
	for _, text := range []string{"short", "01234567890123456789"} {
		must(t, os.WriteFile(wrong, []byte(text), 0o600))
		p.says("refuses the token", client.Refused, "tubes", "--token-file", wrong)
	}
	p.says("by --tls-ca", client.System, "tubes", "--token-file", token, "--tls-ca", certtest.New(t).File)
	p.says("by --tls-ca", client.Usage, "tubes", "--tls-ca", wrong)
	p.says("by --tls-ca", client.Usage, "tubes", "--tls-ca", wrong+"x")
	p.says("by --tls-cert", client.Usage, "tubes", "--tls-key", wrong)
	p.says("by --tls-cert and --tls-key", client.Usage, "tubes", "--tls-cert", wrong)
	p.says("x509:", client.System, "tubes", "--server", strings.Replace(secure, "localhost", "127.0.0.1", 1))

	p.server, p.env["POLYSTALK_TOKEN_FILE"] = p.queue, ops
	for _, args := range []string{"test web put mail-1", "test web put mail-1 --file " + file} {
		if o := p.must(0, append([]string{"access"}, strings.Fields(args)...)...); !strings.Contains(o.stdout, "put mail-* (line 3)") {
			t.Errorf("%s: %s", args, o.stdout)
		}
	}
	p.says("web may not manage in mail-1", client.Refused, "access", "test", "web", "manage", "mail-1")
	o := p.must(0, "access", "denials", "-o", "jsonl")
	for _, verb := range []string{"put", "work", "look"} {
		if !strings.Contains(o.stdout, `"identity":"web","verb":"`+verb+`","tube":"other"`) {
			t.Errorf("no refused %s:\n%s", verb, o.stdout)
		}
	}
}

// TestACertificateIsAnIdentity: it needs no token.
func TestACertificateIsAnIdentity(t *testing.T) {
	ca := certtest.New(t)
	cert, key := ca.Issue(certtest.ForNode("localhost"))
	own, ownKey := ca.Issue(certtest.ForNode("web.example.com"))
	file := filepath.Join(t.TempDir(), "access.toml")
	must(t, os.WriteFile(file, []byte("[identity.web]\ncertificates = [\"DNS:web.example.com\"]\nput = [\"*\"]\n"), 0o600))
	s := daemon.Serve(t, "--access-file", file, "--tls-listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File)
	list, _ := s.WaitLog("serving")["tls-listen"].([]any)
	_, port, err := net.SplitHostPort(list[0].(string))
	must(t, err)
	p := &program{t: t, server: "beanstalk+tls://localhost:" + port, env: map[string]string{"POLYSTALK_TLS_CA": ca.File}}
	p.says("needs a token", client.Refused, "put", "mail", "--body", "x")
	p.must(0, "put", "mail", "--body", "x", "--tls-cert", own, "--tls-key", ownKey)
	both := filepath.Join(t.TempDir(), "both")
	a, err := os.ReadFile(own)
	must(t, err)
	b, err := os.ReadFile(ownKey)
	must(t, err)
	must(t, os.WriteFile(both, append(a, b...), 0o600))
	p.must(0, "put", "mail", "--body", "x", "--tls-cert", both)
}

// TestTokensAreNotNeededByOtherServers: beanstalkd does not know auth.
func TestTokensAreNotNeededByOtherServers(t *testing.T) {
	p := beanstalkd(t)
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("01234567890123456789"), 0o600))
	p.must(0, "put", "mail", "--body", "x", "--token-file", file)
}

// TestDenialsAreFollowed: earlier ones are not shown, and one that goes on is shown again.
func TestDenialsAreFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	var asked atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	p := answering(t, func(w http.ResponseWriter, r *http.Request) {
		row := `{"identity":"web","verb":"put","tube":"%s","count":%d,"first":"2026-01-02T15:00:00Z","last":"2026-01-02T15:00:0%dZ","peer":"x"}`
		rows := []string{fmt.Sprintf(row, "old", 1, 1)}
		switch n := asked.Add(1); {
		case n == 2:
			rows = []string{fmt.Sprintf(row, "new", 1, 3), fmt.Sprintf(row, "old", 2, 2)}
		case n > 2:
			defer stop()
			rows = []string{fmt.Sprintf(row, "new", 1, 3), fmt.Sprintf(row, "old", 2, 2)}
		}
		answer(w, 200, `{"denials":[`+strings.Join(rows, ",")+`]}`)
	})
	o := p.within(ctx, "access", "denials", "--follow", "-o", "jsonl", "--jq", `"\(.tube) \(.count)"`)
	if o.stdout != "old 2\nnew 1\n" || o.code != 0 && o.code != client.NotDone {
		t.Errorf("%+v", o)
	}
}
