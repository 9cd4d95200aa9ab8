package process

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/binlog"
	"polystalk/codec/conversation"
)

// TestOneServerForADirectory: a second server, ours or beanstalkd, exits with 10 and changes
// nothing.
func TestOneServerForADirectory(t *testing.T) {
	program, _ := daemon.Reference(t)
	dir := t.TempDir()
	s := startLogged(t, dir)
	c := s.Client()
	putN(t, c, 10, "put 0 0 100 3\r\nabc\r\n")
	files := slices.Sorted(maps.Keys(contents(t, dir, "")))
	second := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l", "127.0.0.1", "-p", "0", "-b", dir)
	pid := fmt.Sprint(s.Cmd.Process.Pid)
	if second.Code != 10 || !strings.Contains(second.Stderr, "in use by another server") || !strings.Contains(second.Stderr, pid) || strings.Count(second.Stderr, "\n") != 1 {
		t.Errorf("exit code %d and %q, want 10 and our process %s named in one line", second.Code, second.Stderr, pid)
	}
	port, err := conversation.FreePort()
	must(t, err)
	if other := daemon.RunToEnd(t, program, daemon.CleanEnv(), "-l", "127.0.0.1", "-p", fmt.Sprint(port), "-b", dir); other.Code != 10 {
		t.Errorf("beanstalkd: exit code %d and %q, want 10", other.Code, other.Stderr)
	}
	if now := slices.Sorted(maps.Keys(contents(t, dir, ""))); !slices.Equal(now, files) {
		t.Errorf("the directory has %q, had %q", now, files)
	}
	daemon.Expect(t, c, "put 0 0 100 3\r\nabc\r\n", "INSERTED 11\r\n")
	s.Crash()
	stat(t, startLogged(t, dir), "current-jobs-ready", "11") // the lock ends with the process

	theirs := t.TempDir()
	r := startOther(t, []string{program, "-b", theirs})
	refused := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l", "127.0.0.1", "-p", "0", "-b", theirs)
	if found := segments(t, theirs); refused.Code != 10 || len(found) > 0 {
		t.Errorf("with beanstalkd in the directory: exit code %d and %q, and it left %q", refused.Code, refused.Stderr, found)
	}
	r.Kill()
}

// TestLockedToTheEnd: a signal during a long start ends the server while it reads and writes the
// journal. The directory stays locked until the process has ended.
func TestLockedToTheEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := t.TempDir()
	first := startLogged(t, dir)
	daemon.Expect(t, first.Client(), "put 0 0 100 3\r\nabc\r\n", "INSERTED 1\r\n")
	first.Crash()
	// The first flush of the start is slow, and so is the removal of the socket at the end.
	s := strace(t, []string{
		"-o", os.DevNull, "-e", "trace=fdatasync,unlinkat",
		"-e", "inject=fdatasync:delay_enter=4000000", "-e", "inject=unlinkat:delay_enter=3000000",
	}, dir, []string{"-l", "unix:" + filepath.Join(t.TempDir(), "socket")})
	pid := s.Cmd.Process.Pid
	for end := time.Now().Add(daemon.Hang); lockedBy(t, dir) != pid; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not lock the directory")
		}
	}
	s.Signal(syscall.SIGTERM)
	if s.WaitLog("ending before the start was complete") == nil {
		t.Fatal("the start was not interrupted")
	}
	for lockedBy(t, dir) == pid {
		time.Sleep(time.Millisecond)
	}
	// The kernel releases the lock a moment before it reports the end of the process.
	for end := time.Now().Add(time.Second); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the directory is free while the server goes on")
		}
	}
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// lockedBy returns the process that has the lock of dir, or 0.
func lockedBy(t *testing.T, dir string) int {
	t.Helper()
	l, err := binlog.Lock(dir)
	if locked, ok := errors.AsType[binlog.LockedError](err); ok {
		return locked.PID
	}
	must(t, err)
	l.Unlock()
	return 0
}

// alive reports whether a process runs and is not a zombie.
func alive(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(b), ") ")
	return after != "" && after[0] != 'Z' && after[0] != 'X'
}
