package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A shared is a buffer that a command writes while the test reads.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// await waits for a text.
func (s *shared) await(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(daemon.Hang); !strings.Contains(s.String(), want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("got %q, want %q", s.String(), want)
		}
	}
}

// TestTailShowsNewJobsOnce: not the ones that were there, nor old ones that change their state. It
// counts the jobs that it cannot show, and an interrupt ends it without an error.
func TestTailShowsNewJobsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	p, s := polystalkd(t)
	p.in = "old1\nold2\n"
	p.must(0, "put", "mail", "--lines", "--delay", "1h")
	for _, tube := range []string{"mail", "later"} { // later does not exist yet
		var out, notes shared
		a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &notes, Getenv: func(string) string { return "" }}
		ctx, stop := context.WithCancel(t.Context())
		code := make(chan int)
		go func() {
			code <- cli.Run(ctx, a, []string{"tail", tube, "--server", p.server, "-o", "jsonl", "--jq", `"\(.state) \(.body)"`, "--body", "full"})
		}()
		if tube == "later" {
			notes.await(t, "there is no such tube yet")
		}
		mark := func(name string) {
			t.Helper()
			p.must(0, "put", tube, "--body", name)
			out.await(t, "ready "+name+"\n")
		}
		for i := 0; out.String() == ""; i++ { // it has begun when it shows one
			p.must(0, "put", tube, "--body", fmt.Sprint("start", i))
			time.Sleep(50 * time.Millisecond)
		}
		mark("first")
		p.must(0, "put", tube, "--body", "late", "--delay", "1h")
		out.await(t, "delayed late\n")
		p.polystalk("kick", "--tube", tube, "--state", "delayed")
		p.polystalk("bury", "--tube", tube)
		mark("second")
		c := s.Client()
		daemon.MustAsk(t, c, "watch %s\r\n", tube)
		for i := range 3 {
			p.must(0, "put", tube, "--body", fmt.Sprint("quick", i), "--pri", "0")
			daemon.MustAsk(t, c, "reserve\r\n")
		}
		mark("third")
		stop()
		if got := <-code; got != 0 {
			t.Errorf("exit code %d: %s", got, notes.String())
		}
		shown := out.String()
		for _, text := range []string{"first", "late", "second", "third"} {
			if strings.Count(shown, text) != 1 {
				t.Errorf("%s: %s is not shown once: %q", tube, text, shown)
			}
		}
		if strings.Contains(shown, "old") || strings.Count(shown, "quick") < 3 && !strings.Contains(notes.String(), "could be shown") {
			t.Errorf("%s: %q; %q", tube, shown, notes.String())
		}
		c.Close()
	}
	(&program{t: t, server: "beanstalk://" + s.Listen[0]}).says("beanstalkd's protocol cannot show jobs as they come: use polystalkd with --http", 5, "tail", "mail")
}
