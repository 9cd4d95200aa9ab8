package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
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
	s.awaitTimes(t, 1, want)
}

// awaitTimes waits until a text has come n times.
func (s *shared) awaitTimes(t *testing.T, n int, want string) {
	t.Helper()
	for end := time.Now().Add(daemon.Hang); strings.Count(s.String(), want) < n; time.Sleep(10 * time.Millisecond) {
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
		if strings.Contains(shown, "old") || strings.Count(shown, "quick") < 3 && !strings.Contains(notes.String(), "not be shown") {
			t.Errorf("%s: %q; %q", tube, shown, notes.String())
		}
		c.Close()
	}
	(&program{t: t, server: "beanstalk://" + s.Listen[0]}).says("beanstalkd's protocol cannot show jobs as they come: use polystalkd with --http", 5, "tail", "mail")
}

// TestTailConnectsAgainAfterARestart, says so once, and shows each job once, also if the ids begin
// again at 1.
func TestTailConnectsAgainAfterARestart(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, durable := range []bool{true, false} {
		t.Run(fmt.Sprint("durable=", durable), func(t *testing.T) {
			t.Parallel()
			var flags []string
			if durable {
				flags = []string{"-b", t.TempDir(), "-f", "0"}
			}
			p, s := polystalkd(t, flags...)
			var out, notes shared
			a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &notes, Getenv: func(string) string { return "" }}
			ctx, stop := context.WithCancel(t.Context())
			code := make(chan int)
			go func() {
				code <- cli.Run(ctx, a, []string{"tail", "mail", "--server", p.server, "-o", "jsonl", "--jq", ".body"})
			}()
			notes.await(t, "there is no such tube yet")
			put := func(from, to int) {
				for i := from; i < to; i++ {
					p.must(0, "put", "mail", "--body", fmt.Sprint("job", i, ";"))
				}
			}
			put(0, 3)
			out.await(t, "job2;")
			put(3, 6)
			out.await(t, "job5;")
			host, port, _ := net.SplitHostPort(s.Listen[0])
			for round := range 2 {
				s.Crash()
				notes.awaitTimes(t, round+1, "until it answers")
				s = daemon.Await(t, daemon.Command(append([]string{"-l", host, "-p", port, "--http", strings.TrimPrefix(p.server, "http://"), "--http-history-tubes", "0"}, flags...)...))
				first := 6 + 4*round
				put(first, first+2) // with ids that were used, if they are not durable
				out.await(t, fmt.Sprint("job", first+1, ";"))
				notes.awaitTimes(t, round+1, "answers again")
				put(first+2, first+4)
				out.await(t, fmt.Sprint("job", first+3, ";"))
			}
			stop()
			if got := <-code; got != 0 {
				t.Errorf("exit code %d: %s", got, notes.String())
			}
			for i := range 14 {
				if n := strings.Count(out.String(), fmt.Sprint("job", i, ";")); n != 1 {
					t.Errorf("job %d is shown %d times: %q", i, n, out.String())
				}
			}
			if strings.Count(notes.String(), "until it answers") != 2 || strings.Count(notes.String(), "answers again") != 2 || strings.Contains(notes.String(), "not be shown") {
				t.Errorf("%q", notes.String())
			}
		})
	}
}
