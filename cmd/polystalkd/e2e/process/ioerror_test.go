package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
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
	for _, policy := range [][]string{nil, {"-f", "5"}, {"-F"}} {
		dir := t.TempDir()
		inject := "fdatasync:error=EIO:when=40"
		if len(policy) == 1 { // nothing is synced
			inject = "pwrite64:error=ENOSPC:when=60"
		}
		s := startTraced(t, dir, inject, append([]string{"-s", "1000000", "--loops", "1"}, policy...)...)
		if !s.Serves() {
			t.Fatalf("it ended instead of serving:\n%s", s.LogText())
		}
		conn := s.Client()
		acked := 0
		for end := time.Now().Add(daemon.Hang); time.Now().Before(end); acked++ {
			reply, err := conn.Ask("put 7 0 100 3\r\njob\r\n")
			if err != nil {
				if len(reply) > 0 {
					t.Errorf("half a reply: %q", reply)
				}
				break
			}
			if want := fmt.Sprintf("INSERTED %d\r\n", acked+1); string(reply) != want {
				t.Fatalf("got %q, want %q", reply, want)
			}
			if len(policy) == 2 {
				time.Sleep(2 * time.Millisecond) // give the timer something to do
			}
		}
		s.EndsWith(fault.Journal)
		logs(t, s, "polystalkd: the journal has failed", "journal.")
		if found := see(t, startLogged(t, dir).Client(), upTo(uint64(acked+1))); acked == 0 || len(found) < acked {
			t.Errorf("%d jobs of %d that were acknowledged are there", len(found), acked)
		}
	}
}
