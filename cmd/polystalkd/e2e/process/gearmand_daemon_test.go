package process

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/conversation"
	"polystalk/codec/gearman"
)

// A deadline bounds a wait for something that only looking shows.
type deadline struct {
	t   *testing.T
	end time.Time
}

func newDeadline(t *testing.T) *deadline { return &deadline{t, time.Now().Add(daemon.Hang)} }

// wait waits a little, or fails the test with a message.
func (d *deadline) wait(format string, args ...any) {
	d.t.Helper()
	if time.Now().After(d.end) {
		d.t.Fatalf(format, args...)
	}
	time.Sleep(5 * time.Millisecond)
}

// startDaemonIn has polystalkd detach, with dir as working directory, and returns its
// process id from dir/pid. It ends with the test.
func startDaemonIn(t *testing.T, dir string, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(daemon.Binary, append([]string{"gearmand", "--daemon", "-P", "pid", "--config-file", os.DevNull}, args...)...)
	cmd.Dir, cmd.Env = dir, daemon.CleanEnv()
	out, err := cmd.CombinedOutput() // also waits until nobody holds stdout and stderr
	t.Cleanup(func() {
		if pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // mostly gone
		}
	})
	text, readErr := os.ReadFile(filepath.Join(dir, "pid"))
	if readErr == nil {
		pid, readErr = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err != nil || readErr != nil || len(out) > 0 {
		t.Fatalf("%v, %v, %s", err, readErr, out)
	}
	return pid
}

// awaitEnd returns once the process is gone, or nobody has asked how it ended.
func awaitEnd(t *testing.T, pid int, address, pidFile string) {
	t.Helper()
	for d := newDeadline(t); ; {
		_, err := os.Stat(pidFile)
		conn, dialErr := net.DialTimeout("tcp", address, daemon.Hang)
		if dialErr == nil {
			conn.Close()
		}
		if errors.Is(err, fs.ErrNotExist) && dialErr != nil {
			return
		}
		d.wait("process %d goes on", pid)
	}
}

func freeAddress(t *testing.T) (address string, args []string) {
	t.Helper()
	port, err := conversation.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p := strconv.Itoa(port)
	return "127.0.0.1:" + p, []string{"-L", "127.0.0.1", "-p", p}
}

// TestDaemonServesWhenItsParentEnds: and is a daemon in all respects.
func TestDaemonServesWhenItsParentEnds(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "jobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	address, args := freeAddress(t)
	pid := startDaemonIn(t, dir, append(args, "-l", "log", "--journal", "jobs", "--job-handle-prefix", "H:x")...)
	conn := daemon.Dial(t, address)
	daemon.Says(t, conn, "getpid\n", "OK "+strconv.Itoa(pid)+"\n")
	daemon.Says(t, conn, daemon.Request(gearman.SubmitJobBG, "f", "", "x"), daemon.Response(gearman.JobCreated, "H:x:1"))

	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("it is in session %d, %v", sid, err)
	}
	if runtime.GOOS == "linux" {
		proc := "/proc/" + strconv.Itoa(pid)
		for name, want := range map[string]string{"cwd": "/", "fd/0": os.DevNull, "fd/1": os.DevNull, "fd/2": os.DevNull} {
			if got, err := os.Readlink(proc + "/" + name); err != nil || got != want {
				t.Errorf("%s is %s, %v; want %s", name, got, err, want)
			}
		}
		env, err := os.ReadFile(proc + "/environ")
		if err != nil || !strings.Contains(string(env), "POLYSTALKD_DAEMON_REPORT") {
			t.Errorf("it was not started as a daemon: %v", err)
		}
	}
	awaitFile(t, filepath.Join(dir, "log"), "msg=serving ")

	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, pid, address, filepath.Join(dir, "pid"))
	awaitFile(t, filepath.Join(dir, "log"), "shutting down")
	if left, err := filepath.Glob(filepath.Join(dir, "jobs", "journal.*")); err != nil || len(left) == 0 {
		t.Errorf("no journal in the directory that was given: %v", err)
	}
}

// TestDaemonsStartErrorsAreSeen: by exit code and on stderr, though they come after it
// has detached.
func TestDaemonsStartErrorsAreSeen(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "journal.0000000001"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, says string }{
		{"-p " + port, "in use"},
		{"-p 0 --journal " + damaged, "--journal"},
		{"-p 0 -u no-such-user", "no-such-user"},
	} {
		args := append([]string{"gearmand", "-d", "-L", "127.0.0.1", "-l", "none", "-P", dir + "/pid"}, strings.Fields(tt.args)...)
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), args...)
		if got.Code != fault.Gearmand || strings.Count(got.Stderr, "\n") != 1 || !strings.Contains(got.Stderr, tt.says) {
			t.Errorf("%s: %+v", tt.args, got)
		}
		if _, err := os.Stat(dir + "/pid"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a pid file is left behind", tt.args)
		}
	}
}

// TestDaemonSaysWhereItsLogEnds: its stderr is nobody's.
func TestDaemonSaysWhereItsLogEnds(t *testing.T) {
	dir := t.TempDir()
	address, args := freeAddress(t)
	got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), append([]string{"gearmand", "-d", "-P", dir + "/pid"}, args...)...)
	if got.Code != 0 || !strings.Contains(got.Stderr, "the log ends here") {
		t.Errorf("%+v", got)
	}
	text, err := os.ReadFile(dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, pid, address, dir+"/pid")
}

// TestPidFileOfAnotherStays: a second server that took the path over keeps it.
func TestPidFileOfAnotherStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	s, _ := daemon.GearmandWith(t, "-P", path)
	if text, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(s.Cmd.Process.Pid) {
		t.Fatalf("the pid file holds %q, %v", text, err)
	}
	if err := os.WriteFile(path, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Signal(syscall.SIGTERM)
	s.EndsWith(0)
	if text, err := os.ReadFile(path); err != nil || string(text) != "1\n" {
		t.Errorf("it holds %q, %v", text, err)
	}
}

// TestStartInVainLeavesThePidFile: the file belongs to the server that has the port.
func TestStartInVainLeavesThePidFile(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "pid"), t.TempDir()
	daemon.GearmandWith(t, "-P", path, "--journal", dir)
	want, err := os.ReadFile(path)
	if err != nil || len(want) == 0 {
		t.Fatalf("the pid file holds %q, %v", want, err)
	}
	got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "gearmand", "-L", "127.0.0.1", "-p", "0", "-P", path, "--journal", dir, "--config-file", os.DevNull)
	if got.Code != fault.Gearmand || !strings.Contains(got.Stderr, "in use by another server") {
		t.Fatalf("%+v", got)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != string(want) {
		t.Errorf("it holds %q, %v, want %q", text, err, want)
	}
	// One that nobody uses is taken over, whatever is in it.
	old := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(old, []byte("12345678901234567890\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := daemon.GearmandWith(t, "-P", old)
	if text, err := os.ReadFile(old); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(s.Cmd.Process.Pid) {
		t.Errorf("it holds %q, %v", text, err)
	}
}
