package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// okFunctions are the rights of a client without a token.
const okFunctions = "[identity.default]\nput = [\"ok-*\"]\nwork = [\"ok-*\"]\n"

// TestGearmanClientsShowRefusals: after a refused submission each client reports an error, and neither
// a client nor a worker hangs silently or runs at full speed.
func TestGearmanClientsShowRefusals(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	gear := daemon.FreeAddress(t)
	s := daemon.Serve(t, append(accessFlag(t, okFunctions), "--gearman-listen", gear)...)
	host, port, _ := net.SplitHostPort(gear)
	for _, g := range gearmanClients {
		t.Run(g.name, func(t *testing.T) {
			if why := missingLibrary(t, g.interpreter, g.probe, g.install); why != "" {
				t.Skip(why)
			}
			for _, mode := range []string{"fg", "bg"} {
				args := []string{"testdata/clients/" + g.client, host, port, mode, "no-" + g.name, "x"}
				if g.client == "" {
					args = []string{"-h", host, "-p", port, "-f", "no-" + g.name, "x"}
					if mode == "bg" {
						args = append(args, "-b")
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), daemon.ClientTime)
				cmd := exec.CommandContext(ctx, g.interpreter, args...)
				cmd.Env = scriptEnv()
				out, err := cmd.CombinedOutput()
				if ctx.Err() != nil {
					t.Errorf("%s: it hangs", mode)
				}
				cancel()
				text := string(out)
				if !strings.Contains(text, "This identity may not do that") || strings.Contains(text, "created") || strings.Contains(text, "result") {
					t.Errorf("%s: %v, %s", mode, err, text)
				}
			}
			g.submit(t, gear, gearmanJob{"bg", "ok-x", "x", "created"})
			refusedWorker(t, g, gear)
		})
	}
	if !s.LogHas(`"verb":"work"`) || !s.LogHas(`"verb":"put"`) {
		t.Error("the log has no refusals")
	}
	if text := s.LogText(); strings.Contains(text, opsToken) {
		t.Error("the log shows a token")
	}
}

// refusedWorker lets a worker for a forbidden function run for a while. It may end, or try again
// without using much CPU.
func refusedWorker(t *testing.T, g *gearmanClient, gear string) {
	t.Helper()
	const most = 4 * time.Second
	w := g.work(t, gear, "upper=no-"+g.name)
	cmd := w.cmds[0]
	ended := make(chan struct{})
	timer := time.AfterFunc(most, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	<-ended
	w.cmds = nil
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("the worker ended: %v, CPU %v", cmd.ProcessState, used)
	if used > most/2 {
		t.Errorf("a refused worker runs at full speed: it has used %v of %v", used, most)
	}
}

// TestLibgearmanAuthenticatesAgain: libgearman sends the option auth again when it reconnects, as a
// client and as a worker.
func TestLibgearmanAuthenticatesAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	if why := missingLibrary(t, "python3", []string{"-c", "import ctypes; ctypes.CDLL('libgearman.so.8')"}, "python3 and libgearman8"); why != "" {
		t.Skip(why)
	}
	gear := daemon.FreeAddress(t)
	flags := append(accessFlag(t, okFunctions), "--gearman-listen", gear)
	serve := func() *daemon.Server { return daemon.Serve(t, flags...) }
	s := serve()
	host, port, _ := net.SplitHostPort(gear)
	ctx, cancel := context.WithTimeout(t.Context(), daemon.ClientTime)
	defer cancel()
	run := func(token string) (say func(line string), next func() string) {
		cmd := exec.CommandContext(ctx, "python3", "testdata/clients/option.py", host, port, "auth "+token)
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			_ = cmd.Wait()
		})
		lines := bufio.NewScanner(out)
		return func(line string) { fmt.Fprintln(in, line) }, func() string { lines.Scan(); return lines.Text() }
	}
	want := func(next func() string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if got := next(); !strings.HasPrefix(got, line) {
				t.Fatalf("%q, want %q", got, line)
			}
		}
	}
	say, next := run(opsToken)
	want(next, "client True", "worker True")
	for range 2 {
		say("submit no-x")
		say("work no-x")
		want(next, "submit ok", "run", "work ok")
		s.Signal(syscall.SIGTERM)
		<-s.Done
		s = serve()
	}
	say, next = run("a-token-that-is-not-valid")
	want(next, "client False", "worker False")
	say("submit no-x")
	want(next, "submit failed b'_client_run_tasks(GEARMAN_SERVER_ERROR) NOT_PERMITTED")
	if !s.LogHas("refused a token that is not in the access file") || s.LogHas("not-valid") {
		t.Error("the log does not show the refusal, or shows the token")
	}
}
