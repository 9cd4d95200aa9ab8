package e2e

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A watched collects what a command writes while it runs.
type watched struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

// sees waits until that was written.
func (w *watched) sees(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(daemon.Hang); ; time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		text := w.text.String()
		w.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q is not in %q", want, text)
		}
	}
}

// TestTopAsText: off a terminal it writes a table after the other, also while the server is
// away, by either protocol.
func TestTopAsText(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, by := range []string{"http", "beanstalk"} {
		t.Run(by, func(t *testing.T) {
			http, queue := freeAddress(t), freeAddress(t)
			_, port, err := net.SplitHostPort(queue)
			if err != nil {
				t.Fatal(err)
			}
			start := func() (stop func()) {
				s := daemon.Await(t, exec.Command(daemon.Binary, "--log-format", "json", "-l", "127.0.0.1", "-p", port, "--http", http))
				return func() {
					_ = s.Cmd.Process.Kill() // it may be gone
					<-s.Done
				}
			}
			stop := start()
			p := &program{t: t, server: by + "://" + map[string]string{"http": http, "beanstalk": queue}[by]}
			p.must(0, "put", "mail", "--body", "x")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var stdout, stderr watched
			a := &cli.App{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" }}
			code := make(chan int, 1)
			go func() { code <- cli.Run(ctx, a, []string{"top", "mail", "-d", "0.1", "--server", p.server}) }()
			stdout.sees(t, "\n\npolystalk top  "+p.server)
			stdout.sees(t, "tubes 1–1 of 1 that match mail  by -ready\n")
			stop()
			stderr.sees(t, "cannot be asked: dial")
			stop = start()
			stdout.sees(t, "no tubes that match mail")
			p.must(0, "put", "mail", "--pri", "7", "--body", "x")
			stdout.sees(t, "urgent 1")
			cancel()
			if got := <-code; got != 0 {
				t.Errorf("exit code %d", got)
			}
			if o := p.must(0, "top", "-n", "2", "-d", "100ms"); strings.Count(o.stdout, "polystalk top") != 2 {
				t.Errorf("%s", o.stdout)
			}
			stop()
			if o := p.must(client.System, "top", "--once"); o.stdout != "" {
				t.Errorf("of nobody: %s", o.stdout)
			}
		})
	}
}

// TestTopWithoutScreen: what is no terminal gets text, and what cannot be watched is said.
func TestTopWithoutScreen(t *testing.T) {
	p, _ := polystalkd(t)
	for _, screens := range []cli.Screens{{}, {In: true}, {Out: true}, {In: true, Out: true, Err: true}} {
		p.screens = screens
		if o := p.must(0, "top", "--once"); strings.Contains(o.stdout, "\x1b") || !strings.HasPrefix(o.stdout, "polystalk top  http://") {
			t.Errorf("%+v: %q", screens, o.stdout)
		}
		if o := p.must(0, "top", "--batch", "-n", "1", "--conns"); strings.Contains(o.stdout, "\x1b") || !strings.Contains(o.stdout, "no connections  by -holds") {
			t.Errorf("%+v: %q", screens, o.stdout)
		}
	}
	p.env = map[string]string{"TERM": "dumb"} // what a terminal calls itself that only writes
	if o := p.must(0, "top", "-n", "1"); strings.Contains(o.stdout, "\x1b") || !strings.HasPrefix(o.stdout, "polystalk top  http://") {
		t.Errorf("%q", o.stdout)
	}
	for _, args := range [][]string{{"-o", "json"}, {"--jq", "."}, {"-d", "soon"}, {"-d", "0"}, {"-d", "NaN"}, {"-d", "1e300"}, {"-n", "-1"}, {"--limit", "0"}, {"--sort", "put"}, {"["}, {"a", "b"}} {
		p.must(client.Usage, append([]string{"top", "--batch"}, args...)...)
	}
}
