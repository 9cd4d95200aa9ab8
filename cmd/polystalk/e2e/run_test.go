package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

func TestMain(m *testing.M) { daemon.Main(m) }

// An outcome is how a run ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// A program is polystalk, asking one server.
type program struct {
	t       *testing.T
	server  string // its name; empty: none is given
	in      string // of the next run
	screens cli.Screens
	env     map[string]string
	places  []string
	queue   string // where its server speaks beanstalkd's protocol; of admin's alone
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

// must wants the exit code want.
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

// freeAddress is one on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := conversation.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
}

// polystalkd is the program, asking a polystalkd with more flags by HTTP. Without a history
// it looks at its tubes when it is asked for them first, and is not asked too early.
func polystalkd(t *testing.T, flags ...string) (*program, *daemon.Server) {
	t.Helper()
	address := freeAddress(t)
	s := daemon.Serve(t, append([]string{"--http", address, "--http-history-tubes", "0"}, flags...)...)
	return &program{t: t, server: "http://" + address}, s
}

// beanstalkd is the program, asking the installed beanstalkd.
func beanstalkd(t *testing.T) *program {
	t.Helper()
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("beanstalkd is not installed")
	}
	s, err := conversation.StartServer(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return &program{t: t, server: "beanstalk://" + s.Address}
}

// admin is the program, asking a polystalkd on which it may do everything.
func admin(t *testing.T) *program {
	t.Helper()
	dir := t.TempDir()
	var line, token string
	for text := range strings.Lines((&program{t: t}).must(0, "token", "new", "me", "--role", "admin").stdout) {
		key, value, _ := strings.Cut(text, " ")
		switch key {
		case "token":
			token = strings.TrimSpace(value)
		case "line":
			line = strings.TrimSpace(value)
		}
	}
	tokens, file := filepath.Join(dir, "tokens"), filepath.Join(dir, "token")
	for name, text := range map[string]string{tokens: line + "\n", file: token + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, s := polystalkd(t, "--http-tokens-file", tokens, "-b", t.TempDir(), "--http-history-tubes", "100")
	p.env = map[string]string{"POLYSTALK_TOKEN_FILE": file}
	p.queue = s.Listen[0]
	return p
}

// jq is what an expression makes of a row.
func jq(t *testing.T, expression, row string) string {
	t.Helper()
	var b strings.Builder
	p := &client.Printer{Out: &b, Format: "json", Filter: expression}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	if err := p.Show([]byte(row), client.View{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
