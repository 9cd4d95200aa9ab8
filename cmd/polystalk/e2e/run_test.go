package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

func TestMain(m *testing.M) { daemon.Main(m) }

// An outcome is the result of a run.
type outcome struct {
	code           int
	stdout, stderr string
}

// A program is polystalk with the environment of its runs.
type program struct {
	t       *testing.T
	server  string // of POLYSTALK_SERVER
	in      string // standard input of the next run
	screens cli.Screens
	env     map[string]string
	places  []string
	queue   string // the address for beanstalkd's protocol; only of asAdmin
	token   string // of an administrator; empty: the server has no access file
}

// polystalk runs the program.
func (p *program) polystalk(args ...string) outcome {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), daemon.Hang)
	defer cancel()
	return p.within(ctx, args...)
}

func (p *program) within(ctx context.Context, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	a := &cli.App{
		In: strings.NewReader(p.in), Out: &stdout, Err: &stderr, Screens: p.screens, Places: p.places,
		Getenv: func(name string) string {
			if name == "POLYSTALK_SERVER" {
				return p.server
			}
			return p.env[name]
		},
	}
	p.in = ""
	code := cli.Run(ctx, a, args)
	return outcome{code, stdout.String(), stderr.String()}
}

// must expects an exit code, and one line on standard error with any code except 0.
func (p *program) must(want int, args ...string) outcome {
	p.t.Helper()
	o := p.polystalk(args...)
	if o.code != want {
		p.t.Fatalf("polystalk %q: exit code %d, want %d\n%s%s", args, o.code, want, o.stdout, o.stderr)
	}
	if want != 0 && args[0] != "check" && strings.Count(o.stderr, "\n") != 1 {
		p.t.Errorf("polystalk %q: not one line: %q", args, o.stderr)
	}
	return o
}

// says expects an exit code, and a text on standard error.
func (p *program) says(want string, code int, args ...string) {
	p.t.Helper()
	if o := p.must(code, args...); !strings.Contains(o.stderr, want) {
		p.t.Errorf("polystalk %q: %q, want %q", args, o.stderr, want)
	}
}

// prints expects success, and exactly this on standard output.
func (p *program) prints(want string, args ...string) {
	p.t.Helper()
	if o := p.must(0, args...); o.stdout != want {
		p.t.Errorf("polystalk %q: %q, want %q", args, o.stdout, want)
	}
}

// serving returns the address of a server that runs serve for each connection, and then closes it.
func serving(t *testing.T, serve func(conn net.Conn)) string {
	t.Helper()
	return servingAt(t, "tcp", "127.0.0.1:0", serve)
}

func servingAt(t *testing.T, network, address string, serve func(conn net.Conn)) string {
	t.Helper()
	l, err := net.Listen(network, address)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// relaying connects a connection to an address, and calls reached after a number of bytes.
func relaying(to string, octets int64, reached func()) func(conn net.Conn) {
	return func(conn net.Conn) {
		there, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		go func() {
			defer there.Close()
			if n, _ := io.CopyN(there, conn, octets); n == octets { // else the client has closed it
				reached()
			}
			_, _ = io.Copy(there, conn)
		}()
		_, _ = io.Copy(conn, there)
	}
}

// answering returns polystalk with a server that uses handler.
func answering(t *testing.T, handler http.HandlerFunc) *program {
	t.Helper()
	h := httptest.NewServer(handler)
	t.Cleanup(h.Close)
	return &program{t: t, server: h.URL}
}

// answer writes an answer; from status 400 on it is a problem.
func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	if status >= 400 {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// onBoth runs a test with polystalkd by HTTP, and with beanstalkd.
func onBoth(t *testing.T, test func(t *testing.T, p *program, http bool)) {
	t.Helper()
	t.Run("polystalkd", func(t *testing.T) { p, _ := polystalkd(t, "-b", t.TempDir()); test(t, p, true) })
	t.Run("beanstalkd", func(t *testing.T) { test(t, beanstalkd(t), false) })
}

// hostile reports whether a text has characters that change how a terminal shows other text.
func hostile(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\x07\x1b\u202e")
}

// polystalkd returns polystalk with a polystalkd that it asks by HTTP. Without a history the server
// surveys its tubes at the first request, so the survey is not too early.
func polystalkd(t *testing.T, flags ...string) (*program, *daemon.Server) {
	t.Helper()
	address := daemon.FreeAddress(t)
	s := daemon.Serve(t, append([]string{"--http", address, "--http-history-tubes", "0"}, flags...)...)
	return &program{t: t, server: "http://" + address}, s
}

// beanstalkd returns polystalk with the installed beanstalkd.
func beanstalkd(t *testing.T) *program {
	t.Helper()
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("beanstalkd is not installed")
	}
	s, err := conversation.StartServer(path)
	must(t, err)
	t.Cleanup(s.Stop)
	return &program{t: t, server: "beanstalk://" + s.Address}
}

// asAdmin returns polystalk with a token of the role admin.
func asAdmin(t *testing.T) *program {
	t.Helper()
	dir := t.TempDir()
	first, table, _ := strings.Cut((&program{t: t}).must(0, "token", "new", "me", "--role", "admin").stdout, "\n")
	_, token, _ := strings.Cut(first, "  ")
	access, file := filepath.Join(dir, "access.toml"), filepath.Join(dir, "token")
	table += "[identity.reader]\nrole = \"read\"\ntokens = [\"sha256:b3057e05d75e8cdca4bd6ddd527af736913e8464a7a3d47d7a09389eaa8e1eb4\"]\n" // of testdata/token, by sha256sum
	for name, text := range map[string]string{access: table, file: token + "\n"} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	p, s := polystalkd(t, "--access-file", access, "-b", t.TempDir(), "--http-history-tubes", "100")
	p.env = map[string]string{"POLYSTALK_TOKEN_FILE": file}
	p.queue, p.token = s.Listen[0], token
	return p
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
