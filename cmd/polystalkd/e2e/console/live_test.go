package console

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A front is a proxy in front of a server. It can stop answering.
type front struct {
	*httptest.Server
	to atomic.Pointer[url.URL] // nil: it closes new connections

	mu    sync.Mutex
	asked []string // paths and queries of all requests
}

// newFront starts a front of a server.
func newFront(t *testing.T, base string) *front {
	f := new(front)
	f.leadTo(base)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, // streams are passed on as they come
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(f.to.Load()) },
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.asked = append(f.asked, r.URL.RequestURI())
		f.mu.Unlock()
		if f.to.Load() == nil {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *front) leadTo(base string) {
	to, _ := url.Parse(base) // never fails: it is a server's address
	f.to.Store(to)
}

// cut closes all connections, and refuses new ones.
func (f *front) cut() {
	f.to.Store(nil)
	f.CloseClientConnections()
}

// TestConsoleFromAFolder: a developer sees a change after a reload.
func TestConsoleFromAFolder(t *testing.T) {
	long(t)
	dir := filepath.Join(t.TempDir(), "assets")
	noErr(t, os.CopyFS(dir, os.DirFS("../../../../router/http/console")))
	s := serve(t, "--http-console-dir", dir, "--http-peer", "reports=https://ops.example/reports/", "--http-peer", "mail=http://10.0.0.5:11380/")
	s.put("mail", "one", "")
	b := open(t, s.base, "tubes", look{})
	b.reads("mail")
	b.shows("links to other servers", "[...document.querySelectorAll('.bar .menu a')].map(a => a.textContent + ' ' + a.href).join() === 'reports https://ops.example/reports/,mail http://10.0.0.5:11380/'")
	page := filepath.Join(dir, "tubes.mjs")
	text, err := os.ReadFile(page)
	noErr(t, err)
	noErr(t, os.WriteFile(page, []byte(strings.Replace(string(text), "<h1>Tubes</h1>", "<h1>Queues</h1>", 1)), 0o644))
	b.do(chromedp.Reload())
	b.shows("what was changed", "document.querySelector('h1')?.innerText === 'Queues'")
	b.quiet()
}

// TestFirstPageTakesFewRequests, for the page and for its data. The page has seven files, and loads
// its modules at the same time. Package http tests the size of the page.
func TestFirstPageTakesFewRequests(t *testing.T) {
	long(t)
	s := serve(t)
	s.fill()
	f := newFront(t, s.base)
	b := open(t, f.URL, "", look{})
	b.reads("Attention")
	b.reads("live")
	b.shows("graphs", "document.querySelectorAll('.plot canvas').length === 4")
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := make(map[string]bool) // regular requests count once
	for _, uri := range f.asked {
		asked[regexp.MustCompile(`[?&]from=\d+`).ReplaceAllString(uri, "")] = true
	}
	t.Logf("%d requests", len(asked))
	expect(t, len(asked) <= 13 && len(asked) >= 7, "%d requests: %q", len(asked), slices.Sorted(maps.Keys(asked)))
}

// TestStreamIsLostAndComesBack: without the server, the figures are marked as stale and grey. A new
// server in its place is shown at once.
func TestStreamIsLostAndComesBack(t *testing.T) {
	long(t)
	s := serve(t)
	s.put("mail", "one", "")
	f := newFront(t, s.base)
	b := open(t, f.URL, "tubes", look{})
	b.reads("live")
	b.reads("mail")
	live := "getComputedStyle(document.querySelector('td .num:not(.zero)')).color"
	color := b.eval(live)
	f.cut()
	s.Crash()
	b.reads("stale since")
	b.shows("grey figures", fmt.Sprintf("%s !== %q", live, color))
	other := serve(t)
	other.put("other", "one", "")
	f.leadTo(other.base)
	b.shows("that it is live again", "document.querySelector('button.live').innerText.includes('live')")
	b.shows("the other server's tubes", "document.querySelector('tbody').innerText.includes('other') && !document.querySelector('tbody').innerText.includes('mail')")
	b.shows("figures as they were", fmt.Sprintf("%s === %q", live, color))
	b.quiet(noAnswer, "status of 502")
}

// TestFiguresAreLive: they are updated without a reload, unless updates are paused.
func TestFiguresAreLive(t *testing.T) {
	long(t)
	s := serve(t)
	s.put("mail", "one", "")
	b := open(t, s.base, "tubes", look{})
	other := open(t, s.base, "tubes", look{}) // shows when an update has arrived
	ready := func(n int) string {
		return fmt.Sprintf("[...document.querySelectorAll('tbody tr')].some(r => r.innerText.includes('mail') && r.querySelector('[data-column=ready]').innerText.trim() === '%d')", n)
	}
	b.shows("one job", ready(1))
	s.put("mail", "two", "")
	b.shows("two jobs", ready(2))
	n := 2
	for _, stop := range []struct{ what, key, again string }{
		{"somebody wants it", "p", "p"},
		{"a dialog is open", "?", kb.Escape},
		{"a row is selected", "jx", "x"},
	} {
		b.keys(stop.key)
		b.shows("that it stands still", "document.querySelector('button.live').innerText.includes('paused')")
		s.put("mail", "more", "")
		other.shows("one more job", ready(n+1))
		expect(t, b.eval(ready(n)) == "true", "figures go on while %s: %s", stop.what, b.text())
		b.keys(stop.again)
		n++
		b.shows("all jobs", ready(n))
	}
	s.put("new", "one", "")
	b.reads("new")
	b.quiet()
}

// TestServerOfACluster: the page shows the servers and the leader. The page of a follower shows
// the leader's jobs, and says that it follows.
func TestServerOfACluster(t *testing.T) {
	long(t)
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		noErr(t, err)
		defer l.Close()
		return l.Addr().String()
	}
	at := free()
	access := accessFile(t)
	one := serve(t, "--access-file", access, "--cluster-listen", at, "--cluster-node", "jobs1", "--cluster-new")
	one.WaitLog("this server leads: clients are served here")
	two := serve(t, "--access-file", access, "--cluster-listen", free(), "--cluster-node", "jobs2", "--cluster-standby", "--cluster-join", at)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if v := two.api("GET", "cluster", ""); strings.Contains(v, `"leader":"jobs1"`) {
			break
		}
		require(t, !time.Now().After(end), "the second server knows of no leader")
	}
	b := open(t, one.base, "", look{})
	b.login(adminToken)
	b.visit("server")
	b.reads("jobs1 (leads)")
	b.reads("standby")
	b.press("Promote to voter")
	b.reads("jobs2 is a voter")
	b.reads("Make leader …")
	b.press("Remove …")
	b.reads("Remove jobs2?")
	b.press("Cancel")
	b.quiet("401") // before the login

	id := one.put("mail", "hello", "")
	b = open(t, two.base, "", look{})
	b.login(adminToken)
	b.reads("mail")
	b.visit("job/" + id)
	b.reads("hello")
	b.visit("server")
	b.reads("This server is a follower: jobs1 leads")
	b.reads("jobs2, follower")
}

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
