package process

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// TestNoLinkIsFollowed: the owner of the directory of the pid file or of the log could
// have root write into any file there is.
func TestNoLinkIsFollowed(t *testing.T) {
	for flag, short := range map[string]string{"--pid-file": "-P", "--log-file": "-l"} {
		for name, link := range map[string]func(old, new string) error{"symbolic link": os.Symlink, "second name": os.Link} {
			dir := t.TempDir()
			victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
			if err := os.WriteFile(victim, []byte("precious\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := link(victim, path); err != nil {
				t.Fatal(err)
			}
			args := []string{"gearmand", "-L", "127.0.0.1", "-p", "0", "--config-file", os.DevNull, flag, path}
			got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), args...)
			if got.Code != fault.Gearmand || !strings.Contains(got.Stderr, "flag "+short+": ") || !strings.Contains(got.Stderr, name) {
				t.Errorf("%s %s: %+v", flag, name, got)
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious\n" {
				t.Errorf("%s %s: the file behind it holds %q, %v", flag, name, text, err)
			}
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("%s %s: it is gone: %v", flag, name, err)
			}
		}

		// One that points nowhere makes no file.
		dir := t.TempDir()
		path := filepath.Join(dir, "link")
		if err := os.Symlink(filepath.Join(dir, "new"), path); err != nil {
			t.Fatal(err)
		}
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "gearmand", "-L", "127.0.0.1", "-p", "0", "--config-file", os.DevNull, flag, path)
		if got.Code != fault.Gearmand || !strings.Contains(got.Stderr, "symbolic link") {
			t.Errorf("%s dangling: %+v", flag, got)
		}
		if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
			t.Errorf("%s: a file was made behind the link", flag)
		}
	}

	// Links on the way are the machine's own, as /var/run mostly is.
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	daemon.GearmandWith(t, "--pid-file", filepath.Join(dir, "d", "pid"), "--log-file", "stderr")
	if _, err := os.Stat(filepath.Join(dir, "pid")); err != nil {
		t.Error(err)
	}
}

// TestNoLinkIsFollowedLater: neither when the log file is opened again, by the user
// that the server has become.
func TestNoLinkIsFollowedLater(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "log"), filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := daemon.GearmandCommand("-l", path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	awaitFile(t, path, `"msg":"serving"`)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, path+".1", "cannot be opened again")
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious\n" {
		t.Errorf("the file behind the link holds %q, %v", text, err)
	}
}

// TestLogOnAPipe: what a container or a supervisor reads, under each of its names, and
// a named pipe that somebody reads.
func TestLogOnAPipe(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/stderr", fifo} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if path == fifo {
			r.Close()
			if r, err = os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
				t.Fatal(err)
			}
		}
		cmd := daemon.GearmandCommand("-l", path)
		cmd.Stdout, cmd.Stderr = w, w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		t.Cleanup(func() { cmd.Process.Kill() })
		text := readUntil(t, r, `"msg":"serving"`)
		cmd.Process.Signal(syscall.SIGHUP)
		text += readUntil(t, r, "opened again")
		cmd.Process.Signal(syscall.SIGTERM)
		text += readUntil(t, r, "shutting down")
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v: %s", path, err, text)
		}
		r.Close()
	}
}

// readUntil reads until the text has come.
func readUntil(t *testing.T, r *os.File, want string) string {
	t.Helper()
	var got strings.Builder
	buf := make([]byte, 4096)
	for d := newDeadline(t); !strings.Contains(got.String(), want); {
		n, err := r.Read(buf)
		got.Write(buf[:n])
		if err != nil && err != io.EOF {
			t.Fatalf("%v; got %s", err, &got)
		}
		if n == 0 {
			d.wait("no %q in %s", want, &got)
		}
	}
	return got.String()
}
