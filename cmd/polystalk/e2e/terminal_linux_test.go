package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A screen is a pseudo terminal with the program at its other end.
type screen struct {
	t    *testing.T
	here *os.File
	cmd  *exec.Cmd
	seen strings.Builder
}

// openTerminal runs the built program on a terminal.
func openTerminal(t *testing.T, program, server string, args ...string) *screen {
	t.Helper()
	here, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { here.Close() })
	must(t, unix.IoctlSetPointerInt(int(here.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(here.Fd()), unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetWinsize(int(here.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	there, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	defer there.Close()
	// After ^C the kernel drops pending output, which may be the program's message about the signal.
	modes, err := unix.IoctlGetTermios(int(there.Fd()), unix.TCGETS)
	must(t, err)
	modes.Lflag |= unix.NOFLSH
	must(t, unix.IoctlSetTermios(int(there.Fd()), unix.TCSETS, modes))
	cmd := exec.Command(program, args...)
	cmd.Env = daemon.CleanEnv("POLYSTALK_SERVER="+server, "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = there, there, there
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_ = here.SetReadDeadline(time.Now().Add(daemon.Hang)) // else the limit of the test holds
	return &screen{t: t, here: here, cmd: cmd}
}

// sees waits for a text on the screen. If it is empty, it waits for the end of the program.
func (x *screen) sees(want string) {
	x.t.Helper()
	b := make([]byte, 4096)
	for want == "" || !strings.Contains(x.seen.String(), want) {
		n, err := x.here.Read(b)
		x.seen.Write(b[:n])
		if err != nil {
			if want != "" {
				x.t.Fatalf("on the screen is %q, not %q", x.seen.String(), want)
			}
			return
		}
	}
}

// types sends keys.
func (x *screen) types(text string) {
	x.t.Helper()
	if _, err := x.here.WriteString(text); err != nil {
		x.t.Fatal(err)
	}
}

// ends expects an exit code.
func (x *screen) ends(code int) {
	x.t.Helper()
	x.sees("")
	_ = x.cmd.Wait() // the exit code tells
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.t.Errorf("exit code %d, want %d; on the screen is %q", got, code, x.seen.String())
	}
}

// TestTerminal runs the program on a terminal: it asks a question, accepts the answer, and ends on
// an interrupt.
func TestTerminal(t *testing.T) {
	program := daemon.CLI(t)
	p, _ := polystalkd(t)
	p.in = "a\nb\nc\n"
	p.must(0, "put", "mail", "--lines")
	p.in = "\x1b]0;title\x07"
	p.must(0, "put", "bad")

	x := openTerminal(t, program, p.server, "flush", "mail")
	x.sees("Delete 3 jobs of tube mail? [y/N] ")
	x.types("n\r")
	x.ends(4)
	x = openTerminal(t, program, p.server, "flush", "mail")
	x.sees("[y/N] ")
	x.types("\x03")
	x.ends(1)
	if !strings.Contains(x.seen.String(), "interrupted") {
		t.Errorf("on the screen is %q", x.seen.String())
	}
	p.must(0, "tube", "mail")
	x = openTerminal(t, program, p.server, "flush", "mail")
	x.sees("[y/N] ")
	x.types("y\r")
	x.ends(0)
	p.must(2, "flush", "mail", "--yes")

	x = openTerminal(t, program, p.server, "put", "typed", "-o", "name")
	x.sees("type the body, and end it with Ctrl-D")
	x.types("typed\r\x04")
	x.sees("5\r\n")
	x.ends(0)

	x = openTerminal(t, program, p.server, "put", "typed")
	x.sees("type the body, and end it with Ctrl-D")
	x.types("typed\r\x03")
	x.sees("interrupted: nothing was put")
	x.ends(1)

	p.must(0, "put", "red", "--body", "x")
	p.must(0, "bury", "--tube", "red")
	x = openTerminal(t, program, p.server, "tube", "red")
	x.sees("buried        \x1b[1;31m1\x1b[0m\r\n")

	for _, args := range [][]string{{"jobs", "bad"}, {"jobs", "bad", "-o", "json"}, {"jobs", "bad", "-o", "jsonl", "--jq", ".body_base64|@base64d"}, {"body", "4"}} {
		x = openTerminal(t, program, p.server, args...)
		x.sees("")
		if strings.ContainsAny(x.seen.String(), "\x1b\x07") {
			t.Errorf("%q: on the screen is %q", args, x.seen.String())
		}
	}

	x = openTerminal(t, program, p.server, "top")
	x.sees("READY▼")
	x.sees("q quit")
	x.types("\t")
	x.sees("WATCHES")
	must(t, unix.IoctlSetWinsize(int(x.here.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 200}))
	x.sees("UNSENT") // there is room for it now
	x.types("?")
	x.sees("any key goes back")
	x.types("xq")
	x.ends(0)
	if seen := x.seen.String(); !strings.Contains(seen, "\x1b[?1049h") || !strings.Contains(seen, "\x1b[?1049l") {
		t.Errorf("the screen of before does not come back: %q", seen)
	}
	x = openTerminal(t, program, p.server, "top")
	x.sees("READY▼")
	must(t, x.cmd.Process.Signal(syscall.SIGTERM))
	x.ends(0)
	if seen := x.seen.String(); !strings.Contains(seen, "\x1b[?1049l") {
		t.Errorf("the screen of before does not come back after a signal: %q", seen)
	}

	e := &endless{}
	x = openTerminal(t, program, answering(t, e.ServeHTTP).server, "kick", "--tube", "mail")
	x.sees("kick: 400 of about 1000, 40 %")
	x.types("\x03")
	x.sees("cancelling operation 7")
	x.sees("polystalk ops 7")
	x.sees("kick: 300 of 400 jobs (skipped: 2 gone)")
	x.sees("repeat the command for the rest")
	x.ends(1)
	if e.cancelled.Load() != 1 {
		t.Errorf("cancelled %d times", e.cancelled.Load())
	}
}

// TestCompletionInBash works without the package bash-completion.
func TestCompletionInBash(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	p, _ := polystalkd(t)
	p.must(0, "put", "mailbox", "--body", "x")
	script := filepath.Join(t.TempDir(), "completion")
	must(t, os.WriteFile(script, []byte(p.must(0, "completion", "bash").stdout), 0o600))
	t.Setenv("PATH", filepath.Dir(daemon.CLI(t))+":"+os.Getenv("PATH"))
	x := openTerminal(t, bash, p.server, "--norc", "--noprofile")
	x.types("PS1='$ '; source " + script + "; echo read\\y\r")
	x.sees("ready\r\n")
	for typed, want := range map[string]string{
		"polystalk tube mai":                       "tube mailbox",
		"polystalk kick --tube=mai":                "--tube=mailbox",
		"polystalk release --tube mai":             "--tube mailbox",
		"polystalk --server " + p.server + " resu": " resume",
		"polystalk jobs --state bur":               "--state buried",
	} {
		x.seen.Reset()
		x.types(typed)
		again := time.NewTicker(3 * time.Second) // a late server completes nothing
		seen := make(chan struct{})
		var tab sync.WaitGroup
		tab.Go(func() {
			for {
				x.types("\t")
				select {
				case <-again.C:
				case <-seen:
					return
				}
			}
		})
		x.sees(want)
		close(seen)
		tab.Wait()
		again.Stop()
		x.types("\x15")
	}
	x.types("exit 7\r")
	x.ends(7)
	if strings.Contains(x.seen.String(), "not found") {
		t.Errorf("on the screen is %q", x.seen.String())
	}
}
