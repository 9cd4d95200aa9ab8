package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// startTraced runs the daemon under strace, which makes the calls in inject fail. With -D strace is
// a separate process, and the daemon is our child.
func startTraced(t *testing.T, dir, inject string, args ...string) *daemon.Server {
	t.Helper()
	calls, _, _ := strings.Cut(inject, ":")
	return strace(t, []string{"-o", os.DevNull, "-e", "trace=" + calls, "-e", "inject=" + inject}, dir, args)
}

func strace(t *testing.T, options []string, dir string, args []string) *daemon.Server {
	t.Helper()
	strace := daemon.Tool(t, "strace", "strace")
	all := append([]string{"-D", "-f", "-qq"}, options...)
	all = append(all, daemon.Program(t), "--log-format", "json", "-l", "127.0.0.1", "-p", "0", "-b", dir)
	cmd := exec.Command(strace, append(all, args...)...)
	cmd.Env = daemon.CleanEnv()
	return daemon.Launch(t, cmd)
}

// TestDiskErrorsEndTheServer: a failed write or sync is never ignored. A waiting client gets no
// reply, the exit code shows the failure, and a restart has everything that was acknowledged.
func TestDiskErrorsEndTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, c := range []struct {
		name, inject, says string
		args               []string
	}{
		{"fdatasync", "fdatasync:error=EIO:when=40", "syncing journal.", nil},
		{"fdatasync of the timer", "fdatasync:error=EIO:when=40", "syncing journal.", []string{"-f", "5"}},
		{"write", "pwrite64:error=EIO:when=60", "writing journal.", nil},
		{"no space for what was reserved", "pwrite64:error=ENOSPC:when=60", "writing journal.", nil},
		{"write that nobody syncs", "pwrite64:error=EIO:when=60", "writing journal.", []string{"-F"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := startTraced(t, dir, c.inject, append([]string{"-s", "1000000", "--loops", "1"}, c.args...)...)
			if !s.Serves() {
				t.Fatalf("it ended instead of serving:\n%s", s.LogText())
			}
			conn := s.Client()
			acked := 0
			for ended := time.Now().Add(daemon.Hang); ; {
				body := fmt.Sprintf("job %d", acked+1)
				reply, err := conn.Ask(fmt.Sprintf("put 7 0 100 %d\r\n%s\r\n", len(body), body))
				if err != nil {
					if len(reply) > 0 {
						t.Errorf("half a reply: %q", reply)
					}
					break
				}
				if want := fmt.Sprintf("INSERTED %d\r\n", acked+1); string(reply) != want {
					t.Fatalf("got %q, want %q", reply, want)
				}
				if acked++; time.Now().After(ended) {
					t.Fatal("the error was passed over")
				}
				if c.args != nil && c.args[0] == "-f" {
					time.Sleep(2 * time.Millisecond) // give the timer something to do
				}
			}
			if code := s.End(); code != 10 {
				t.Errorf("exit code %d, want 10", code)
			}
			var lines []string
			for line := range strings.Lines(s.LogText()) {
				if !strings.HasPrefix(line, "{") {
					lines = append(lines, line)
				}
			}
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "polystalkd: ") || !strings.Contains(lines[0], c.says) {
				t.Errorf("it said %q, want one line about %q", lines, c.says)
			}
			if acked == 0 {
				t.Fatal("nothing was acknowledged before")
			}
			again := startKept(t, dir)
			found := see(t, daemon.Client(t, again), upTo(uint64(acked+1)))
			for id := range uint64(acked) {
				if j := found[id+1]; j == nil || j.body != fmt.Sprintf("job %d", id+1) {
					t.Errorf("job %d of %d that were acknowledged is lost", id+1, acked)
				}
			}
		})
	}
}

// TestTimerSyncsTheLastBurst: with -f a change is synced even if no other follows.
func TestTimerSyncsTheLastBurst(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	s := strace(t, []string{"-o", calls, "-e", "trace=fdatasync"}, t.TempDir(), []string{"-s", "1000000", "-f", "10", "--loops", "1"})
	if !s.Serves() {
		t.Fatalf("it ended instead of serving:\n%s", s.LogText())
	}
	syncs := func() int {
		b, err := os.ReadFile(calls)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "fdatasync")
	}
	c := s.Client()
	for i := range 5 {
		was := syncs()
		daemon.Expect(t, c, "put 0 0 100 3\r\nabc\r\n", fmt.Sprintf("INSERTED %d\r\n", i+1))
		for end := time.Now().Add(daemon.Hang); syncs() == was; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("put %d was never synced", i+1)
			}
		}
	}
}
