package process

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// TestCheckArgsChangesNothing: with a port taken, a directory in use and a socket file
// to be made, all is well with the arguments, and nothing has been touched.
func TestCheckArgsChangesNothing(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	dir := t.TempDir()
	args := []string{"--check-args", "-l", "127.0.0.1", "-p", port, "-l", "unix:" + filepath.Join(dir, "s"), "-b", dir, "-u", "root", "--gearman-listen", "127.0.0.1:" + port}
	if got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), args...); got != (daemon.Outcome{}) {
		t.Errorf("%+v", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a check leaves %v, %v", left, err)
	}
	// Warnings are told, and are no fault.
	got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv("POLYSTALKD_LISTENS=x"), "--check-args", "-c", "-z", "2000000000")
	if got.Code != 0 || got.Stdout != "" || strings.Count(got.Stderr, "polystalkd: warning: ") != 3 || !strings.Contains(got.Stderr, "POLYSTALKD_LISTENS") {
		t.Errorf("%+v", got)
	}
	// It is asked for, not configured.
	daemon.Await(t, func() *exec.Cmd {
		cmd := daemon.UnixCommand(filepath.Join(daemon.ShortDir(t), "s"))
		cmd.Env = append(cmd.Env, "POLYSTALKD_CHECK_ARGS=true")
		return cmd
	}())
}

// TestCheckArgsFindsFaults: all that a start would, but for what only opening shows.
func TestCheckArgsFindsFaults(t *testing.T) {
	shows := map[string]bool{ // by their names in refusals
		"port taken": true, "unknown host": true, "not our address": true, "one address of two": true, "unix path too long": true,
		"unix path a directory": true, "unix path a file": true, "unix path below nothing": true, "variable with a bad address": true,
		"journal in use": true, "journal damaged": true, "variable with a directory": true,
	}
	for _, r := range refusals(t) {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(r.env...), append([]string{"--check-args"}, r.args...)...)
		if want := (daemon.Outcome{}); shows[r.name] && got != want {
			t.Errorf("%s: %+v", r.name, got)
		}
		if !shows[r.name] && (got.Code != r.code || strings.Count(got.Stderr, "\n") != 1) {
			t.Errorf("%s: %+v, want code %d", r.name, got, r.code)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "--check-args", "-b", file); got.Code != fault.Journal || !strings.Contains(got.Stderr, "no directory") {
		t.Errorf("%+v", got)
	}
}
