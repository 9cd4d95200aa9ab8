package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

func listenUnix(t *testing.T) (l *net.UnixListener, path string) {
	t.Helper()
	path = filepath.Join(daemon.ShortDir(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l, path
}

// leaveSocket makes a unix socket at path without a listener.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	must(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
}

// TestUnixPathOfSomethingElseIsRefused: the file at the path stays the same.
func TestUnixPathOfSomethingElseIsRefused(t *testing.T) {
	dir := daemon.ShortDir(t)
	for says, occupy := range map[string]func(path string){
		"directory":     func(path string) { must(t, os.MkdirAll(path+"/leaf", 0o755)) },
		"regular file":  func(path string) { write(t, path, "precious") },
		"not a socket":  func(path string) { must(t, syscall.Mkfifo(path, 0o600)) },
		"symbolic link": func(path string) { leaveSocket(t, path+".t"); must(t, os.Symlink(path+".t", path)) },
		"in use: stop it, or choose another path": func(path string) { daemon.Await(t, daemon.Command("-l", "unix:"+path)) },
		"may be in use": func(path string) {
			conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
			must(t, err)
			t.Cleanup(func() { conn.Close() })
		},
		"another user: 54321: remove it yourself": func(path string) {
			leaveSocket(t, path)
			if err := os.Chown(path, 54321, 54321); err != nil {
				t.Skip("giving a file away takes root")
			}
		},
	} {
		t.Run(says, func(t *testing.T) {
			path := filepath.Join(dir, says[:7])
			occupy(path)
			before, err := os.Lstat(path)
			must(t, err)
			wants(t, run(t, nil, "-l", "unix:"+path), fault.System, append(strings.Split(says, ": "), "-l", path)...)
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || before.Size() != after.Size() {
				t.Errorf("the file is another: %v", err)
			}
		})
	}
}

// TestUnixSocketsComeAndGo: a dead socket is replaced. The server removes its own file when it ends
// or fails to start, and no other file.
func TestUnixSocketsComeAndGo(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	gone := func(want bool) {
		t.Helper()
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) != want {
			t.Errorf("the socket file: %v", err)
		}
	}
	start := func() *daemon.Server {
		s := daemon.Await(t, daemon.Command("-l", "unix:"+path))
		answers(t, s.Listen[0])
		return s
	}
	start().Crash()
	gone(false)
	ends(t, start(), syscall.SIGTERM)
	gone(true)
	wants(t, run(t, nil, "-l", "unix:"+path, "-l", "192.0.2.1", "-p", "0"), fault.System)
	gone(true)
	s := start()
	must(t, os.Remove(path))
	leaveSocket(t, path) // as a second server would after cleaning up by hand
	ends(t, s, syscall.SIGTERM)
	gone(false)

	for _, name := range []string{"plain", "@at"} { // relative and odd
		cmd := daemon.Command("-l", "unix:"+name)
		cmd.Dir = filepath.Dir(path)
		daemon.Await(t, cmd)
		if info, err := os.Lstat(filepath.Join(cmd.Dir, name)); err != nil || info.Mode()&os.ModeSocket == 0 {
			t.Errorf("%s: no socket file: %v", name, err)
		}
	}
}

// TestOneOfManyStartsGetsTheUnixSocket: when several servers start at once on a dead socket, one
// gets it, and no other takes the path away from it.
func TestOneOfManyStartsGetsTheUnixSocket(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	for range 5 {
		leaveSocket(t, path)
		var started, winners []*daemon.Server
		for range 4 {
			started = append(started, daemon.Launch(t, daemon.Command("-l", "unix:"+path)))
		}
		for _, s := range started {
			if s.Serves() {
				winners = append(winners, s)
			}
		}
		if len(winners) != 1 {
			t.Fatalf("%d servers say that they serve, want 1", len(winners))
		}
		stat(t, winners[0], "pid", strconv.Itoa(winners[0].Cmd.Process.Pid))
		ends(t, winners[0], syscall.SIGTERM)
	}
}

// TestLockedDirectoryIsNamed: a directory that another process locks ends the start instead of
// blocking it.
func TestLockedDirectoryIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := daemon.ShortDir(t)
	held, err := os.Open(dir)
	must(t, err)
	defer held.Close()
	must(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	wants(t, run(t, nil, "-l", "unix:"+dir+"/s"), fault.System, "locking the directory "+dir)
	must(t, syscall.Flock(int(held.Fd()), syscall.LOCK_UN))
	daemon.Await(t, daemon.Command("-l", "unix:"+dir+"/s"))
}

func TestServerBecomesTheUser(t *testing.T) {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("becoming another user takes root, and checking it Linux's /proc")
	}
	account, err := user.Lookup("nobody")
	must(t, err)
	groups, err := account.GroupIds()
	must(t, err)
	slices.Sort(groups)
	want := map[string][]string{"Uid": {account.Uid}, "Gid": {account.Gid}, "Groups": groups}
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
		must(t, err)
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			ids := strings.Fields(value)
			slices.Sort(ids)
			if wanted, ok := want[key]; ok && !slices.Equal(slices.Compact(ids), wanted) {
				t.Errorf("%s: %s %q, want %q", file, key, ids, wanted)
			}
		}
	}
	answers(t, s.Listen[0])
}

func TestBecomingAUserWithoutTheRightFails(t *testing.T) {
	cmd := daemon.Command("-l", "127.0.0.1", "-p0", "-u", "root")
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Path = filepath.Join(daemon.PublicDir(t), "polystalkd")
		data, err := os.ReadFile(daemon.Binary)
		must(t, err)
		must(t, os.WriteFile(cmd.Path, data, 0o755))
	}
	s := daemon.Launch(t, cmd)
	s.EndsWith(fault.UserSet)
	logs(t, s, "-u", "root", "start as root")
}

// TestSeveralAddresses: each is served; one that is given twice is opened once.
func TestSeveralAddresses(t *testing.T) {
	path := "unix:" + filepath.Join(daemon.ShortDir(t), "s")
	s := daemon.Await(t, daemon.Command("-p", freePort(t), "-l", path, "-l", "localhost", "-l", path))
	if len(s.Listen) < 2 {
		t.Fatalf("listening on %q", s.Listen)
	}
	answers(t, s.Listen...)
	logs(t, s, "was given twice; it is opened once")
}

// TestOurOwnListenerInTheWay: there is no other server to stop.
func TestOurOwnListenerInTheWay(t *testing.T) {
	p := freePort(t)
	for _, tt := range []struct{ args, says string }{
		{"-l 0.0.0.0 -l 127.0.0.1 -p " + p, `flag -l "127.0.0.1": 0.0.0.0:` + p + `|flag -l "0.0.0.0"`},
		{"-l 127.0.0.1 -l 0.0.0.0 -p " + p, `flag -l "0.0.0.0": 127.0.0.1:` + p + `|flag -l "127.0.0.1"`},
		{"-l 127.0.0.1 -l :: -p " + p, `flag -l "::": 127.0.0.1:` + p},
		{"-l 127.0.0.1 -p " + p + " --gearman-listen 127.0.0.1:" + p, `flag --gearman-listen "127.0.0.1:` + p + `|flag -l "127.0.0.1"`},
		{"gearmand -L 127.0.0.1 -p " + p + " --beanstalk-listen 127.0.0.1:" + p, `flag -L "127.0.0.1": 127.0.0.1:` + p + `|flag --beanstalk-listen`},
	} {
		got := run(t, nil, strings.Fields(tt.args)...)
		wants(t, got, got.Code, append(strings.Split(tt.says, "|"), "leave one of the two out")...)
		if got.Code == 0 || strings.Contains(got.Stderr, "stop the server") {
			t.Errorf("%s: %+v", tt.args, got)
		}
	}
}

// TestSignals: SIGTERM and SIGINT end the server with 0, SIGHUP without files changes nothing,
// SIGUSR1 drains.
func TestSignals(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := daemon.Serve(t)
		idle := daemon.Dial(t, s.Listen[0])
		answers(t, s.Listen[0])
		ends(t, s, sig)
		if _, err := idle.Read(make([]byte, 1)); err == nil {
			t.Error("the connection got data, want it closed")
		}
		if conn, err := net.Dial("tcp", s.Listen[0]); err == nil {
			conn.Close()
			t.Error("the port still accepts connections")
		}
	}
	s := daemon.Serve(t)
	s.Signal(syscall.SIGHUP)
	logged(t, s, "ignored: there is nothing to reload")
	stat(t, s, "draining", "false")
	s.Signal(syscall.SIGUSR1)
	logged(t, s, "draining: no new jobs are accepted")
	daemon.Says(t, daemon.Dial(t, s.Listen[0]), "put 0 0 10 1\r\nx\r\n", "DRAINING\r\n")
	stat(t, s, "draining", "true")

	s, gear := daemon.GearmandWith(t, "-l", "stderr")
	s.Signal(syscall.SIGHUP)
	logged(t, s, "ignored: there is no log file to open again")
	daemon.Says(t, daemon.Dial(t, gear), "maxqueue f\n", "OK\r\n")
}
