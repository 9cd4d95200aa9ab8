package process

import (
	"os/exec"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestWatchdogIsFed while the server gets on.
func TestWatchdogIsFed(t *testing.T) {
	notify := daemon.NotifySocket(t)
	cmd := exec.Command(daemon.Binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0")
	cmd.Env = daemon.CleanEnv("NOTIFY_SOCKET="+notify.LocalAddr().String(), "WATCHDOG_USEC=100000")
	s := daemon.Await(t, cmd)
	if got := daemon.ReadState(t, notify); got != "READY=1" {
		t.Fatalf("first state %q", got)
	}
	for range 5 {
		if got := daemon.ReadState(t, notify); got != "WATCHDOG=1" {
			t.Fatalf("state %q", got)
		}
	}
	s.Signal(syscall.SIGTERM)
	for {
		got := daemon.ReadState(t, notify)
		if got == "STOPPING=1" {
			break
		}
		if got != "WATCHDOG=1" {
			t.Errorf("state %q at the end", got)
		}
	}
	s.EndsWith(0)

	strange := exec.Command(daemon.Binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0")
	strange.Env = daemon.CleanEnv("NOTIFY_SOCKET="+notify.LocalAddr().String(), "WATCHDOG_USEC=soon")
	if daemon.Await(t, strange).WaitLog("the service manager's watchdog is not served") == nil {
		t.Error("nothing is said of an interval that is none")
	}
}
