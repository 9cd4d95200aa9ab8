package binlog

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is also the other process of the tests of Lock: it locks the named
// directory, says what came of it, and waits for the end of its input.
func TestMain(m *testing.M) {
	dir := os.Getenv("BINLOG_TEST_LOCK")
	if dir == "" {
		os.Exit(m.Run())
	}
	_, err := Lock(dir)
	os.Stdout.WriteString(strings.ReplaceAll("locked: "+errorText(err), "\n", " ") + "\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func errorText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// otherProcess locks dir in another process until the returned function, and
// reports what that process said.
func otherProcess(t *testing.T, dir string) (said string, pid int, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BINLOG_TEST_LOCK="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "locked: ")), cmd.Process.Pid, func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func TestLockIsExclusive(t *testing.T) {
	dir := t.TempDir()
	said, pid, end := otherProcess(t, dir)
	if said != "ok" {
		t.Fatal(said)
	}
	_, err := Lock(dir)
	if e, ok := errors.AsType[LockedError](err); !ok || e.PID != pid || e.Path != filepath.Join(dir, "lock") {
		t.Errorf("while process %d has it: %v", pid, err)
	}
	end()

	l, err := Lock(dir)
	if err != nil {
		t.Fatal("after the other process:", err)
	}
	// A second try must fail, and must not end the first one's lock.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, link} {
		if e, ok := errors.AsType[LockedError](second(Lock(d))); !ok || e.PID != os.Getpid() {
			t.Errorf("second lock of %s: %v", d, e)
		}
	}
	said, _, end = otherProcess(t, dir)
	end()
	if !strings.Contains(said, "is locked by process") {
		t.Error("the other process:", said)
	}
	if info, err := os.Stat(filepath.Join(dir, "lock")); err != nil || info.Mode() != 0o600 || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	if said, _, end = otherProcess(t, dir); said != "ok" {
		t.Error("after Unlock:", said)
	}
	end()
}

func second(_ *DirLock, err error) error { return err }

func TestLockNeedsADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	_, err := Lock(dir)
	if _, locked := errors.AsType[LockedError](err); err == nil || locked || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
}
