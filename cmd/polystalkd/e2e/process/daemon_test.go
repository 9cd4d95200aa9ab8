package process

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// A detached is a gearmand that runs as a daemon.
type detached struct {
	pid          int
	dir, address string // its files are below dir
}

// detach starts polystalkd as a daemon in dir, and ends it at the end of the test.
func detach(t *testing.T, dir string, args ...string) (d detached, stderr string) {
	t.Helper()
	port := freePort(t)
	d = detached{dir: dir, address: "127.0.0.1:" + port}
	cmd := exec.Command(daemon.Binary, append([]string{"gearmand", "--daemon", "-P", "pid", "--config-file", os.DevNull, "-L", "127.0.0.1", "-p", port}, args...)...)
	cmd.Dir, cmd.Env = dir, daemon.CleanEnv()
	out, err := cmd.CombinedOutput() // also waits until every process has closed stdout and stderr
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.pid = readPid(t, filepath.Join(dir, "pid"))
	t.Cleanup(func() { _ = syscall.Kill(d.pid, syscall.SIGKILL) }) // mostly gone
	return d, string(out)
}

// end ends the daemon, and waits until its port and its pid file are gone.
func (d *detached) end(t *testing.T) {
	t.Helper()
	must(t, syscall.Kill(d.pid, syscall.SIGTERM))
	await(t, func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "pid"))
		conn, dialErr := net.DialTimeout("tcp", d.address, daemon.Hang)
		if dialErr == nil {
			conn.Close()
		}
		return errors.Is(err, fs.ErrNotExist) && dialErr != nil
	}, "process %d goes on", d.pid)
}

// TestDaemonServesWhenItsParentEnds, and has all properties of a daemon.
func TestDaemonServesWhenItsParentEnds(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	must(t, os.Mkdir(filepath.Join(dir, "jobs"), 0o700))
	d, stderr := detach(t, dir, "-l", "log", "--journal", "jobs", "--job-handle-prefix", "H:x")
	if stderr != "" {
		t.Errorf("stderr: %s", stderr)
	}
	daemon.Says(t, daemon.Dial(t, d.address), "getpid\n", "OK "+strconv.Itoa(d.pid)+"\n")
	if sid, err := unix.Getsid(d.pid); err != nil || sid != d.pid {
		t.Errorf("it is in session %d, %v", sid, err)
	}
	if runtime.GOOS == "linux" {
		for name, want := range map[string]string{"cwd": "/", "fd/0": os.DevNull, "fd/1": os.DevNull, "fd/2": os.DevNull} {
			if got, err := os.Readlink("/proc/" + strconv.Itoa(d.pid) + "/" + name); err != nil || got != want {
				t.Errorf("%s is %s, %v; want %s", name, got, err, want)
			}
		}
	}
	awaitFile(t, log, "msg=serving ")
	d.end(t)
	awaitFile(t, log, "shutting down")
	if left, err := filepath.Glob(filepath.Join(dir, "jobs", "journal.*")); err != nil || len(left) == 0 {
		t.Errorf("no journal in the directory that was given: %v", err)
	}

	// Without a log file its stderr is closed.
	d, stderr = detach(t, dir)
	if !strings.Contains(stderr, "the log ends here") {
		t.Errorf("stderr: %s", stderr)
	}
	d.end(t)
}

// TestDaemonsStartErrorsAreSeen: by exit code, on stderr and in the log file, although they occur
// after the daemon has detached.
func TestDaemonsStartErrorsAreSeen(t *testing.T) {
	dir := t.TempDir()
	damaged, log := filepath.Join(dir, "damaged"), filepath.Join(dir, "log")
	write(t, filepath.Join(damaged, "journal.0000000001"), "precious")
	for args, says := range map[string]string{
		"-l none -p " + takenPort(t): "in use", "-p 0 --journal " + damaged + " -l " + log: "--journal", "-l none -p 0 -u no-such-user": "no-such-user",
	} {
		got := run(t, nil, append([]string{"gearmand", "-d", "-L", "127.0.0.1", "-P", dir + "/pid"}, strings.Fields(args)...)...)
		wants(t, got, fault.Gearmand, says)
		if _, err := os.Stat(dir + "/pid"); strings.Count(got.Stderr, "\n") != 1 || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %s, or a pid file is left behind: %v", args, got.Stderr, err)
		}
	}
	awaitFile(t, log, "the server has failed")
}

// TestPidFileOfAnotherStays: the file belongs to the server that has the port, or to a second
// server that replaced it. A file without a running server is replaced, whatever it contains.
func TestPidFileOfAnotherStays(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "pid"), t.TempDir()
	write(t, path, "12345678901234567890\n")
	s, _ := daemon.GearmandWith(t, "-P", path, "--journal", dir)
	pid := strconv.Itoa(s.Cmd.Process.Pid) + "\n"
	holds(t, path, pid)
	got := run(t, nil, "gearmand", "-L", "127.0.0.1", "-p", "0", "-P", path, "--journal", dir, "--config-file", os.DevNull)
	wants(t, got, fault.Gearmand, "in use by another server")
	holds(t, path, pid)
	write(t, path, "1\n")
	ends(t, s, syscall.SIGTERM)
	holds(t, path, "1\n")
}

// startGearmand starts polystalkd in place of gearmand with a log file. stderr gets the other
// output.
func startGearmand(t *testing.T, stderr io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	cmd := daemon.GearmandCommand(args...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd
}

// TestGearmandAsAUser: files that it writes while it runs belong to the account.
func TestGearmandAsAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	account, err := user.Lookup("nobody")
	must(t, err)
	uid, err := strconv.Atoi(account.Uid)
	must(t, err)
	dir := daemon.PublicDir(t)
	must(t, os.Chown(dir, uid, -1))
	log, pid := filepath.Join(dir, "log"), filepath.Join(dir, "pid")
	cmd := startGearmand(t, nil, "-u", "nobody", "-l", log, "-P", pid)
	awaitFile(t, log, `"msg":"serving"`)
	found, err := os.Stat(log)
	must(t, err)
	if owner := int(found.Sys().(*syscall.Stat_t).Uid); owner != uid {
		t.Errorf("the log belongs to %d, not to %d", owner, uid)
	}
	cmd.Process.Signal(syscall.SIGHUP)
	awaitFile(t, log, "the log file was opened again")
	cmd.Process.Signal(syscall.SIGTERM)
	must(t, cmd.Wait())
	if _, err := os.Stat(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the pid file is left behind: %v", err)
	}
}

// TestLogFileIsOpenedAgain. If that fails, the old file stays in use; links are not followed.
func TestLogFileIsOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, "of yesterday\n")
	write(t, path+".victim", "precious\n")
	var stderr bytes.Buffer
	cmd := startGearmand(t, &stderr, "-l", path)
	awaitFile(t, path, `"msg":"serving"`)
	again := func(old, file, says string, block func()) {
		t.Helper()
		must(t, os.Rename(path, path+old))
		block()
		cmd.Process.Signal(syscall.SIGHUP)
		awaitFile(t, path+file, says)
	}
	again(".1", "", "the log file was opened again", func() {})
	again(".2", ".2", "cannot be opened again", func() { must(t, os.Mkdir(path, 0o700)) })
	before, err := os.ReadFile(path + ".2")
	must(t, err)
	again(".3", ".2", "symbolic link", func() { must(t, os.Symlink(path+".victim", path)) })
	cmd.Process.Signal(syscall.SIGTERM)
	must(t, cmd.Wait())
	awaitFile(t, path+".2", "shutting down")
	holds(t, path+".victim", "precious\n")
	old, err := os.ReadFile(path + ".1")
	if err != nil || !strings.HasPrefix(string(old), "of yesterday\n") || strings.Contains(string(old), "shutting down") || len(before) == 0 {
		t.Errorf("the file that was moved away holds %q, %v", old, err)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr: %s", &stderr)
	}
}

// TestNoLinkIsFollowed: otherwise the owner of the directory of the PID file or of the log could
// make root write to any file. A pipe without a reader does not block.
func TestNoLinkIsFollowed(t *testing.T) {
	for flag, what := range map[string]string{"-P": "the process id", "-l": "the log"} {
		for says, occupy := range map[string]func(victim, path string) error{
			"symbolic link": os.Symlink, "second name": os.Link,
			"flag " + flag + ": " + what + " cannot be written (": func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
			"flag " + flag: func(victim, path string) error { return os.Symlink(victim+".new", path) }, // which points nowhere
		} {
			dir := t.TempDir()
			victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
			write(t, victim, "precious\n")
			must(t, occupy(victim, path))
			wants(t, run(t, nil, "gearmand", "-L", "127.0.0.1", "-p", "0", "--config-file", os.DevNull, flag, path), fault.Gearmand, "flag "+flag+": ", says)
			holds(t, victim, "precious\n")
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("%s %s: it is gone: %v", flag, says, err)
			}
			if _, err := os.Lstat(victim + ".new"); err == nil {
				t.Errorf("%s: a file was made behind the link", flag)
			}
		}
	}
	// Links in the path to the directory belong to the machine, such as /var/run.
	dir := t.TempDir()
	must(t, os.Symlink(dir, filepath.Join(dir, "d")))
	daemon.GearmandWith(t, "--pid-file", filepath.Join(dir, "d", "pid"), "--log-file", "stderr")
	readPid(t, filepath.Join(dir, "pid"))
}

// TestLogOnAPipe: a pipe of a container or a supervisor under each of its names, a named pipe with
// a reader, and no log.
func TestLogOnAPipe(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	for _, path := range []string{"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/stderr", fifo, "none"} {
		r, w, err := os.Pipe()
		must(t, err)
		from := r
		if path == fifo {
			from, err = os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			must(t, err)
		}
		notify := daemon.NotifySocket(t)
		cmd := daemon.GearmandCommand("-l", path)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(cmd.Env, "NOTIFY_SOCKET="+notify.LocalAddr().String()), w, w
		must(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill() })
		w.Close()
		state(t, notify, "READY=1")
		cmd.Process.Signal(syscall.SIGHUP)
		for daemon.ReadState(t, notify) != "READY=1" {
		}
		cmd.Process.Signal(syscall.SIGTERM)
		must(t, cmd.Wait())
		text, err := io.ReadAll(from)
		must(t, err)
		for _, want := range []string{`"msg":"serving"`, "opened again", "shutting down"} {
			if strings.Contains(string(text), want) != (path != "none") {
				t.Errorf("%s: the log is %s", path, text)
			}
		}
		r.Close()
	}
}
