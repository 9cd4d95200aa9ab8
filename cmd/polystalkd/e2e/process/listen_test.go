package process

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// leaveSocket makes a unix socket at path that nobody listens on.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

// refuseUnix starts polystalkd on path, which must be refused with all of says,
// and checks that what is at path is still the same file.
func refuseUnix(t *testing.T, path string, says ...string) {
	t.Helper()
	before, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l", "unix:"+path)
	if got.Code != fault.System {
		t.Errorf("exit code %d, want %d", got.Code, fault.System)
	}
	for _, want := range append(says, "-l", path) {
		if !strings.Contains(got.Stderr, want) {
			t.Errorf("stderr does not hold %q: %s", want, got.Stderr)
		}
	}
	after, err := os.Lstat(path)
	if err != nil {
		t.Fatalf("the file is gone: %v", err)
	}
	if !os.SameFile(before, after) {
		t.Error("the file was replaced")
	}
}

func TestUnixPathOfSomethingElseIsRefused(t *testing.T) {
	dir := daemon.ShortDir(t)
	path := func(name string) string { return filepath.Join(dir, name) }

	if err := os.MkdirAll(path("tree/leaf"), 0o755); err != nil {
		t.Fatal(err)
	}
	refuseUnix(t, path("tree"), "directory")
	if _, err := os.Stat(path("tree/leaf")); err != nil {
		t.Error(err)
	}

	if err := os.WriteFile(path("file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuseUnix(t, path("file"), "regular file")
	if text, err := os.ReadFile(path("file")); string(text) != "precious" {
		t.Errorf("the file holds %q, %v", text, err)
	}

	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuseUnix(t, path("pipe"), "not a socket")

	leaveSocket(t, path("target"))
	if err := os.Symlink("target", path("link")); err != nil {
		t.Fatal(err)
	}
	refuseUnix(t, path("link"), "symbolic link")
}

func TestUnixSocketInUseIsRefused(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	first := daemon.Await(t, daemon.UnixCommand(path))
	refuseUnix(t, path, "in use", "stop it, or choose another path")
	if got := daemon.Ask(t, daemon.Dial(t, first.Listen[0]), "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
		t.Errorf("the first server answers %q", got)
	}
}

func TestDatagramSocketInUseIsRefused(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	refuseUnix(t, path, "may be in use")
}

func TestUnixSocketLeftBehindIsReplaced(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	killed := daemon.Await(t, daemon.UnixCommand(path))
	killed.Signal(syscall.SIGKILL)
	killed.End()
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("a killed server leaves its socket: %v", err)
	}
	next := daemon.Await(t, daemon.UnixCommand(path))
	if got := daemon.Ask(t, daemon.Dial(t, next.Listen[0]), "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
		t.Errorf("reply %q", got)
	}
}

func TestSocketLeftBehindByAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving a file away takes root")
	}
	path := filepath.Join(daemon.ShortDir(t), "s")
	leaveSocket(t, path)
	if err := os.Chown(path, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	refuseUnix(t, path, "another user", "54321", "remove it yourself")
}

func TestUnixSocketIsRemovedAtExit(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	s := daemon.Await(t, daemon.UnixCommand(path))
	s.Signal(syscall.SIGTERM)
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket file is still there: %v", err)
	}
}

func TestUnixSocketOfAFailedStartIsRemoved(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l", "unix:"+path, "-l", "192.0.2.1", "-p", "0")
	if got.Code != fault.System {
		t.Errorf("exit code %d: %s", got.Code, got.Stderr)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket file is still there: %v", err)
	}
}

func TestAnothersFileAtOurPathStays(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	s := daemon.Await(t, daemon.UnixCommand(path))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	leaveSocket(t, path) // as a second server would after cleaning up by hand
	s.Signal(syscall.SIGTERM)
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("another's file was removed: %v", err)
	}
}

func TestRelativeAndOddUnixPaths(t *testing.T) {
	dir := daemon.ShortDir(t)
	for _, name := range []string{"plain", "@at"} {
		cmd := daemon.UnixCommand(name)
		cmd.Dir = dir
		daemon.Await(t, cmd)
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode()&os.ModeSocket == 0 {
			t.Errorf("%s: no socket file: %v", name, err)
		}
	}
}

// One of several servers started at once on the same dead socket gets it, and
// no other takes the path away from that one.
func TestOneOfManyStartsGetsTheUnixSocket(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	for range 5 {
		leaveSocket(t, path)
		var started, winners []*daemon.Server
		for range 4 {
			started = append(started, daemon.Launch(t, daemon.UnixCommand(path)))
		}
		for _, s := range started {
			if s.Serves() {
				winners = append(winners, s)
			}
		}
		if len(winners) != 1 {
			t.Fatalf("%d servers say that they serve, want 1", len(winners))
		}
		pid := strconv.Itoa(winners[0].Cmd.Process.Pid)
		if got := daemon.Stats(t, "unix:"+path)["pid"]; got != pid {
			t.Fatalf("process %s answers at the path, want %s", got, pid)
		}
		winners[0].Signal(syscall.SIGTERM)
		winners[0].End()
	}
}

func TestServerBecomesTheUser(t *testing.T) {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("becoming another user takes root, and checking it Linux's /proc")
	}
	who, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := who.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(groups)
	s := daemon.Serve(t, "-u", "nobody")
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.Cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		t.Fatal("no threads", err)
	}
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			ids := strings.Fields(value)
			slices.Sort(ids)
			ids = slices.Compact(ids)
			var want []string
			switch key {
			case "Uid":
				want = []string{who.Uid}
			case "Gid":
				want = []string{who.Gid}
			case "Groups":
				want = groups
			default:
				continue
			}
			if !slices.Equal(ids, want) {
				t.Errorf("%s: %s %q, want %q", file, key, ids, want)
			}
		}
	}
	if got := daemon.Ask(t, daemon.Dial(t, s.Listen[0]), "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
		t.Errorf("reply %q", got)
	}
}

func TestBecomingAUserWithoutTheRightFails(t *testing.T) {
	cmd := exec.Command(daemon.Binary, "-l", "127.0.0.1", "-p0", "-u", "root")
	if os.Geteuid() == 0 {
		nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: nobody}
		copied := filepath.Join(daemon.PublicDir(t), "polystalkd")
		data, err := os.ReadFile(daemon.Binary)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied, data, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd.Path = copied
	}
	cmd.Env = daemon.CleanEnv()
	timer := time.AfterFunc(daemon.Hang, func() { cmd.Process.Kill() })
	defer timer.Stop()
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != fault.UserSet {
		t.Errorf("exit code %d, want %d", code, fault.UserSet)
	}
	for _, want := range []string{"-u", `"root"`, "start as root"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("stderr does not hold %q: %s", want, out)
		}
	}
}

// A directory locked by somebody else ends the start instead of hanging it.
func TestLockedDirectoryIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := daemon.ShortDir(t)
	held, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l", "unix:"+dir+"/s")
	if got.Code != fault.System || !strings.Contains(got.Stderr, "locking the directory "+dir) {
		t.Errorf("%+v", got)
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	daemon.Await(t, daemon.UnixCommand(dir+"/s"))
}

func TestSeveralAddresses(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	s := daemon.Serve(t, "-l", "localhost", "-l", "unix:"+path)
	if len(s.Listen) < 3 {
		t.Fatalf("listening on %q, want at least three addresses", s.Listen)
	}
	for _, addr := range s.Listen {
		if got := daemon.Ask(t, daemon.Dial(t, addr), "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
			t.Errorf("%s: reply %q", addr, got)
		}
	}
}
