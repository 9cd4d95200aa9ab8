package process

import (
	"net"
	"os"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

func TestTermAndInterruptEndWithZero(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			s := daemon.Serve(t)
			idle := daemon.Dial(t, s.Listen[0])
			if got := daemon.Ask(t, idle, "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
				t.Errorf("reply %q", got)
			}
			s.Signal(sig)
			if code := s.End(); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if _, err := idle.Read(make([]byte, 1)); err == nil {
				t.Error("the connection got data, want it closed")
			}
			if conn, err := net.Dial("tcp", s.Listen[0]); err == nil {
				conn.Close()
				t.Error("the port still accepts connections")
			}
		})
	}
}

func TestUserSignalDrains(t *testing.T) {
	s := daemon.Serve(t)
	conn := daemon.Dial(t, s.Listen[0])
	const put = "put 0 0 10 1\r\nx\r\n"
	if got := daemon.Ask(t, conn, put); got != "INSERTED 1" {
		t.Fatalf("before: %q", got)
	}
	s.Signal(syscall.SIGUSR1)
	if s.WaitLog("draining: no new jobs are accepted") == nil {
		t.Fatal("no log line about draining")
	}
	if got := daemon.Ask(t, conn, put); got != "DRAINING" {
		t.Errorf("after: %q", got)
	}
	if got := daemon.Stats(t, s.Listen[0])["draining"]; got != "true" {
		t.Errorf("stats draining: %s", got)
	}
}

func TestHangUpIsIgnored(t *testing.T) {
	s := daemon.Serve(t)
	s.Signal(syscall.SIGHUP)
	if s.WaitLog("ignored: there is nothing to reload") == nil {
		t.Fatal("no log line about SIGHUP")
	}
	if got := daemon.Stats(t, s.Listen[0])["draining"]; got != "false" {
		t.Errorf("stats draining: %s", got)
	}
}
