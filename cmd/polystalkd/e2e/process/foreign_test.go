package process

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestNoRequestOfHTTPIsObeyed: a web page can have its visitor's browser post to any
// port of the visitor's machine, with whatever lines for a body.
func TestNoRequestOfHTTPIsObeyed(t *testing.T) {
	s, gear := daemon.GearmandWith(t, "--beanstalk-listen", "127.0.0.1:0")
	// The port is reached by a page's form, by curl, by a script of the page.
	client := http.Client{Timeout: daemon.Hang, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, addr := range []string{gear, s.Listen[0]} {
		for _, body := range []string{"shutdown\n", "put 0 0 60 1\r\nx\r\nshutdown\r\nshutdown graceful\r\n"} {
			resp, err := client.Post("http://"+addr+"/", "text/plain", strings.NewReader(body))
			if err == nil {
				resp.Body.Close()
				t.Errorf("%s answers HTTP with %s", addr, resp.Status)
			}
		}
		resp, err := client.PostForm("http://"+addr+"/", url.Values{"a\nshutdown\n": {"\nshutdown\n"}})
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s answers a form with %s", addr, resp.Status)
		}
		if curl, err := exec.LookPath("curl"); err == nil {
			out, _ := exec.Command(curl, "-sS", "--max-time", "10", "-X", "POST", "--data-binary", "shutdown\n", "http://"+addr+"/").CombinedOutput()
			if strings.Contains(string(out), "OK") {
				t.Errorf("%s answers curl: %s", addr, out)
			}
		}
		// TLS: the client waits for an answer.
		if _, err := tls.DialWithDialer(&net.Dialer{Timeout: daemon.Hang}, "tcp", addr, &tls.Config{InsecureSkipVerify: true}); err == nil || isTimeout(err) {
			t.Errorf("%s and TLS: %v", addr, err)
		}
		// In one piece, and one byte at a time.
		const text = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nshutdown\n"
		for _, size := range []int{len(text), 1} {
			conn := daemon.Dial(t, addr)
			for at := 0; at < len(text); at += size {
				if _, err := io.WriteString(conn, text[at:at+size]); err != nil {
					break
				}
			}
			if got, err := io.ReadAll(conn); len(got) > 0 || isTimeout(err) {
				t.Errorf("%s answers %q, %v", addr, got, err)
			}
		}
	}
	daemon.Says(t, daemon.Dial(t, gear), "status\n", ".\n")
	if got := daemon.Stats(t, s.Listen[0])["total-jobs"]; got != "0" {
		t.Errorf("%s jobs were put", got)
	}
	line := s.WaitLog("closing a connection: its first line is a request of HTTP or TLS")
	if conn, _ := line["conn"].(string); !strings.HasPrefix(conn, "127.0.0.1:") {
		t.Errorf("the log names %q", conn)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestShutdownSaysWhoSentIt: by the loopback interface, by another address of this
// machine, and by a unix socket of the service manager's.
func TestShutdownSaysWhoSentIt(t *testing.T) {
	own := "127.0.0.1"
	if addrs, err := net.InterfaceAddrs(); err == nil {
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
				own = n.IP.String()
			}
		}
	}
	for _, host := range []string{"127.0.0.1", own} {
		s, _ := daemon.GearmandWith(t, "-L", "0.0.0.0")
		_, port, _ := net.SplitHostPort(s.Gearman()[1])
		conn := daemon.Dial(t, net.JoinHostPort(host, port))
		daemon.Says(t, conn, "shutdown\n", "OK\r\n")
		s.EndsWith(0)
		if line := s.WaitLog("a Gearman administrator sent shutdown"); line == nil || line["conn"] != conn.LocalAddr().String() {
			t.Errorf("from %s: the log says %v", conn.LocalAddr(), line)
		}
	}

	path := filepath.Join(daemon.ShortDir(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" gearmand --log-format json --config-file /dev/null`, daemon.Binary)
	cmd.Env, cmd.ExtraFiles = daemon.CleanEnv("LISTEN_FDS=1"), []*os.File{daemon.FileOf(t, l)}
	s := daemon.Await(t, cmd)
	daemon.Says(t, daemon.Dial(t, "unix:"+path), "shutdown graceful\n", "OK\r\n")
	s.EndsWith(0)
	if line := s.WaitLog("a Gearman administrator sent shutdown graceful"); line == nil || line["conn"] != "unix" {
		t.Errorf("from a unix socket: the log says %v", line)
	}
}

// TestShutdownSwitchedOff: switched off, it is an unknown command, and the
// log names the address of the client.
func TestShutdownSwitchedOff(t *testing.T) {
	s, gear := daemon.GearmandWith(t, "--gearman-shutdown", "none")
	conn := daemon.Dial(t, gear)
	daemon.Says(t, conn, "shutdown\n", "ERR UNKNOWN_COMMAND Unknown+server+commandshutdown\r\n")
	line := s.WaitLog("refused the command shutdown: see --gearman-shutdown")
	if line["conn"] != conn.LocalAddr().String() {
		t.Errorf("the log says %v", line)
	}
	daemon.Says(t, daemon.Dial(t, gear), "status\n", ".\n")
}
