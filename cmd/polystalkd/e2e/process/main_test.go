// Package process tests polystalkd as a process: its command lines, files, signals, sockets and
// messages to the service manager.
package process

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

func TestMain(m *testing.M) { daemon.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a file, and makes its directories.
func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// holds expects a file to have exactly this text.
func holds(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s holds %q, %v, want %q", path, text, err, want)
	}
}

// readPid reads a file that holds the id of a process.
func readPid(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	return pid
}

// confFile returns a new configuration file.
func confFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.toml")
	write(t, path, text)
	return path
}

// run runs polystalkd to its end.
func run(t *testing.T, env []string, args ...string) daemon.Outcome {
	t.Helper()
	return daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(env...), args...)
}

// wants checks an exit code, and that stderr contains some words.
func wants(t *testing.T, got daemon.Outcome, code int, words ...string) {
	t.Helper()
	if got.Code != code {
		t.Errorf("exit code %d, want %d: %s", got.Code, code, got.Stderr)
	}
	for _, w := range words {
		if !strings.Contains(got.Stderr, w) {
			t.Errorf("stderr does not hold %q: %s", w, got.Stderr)
		}
	}
}

// serve starts polystalkd on a free port with variables of the environment.
func serve(t *testing.T, env []string, args ...string) *daemon.Server {
	t.Helper()
	cmd := daemon.Command(append([]string{"-l", "127.0.0.1", "-p", "0"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	return daemon.Await(t, cmd)
}

// notified is like serve under a service manager.
func notified(t *testing.T, env []string, args ...string) (*daemon.Server, *net.UnixConn) {
	t.Helper()
	notify := daemon.NotifySocket(t)
	s := serve(t, append(env, "NOTIFY_SOCKET="+notify.LocalAddr().String()), args...)
	state(t, notify, "READY=1")
	return s, notify
}

// state expects this message to the service manager next.
func state(t *testing.T, notify *net.UnixConn, want string) {
	t.Helper()
	if got := daemon.ReadState(t, notify); got != want {
		t.Fatalf("the service manager hears %q, want %q", got, want)
	}
}

// logged waits for a line of the log.
func logged(t *testing.T, s *daemon.Server, msg string) map[string]any {
	t.Helper()
	line := s.WaitLog(msg)
	if line == nil {
		t.Fatalf("the log has no line %q", msg)
	}
	return line
}

// logs waits until the log contains each text.
func logs(t *testing.T, s *daemon.Server, texts ...string) {
	t.Helper()
	for _, text := range texts {
		await(t, func() bool { return s.LogHas(text) }, "the log does not hold %s", text)
	}
}

// await polls until done returns true.
func await(t *testing.T, done func() bool, format string, args ...any) {
	t.Helper()
	for end := time.Now().Add(daemon.Hang); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf(format, args...)
		}
	}
}

// awaitFile waits until the file has that text.
func awaitFile(t *testing.T, path, text string) {
	t.Helper()
	await(t, func() bool {
		b, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(b), text)
	}, "%s does not come to hold %q", path, text)
}

// ends expects a graceful end of the server after a signal.
func ends(t *testing.T, s *daemon.Server, sig os.Signal) {
	t.Helper()
	s.Signal(sig)
	s.EndsWith(0)
}

// answers expects beanstalkd's protocol on each address.
func answers(t *testing.T, addresses ...string) {
	t.Helper()
	for _, addr := range addresses {
		daemon.Says(t, daemon.Dial(t, addr), "nonsense\r\n", "UNKNOWN_COMMAND\r\n")
	}
}

// stat expects a value in the stats.
func stat(t *testing.T, s *daemon.Server, key, want string) {
	t.Helper()
	if got := daemon.Stats(t, s.Listen[0])[key]; got != want {
		t.Errorf("stats: %s is %s, want %s", key, got, want)
	}
}

func listenTCP(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// takenPort returns a port of this machine with a listener.
func takenPort(t *testing.T) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(listenTCP(t).Addr().String())
	return port
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(daemon.FreeAddress(t))
	return port
}

// httpOf returns the HTTP address in a server's log.
func httpOf(t *testing.T, s *daemon.Server) string {
	t.Helper()
	return logged(t, s, "serving HTTP")["listen"].(string)
}

// askHTTP sends a request, with a token unless it is empty. The client keeps no connection.
func askHTTP(t *testing.T, transport *http.Transport, method, url, token, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	must(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	transport.DisableKeepAlives = true
	resp, err := (&http.Client{Timeout: daemon.Hang, Transport: transport}).Do(r)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, string(b)
}

// getHTTP is like askHTTP for a page.
func getHTTP(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	resp, body := askHTTP(t, new(http.Transport), "GET", url, token, "")
	return resp.StatusCode, body
}

// accessText returns an access file with one identity.
func accessText(role, token string) string {
	return fmt.Sprintf("[identity.a]\nrole = %q\ntokens = [\"sha256:%x\"]\n", role, sha256.Sum256([]byte(token)))
}

// The tokens of identities.
const (
	secret = "secret-0123456789-0123456789"
	one    = "one-0123456789-0123456789"
	two    = "two-0123456789-0123456789"
)
