package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/gearman"
	"polystalk/codec/wiretest/certtest"
)

// TestClientsThroughHAProxy: on each port the server sees the client's address, and HAProxy's health
// checks succeed. HAProxy has an address of its own; others connect without a header.
func TestClientsThroughHAProxy(t *testing.T) {
	path, err := exec.LookPath("/usr/sbin/haproxy")
	if err != nil {
		path = daemon.Tool(t, "haproxy", "haproxy")
	}
	cert, key := certtest.New(t).Issue(certtest.ForNode("server"))
	s := daemon.Serve(t, "--proxy-protocol", "127.0.0.9", "--gearman-listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0",
		"--tls-cert", cert, "--tls-key", key, "--http", "127.0.0.1:0")
	answers(t, s.Listen[0])
	var config strings.Builder
	config.WriteString("defaults\n mode tcp\n timeout connect 5s\n timeout client 1m\n timeout server 1m\n")
	ports := map[string]string{"beanstalkd": s.Listen[0], "gearman": s.Gearman()[0], "tls": addressOf(t, s, "serving"), "http": httpOf(t, s)}
	fronts := make(map[string]string)
	for name, server := range ports {
		fronts[name] = daemon.FreeAddress(t)
		config.WriteString(fmt.Sprintf("listen %s\n bind %s\n server one %s source 127.0.0.9 send-proxy-v2 check inter 50ms check-send-proxy\n", name, fronts[name], strings.TrimPrefix(server, "http://")))
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	write(t, file, config.String())
	cmd := exec.Command(path, "-db", "-f", file)
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for _, address := range fronts {
		await(t, func() bool {
			c, err := net.Dial("tcp", address)
			if err == nil {
				c.Close()
			}
			return err == nil
		}, "HAProxy does not serve %s", address)
	}
	stalk := daemon.Dial(t, fronts["beanstalkd"])
	daemon.Says(t, stalk, "put 0 0 100 5\r\nhello\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 5\r\nhello\r\n")
	gear := daemon.Dial(t, fronts["gearman"])
	daemon.Says(t, gear, daemon.Request(gearman.EchoReq, "x"), daemon.Response(gearman.EchoRes, "x"))
	secure := dialTLS(t, fronts["tls"], "server")
	daemon.Says(t, secure, "delete 9\r\n", "NOT_FOUND\r\n")
	to := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", fronts["http"])
	}}
	_, body := askHTTP(t, to, "GET", "http://localhost/api/v1/connections", "", "")
	for name, c := range map[string]net.Conn{"beanstalkd": stalk, "gearman": gear, "tls": secure} {
		if !strings.Contains(body, c.LocalAddr().String()) {
			t.Errorf("%s: the client %v is not one of %s", name, c.LocalAddr(), body)
		}
	}
	askHTTP(t, to, "POST", "http://localhost/api/v1/tubes/x/jobs", "", `{"body": "x"}`)
	logs(t, s, "operator change")
	if s.LogHas("127.0.0.9:") || s.LogHas(`"127.0.0.9"`) {
		t.Errorf("a client has HAProxy's address: %s", s.LogText())
	}
	forged, err := net.Dial("tcp", s.Listen[0])
	must(t, err)
	defer forged.Close()
	io.WriteString(forged, "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n")
	if b, _ := io.ReadAll(forged); len(b) > 0 {
		t.Errorf("a header from another address is answered: %q", b)
	}
	logs(t, s, "a balancer that --proxy-protocol does not name")
	if s.LogHas("must begin with a header") {
		t.Errorf("a connection of HAProxy had no header: %s", s.LogText())
	}
}
