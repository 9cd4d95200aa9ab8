package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

func TestLogFileIsOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("of yesterday\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := daemon.GearmandCommand("-l", path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	awaitFile(t, path, `"msg":"serving"`)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, path, "the log file was opened again")

	// Where it cannot be, the old one goes on.
	if err := os.Rename(path, path+".2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, path+".2", "cannot be opened again")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	awaitFile(t, path+".2", "shutting down")
	old, err := os.ReadFile(path + ".1")
	if err != nil || !strings.HasPrefix(string(old), "of yesterday\n") || strings.Contains(string(old), "shutting down") {
		t.Errorf("the file that was moved away holds %q, %v", old, err)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr: %s", &stderr)
	}
}

// TestHangUpWithoutALogFile: nothing happens.
func TestHangUpWithoutALogFile(t *testing.T) {
	s, gear := daemon.GearmandWith(t, "-l", "stderr")
	s.Signal(syscall.SIGHUP)
	if s.WaitLog("ignored: there is no log file to open again") == nil {
		t.Fatal("it ended")
	}
	daemon.Says(t, daemon.Dial(t, gear), "maxqueue f\n", "OK\r\n")
}

func TestLogCanBeSwitchedOff(t *testing.T) {
	notify := daemon.NotifySocket(t)
	cmd := daemon.GearmandCommand("--log-file", "none", "-t", "4")
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+notify.LocalAddr().String())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	daemon.ReadState(t, notify)
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr: %s", &stderr)
	}
}

// TestPipeThatNobodyReads: to open it would wait for a reader, deaf to signals.
func TestPipeThatNobodyReads(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, what := range map[string]string{"-l": "the log", "-P": "the process id"} {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "gearmand", "-L", "127.0.0.1", "-p", "0", flag, pipe)
		if want := "polystalkd gearmand: flag " + flag + ": " + what + " cannot be written ("; got.Code != 1 || !strings.HasPrefix(got.Stderr, want) {
			t.Errorf("%s with a pipe: %+v, want %q", flag, got, want)
		}
	}
}
