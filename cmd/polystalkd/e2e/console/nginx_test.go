package console

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// publicName is the host name of nginx for browsers; the browser of the tests resolves it to this
// machine.
const publicName = "ops.example"

// nginxConfig is a simple configuration of nginx: with the prefix removed, with the prefix kept, and
// with the browser's Host.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server {
		listen 127.0.0.1:%[2]d;
		location /taken/off/ { proxy_pass %[3]s/; }
		location /left/there/ { proxy_pass %[3]s; }
		location /named/ { proxy_pass %[3]s/; proxy_set_header Host $http_host; }
	}
}
`

// behindNginx starts a server, and nginx in front of it on a free port.
func behindNginx(t *testing.T) (s *server, public string) {
	t.Helper()
	path, err := exec.LookPath("/usr/sbin/nginx")
	if err != nil {
		path = daemon.Tool(t, "nginx", "nginx-light")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	public = fmt.Sprintf("http://%s:%d", publicName, addr.Port)
	s = serve(t, "--http-prefix", "/left/there", "--http-origin", public, "--http-host", publicName)
	dir := t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	noErr(t, os.WriteFile(file, fmt.Appendf(nil, nginxConfig, dir, addr.Port, s.base), 0o600))
	var log bytes.Buffer
	nginx := exec.Command(path, "-p", dir, "-c", file)
	nginx.Stdout, nginx.Stderr = &log, &log
	noErr(t, nginx.Start())
	t.Cleanup(func() {
		nginx.Process.Kill()
		nginx.Wait()
		if t.Failed() {
			t.Logf("nginx: %s", &log)
		}
	})
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.DialTimeout("tcp", addr.String(), patience); err == nil {
			conn.Close()
			return s, public
		}
		require(t, time.Now().Before(end), "nginx does not serve")
	}
}

// TestBehindNginx: the console works below any path, also if nginx removes the path. Changes pass
// the check of their origin, and streams are not delayed.
func TestBehindNginx(t *testing.T) {
	long(t)
	browser(t)
	s, public := behindNginx(t)
	s.fill()
	for i, prefix := range []string{"/taken/off", "/left/there", "/named"} {
		b := open(t, public+prefix, "tubes", look{})
		b.reads("mail")
		b.reads("live")
		ready := fmt.Sprintf("[...document.querySelectorAll('tbody tr')].some(r => r.innerText.includes('mail') && r.querySelector('[data-column=ready]').innerText.trim() === '%d')", 21+2*i)
		s.put("mail", "seen at once", "")
		b.shows("one more job", ready)
		b.visit("tube/bytes%FE%FF")
		b.reads("alert(1)")
		b.visit("tube/mail")
		b.press("Put a job")
		b.answer("behind nginx")
		b.press("Put")
		b.reads("was put")
		b.quiet("Cross-Origin-Opener-Policy") // browsers ignore it without TLS
	}
}
