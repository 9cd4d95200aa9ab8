package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// TestErrorsOfTwoFilesEndTheStart: all faults with their lines, and the code of the first one.
func TestErrorsOfTwoFilesEndTheStart(t *testing.T) {
	path := confFile(t, "port = 0\nmax-jobs-size = 5\n")
	write(t, path+".d/10.toml", "\nlog-level = \"loud\"\n")
	want := "polystalkd: file " + path + ":2: unknown key \"max-jobs-size\": write max-job-size, or leave it out\n    max-jobs-size = 5\n" +
		"polystalkd: file " + path + ".d/10.toml:2: unknown level \"loud\": give debug, info, warn or error\n    log-level = \"loud\"\n"
	for _, args := range [][]string{nil, {"--check-args"}, {"--check-config"}, {"--check-config=print"}} {
		if got := run(t, nil, append(args, "--config", path)...); got.Code != fault.Usage || got.Stderr != want || got.Stdout != "" {
			t.Errorf("%q: %+v\nwant %s", args, got, want)
		}
	}
	if got := run(t, []string{"POLYSTALKD_CONFIG=" + path}); got.Stderr != want {
		t.Errorf("by variable: %+v", got)
	}
	// A fault that only the system finds also has a line.
	path = confFile(t, "\nuser = \"no-such-user\"\nport = 0\n")
	wants(t, run(t, nil, "--config", path), fault.NoUser, "file "+path+":2: there is no user", "\n    user = \"no-such-user\"\n")
}

// TestCheckConfigGoesFurther than --check-args: it reports everything at once, and looks up names.
// Its code is 0 or 5, in place of gearmand as well.
func TestCheckConfigGoesFurther(t *testing.T) {
	path := confFile(t, "user = \"no-such-user\"\nbinlog-dir = \"/no/such/dir\"\nlisten = [\"no-such-host.invalid\"]\nshards = 6\n")
	if got := run(t, nil, "--check-config", "--config", path); got.Code != fault.Usage || strings.Count(got.Stderr, "polystalkd: file "+path) != 4 {
		t.Errorf("%+v", got)
	}
	if got := run(t, nil, "gearmand", "--config-file", os.DevNull, "--check-config", "-L", "no-such-host.invalid", "--journal", "/no/such/dir"); got.Code != fault.Usage || strings.Count(got.Stderr, "\n") != 2 {
		t.Errorf("in place of gearmand: %+v", got)
	}
	wants(t, run(t, nil, "--check-config=prnt"), fault.Usage, "give print, or nothing")
	path = confFile(t, "max-job-size = 1234\n")
	if got := run(t, nil, "--check-config=print", "--config", path); got.Code != 0 || got.Stderr != "" || !strings.Contains(got.Stdout, "# file "+path+":1\n") {
		t.Errorf("%+v", got)
	}
}

// TestSettingsReachTheServer: flags precede variables, and variables precede files.
func TestSettingsReachTheServer(t *testing.T) {
	path := confFile(t, "listen = [\"127.0.0.1\"]\nport = 0\nlog-level = \"error\"\nmax-job-size = 10\nshards = 16\nloops = 2\n")
	write(t, path+".d/x.toml", "max-job-size = 4096\n")
	cmd := daemon.Command("--config", filepath.Base(path), "--loops", "1", "-s", "8192", "-VV")
	cmd.Dir, cmd.Env = filepath.Dir(path), append(cmd.Env, "POLYSTALKD_SHARDS=4", "POLYSTALKD_LISTENS=x", "POLYSTALKD_SERVICE_HOST=10.0.0.1", "POLYSTALKD_CHECK_ARGS=true")
	s := daemon.Await(t, cmd)
	if s.Loops != 1 || s.Shards != 4 || logged(t, s, "serving")["level"] != "INFO" {
		t.Errorf("%d loops, %d shards, or -VV did not bring error down to info", s.Loops, s.Shards)
	}
	stat(t, s, "max-job-size", "4096")
	stat(t, s, "binlog-max-size", "8192")
	stat(t, s, "version", "1.13.0+polystalk."+program.Version)
	if logs(t, s, "variable POLYSTALKD_LISTENS is unknown"); s.LogHas("SERVICE_HOST") {
		t.Errorf("log: %s", s.LogText())
	}
	quiet := silent(t)
	quiet.Signal(syscall.SIGTERM)
	if quiet.EndsWith(0); quiet.LogText() != "" {
		t.Errorf("at level error: %s", quiet.LogText())
	}
}

// silent returns a server that logs only errors, so no start line.
func silent(t *testing.T) *daemon.Server {
	t.Helper()
	notify := daemon.NotifySocket(t)
	cmd := daemon.Command("-l", "127.0.0.1", "-p", "0", "--log-level", "error", "-c")
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+notify.LocalAddr().String())
	s := daemon.Launch(t, cmd)
	state(t, notify, "READY=1")
	return s
}

// TestStartLineNamesTheSettings: the most important settings, from any source.
func TestStartLineNamesTheSettings(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ args, want string }{
		{"--max-connections 7", "journal=none fsync=<nil> segment-size=<nil> max-job-size=65535 max-connections=7 max-connections-from=--max-connections"},
		{"-b " + dir, "journal=" + dir + " fsync=before answering segment-size=1.048576e+07 max-job-size=65535"},
		{"-b " + dir + " -f 50 -s 1 -z 100", "fsync=within 50ms segment-size=262144 max-job-size=100"},
		{"-b " + dir + " -F", "fsync=left to the kernel"},
	} {
		s := daemon.Serve(t, strings.Fields(tt.args)...)
		line := logged(t, s, "serving")
		var got []string
		for _, key := range []string{"journal", "fsync", "segment-size", "max-job-size", "max-connections", "max-connections-from"} {
			got = append(got, fmt.Sprint(key, "=", line[key]))
		}
		if all := strings.Join(got, " "); !strings.Contains(all, tt.want) || len(s.Listen) != 1 {
			t.Errorf("%s: the log says %s", tt.args, all)
		}
		s.Crash()
	}
	s, _ := daemon.GearmandWith(t, "-f", "100", "--gearman-max-body", "99", "--gearman-shutdown", "none")
	if line := logged(t, s, "serving"); line["max-connections"].(float64) > 69 || line["max-connections-from"] != "the limit of 100 descriptors" || line["journal"] != "none" {
		t.Errorf("the log says %v", line)
	}
	if line := logged(t, s, "serving Gearman"); line["prefix"] != "H:x" || line["max-body"] != 99.0 || line["max-unread"] != 198.0 || line["shutdown"] != "none" {
		t.Errorf("the log says %v", line)
	}
}

// reload makes the server read its files again, and waits for the end of the reload.
func reload(t *testing.T, s *daemon.Server, notify *net.UnixConn) {
	t.Helper()
	s.Signal(syscall.SIGHUP)
	began := daemon.ReadState(t, notify)
	stamp, ok := strings.CutPrefix(began, "RELOADING=1\nMONOTONIC_USEC=")
	if n, err := strconv.ParseInt(strings.TrimSpace(stamp), 10, 64); !ok || err != nil || n <= 0 {
		t.Errorf("state %q, want RELOADING=1 and the time", began)
	}
	state(t, notify, "READY=1")
}

// TestBrokenFileChangesNothing: valid settings in it do not apply either. The log has file, line
// and remedy of every fault.
func TestBrokenFileChangesNothing(t *testing.T) {
	path := confFile(t, "max-job-size = 1000\n")
	s, notify := notified(t, nil, "--config", path)
	conn := daemon.Dial(t, s.Listen[0])
	daemon.Says(t, conn, "nonsense\r\n", "UNKNOWN_COMMAND\r\n")
	write(t, path, "max-job-size = 5\nlog-level = \"error\"\nloops = true\n")
	write(t, path+".d/a.toml", "shards = 6\nprot = 1\n")
	reload(t, s, notify)
	if logged(t, s, "nothing was changed: the old configuration stays in effect")["errors"] != 3.0 {
		t.Error("there are not three errors")
	}
	logs(t, s, path+":3: loops has a value of the wrong type: give a whole number", `"line":"loops = true"`,
		path+".d/a.toml:1: 6 is not a power of two", path+".d/a.toml:2: unknown key", "write port, or leave it out")
	stat(t, s, "max-job-size", "1000")
	must(t, os.Remove(path))
	reload(t, s, notify)
	logs(t, s, "no such file")
	// The old connection is still served, and a corrected file is read.
	write(t, path, "max-job-size = 7\n")
	write(t, path+".d/a.toml", "")
	reload(t, s, notify)
	daemon.Says(t, conn, "put 0 0 9 8\r\n12345678\r\n", "JOB_TOO_BIG\r\n")
}

// TestFilesThatTheUserMayNotReadChangeNothing: a server that starts as root and switches to another
// user reads the files as that user later.
func TestFilesThatTheUserMayNotReadChangeNothing(t *testing.T) {
	path := confFile(t, "max-job-size = 10\n")
	dir, args := path+".d", []string{"--config", path}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "nobody")
	}
	s := daemon.Serve(t, args...)
	write(t, path, "max-job-size = 20\n")
	write(t, filepath.Join(dir, "a.toml"), "")
	must(t, errors.Join(os.Chmod(path, 0), os.Chmod(dir, 0)))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // or it cannot be removed
	s.Signal(syscall.SIGHUP)
	logs(t, s, "file "+path+": it cannot be read (permission denied): give a file that this user may read",
		"file "+dir+": its files cannot be listed (permission denied): let this user read the directory", "nothing was changed")
	stat(t, s, "max-job-size", "10")
}

// TestReloadAppliesWhatItCan, and logs the settings that need a restart. Defaults that depend on
// the machine count as unchanged.
func TestReloadAppliesWhatItCan(t *testing.T) {
	path := confFile(t, "")
	s, notify := notified(t, nil, "--config", path, "--gearman-wakeup", "3", "-b", t.TempDir())
	reload(t, s, notify)
	logs(t, s, `"applied":0,"need-restart":0`)
	write(t, path, "max-job-size = 5\nlog-level = \"warn\"\nshards = 1024\nuser = \"x\"\nport = 1\ngearman-wakeup = 9\n")
	reload(t, s, notify)
	stat(t, s, "max-job-size", "5")
	logs(t, s, `"msg":"setting needs a restart","key":"shards"`, `"wanted":"1024","origin":"file `+path+`:3"`, `"key":"user","running":"not set","wanted":"x"`)
	if log := s.LogText(); strings.Count(log, "needs a restart") != 2 || strings.Contains(log, `"setting applied"`) {
		t.Error("the log says more, or at a level that was left")
	}
	// Settings that needed a restart still need it; applied ones are not logged again. Removed
	// values get their defaults.
	write(t, path, "shards = 1024\nlog-level = \"info\"\n")
	reload(t, s, notify)
	logs(t, s, `"key":"max-job-size","from":"5","to":"65535","origin":"default"`, `"applied":2,"need-restart":1`)
	stat(t, s, "max-job-size", "65535")
}

// TestReloadInPlaceOfGearmand: the log is opened again and the file is read again, whatever the
// daemon's working directory is.
func TestReloadInPlaceOfGearmand(t *testing.T) {
	dir := t.TempDir()
	conf, log := filepath.Join(dir, "g.toml"), filepath.Join(dir, "log")
	write(t, conf, "gearman-max-body = 1000\n")
	d, _ := detach(t, dir, "-l", "log", "--config", "g.toml")
	write(t, conf, "gearman-max-body = 5\nverbose = \"DEBUG\"\n")
	must(t, os.Rename(log, log+".1"))
	must(t, syscall.Kill(d.pid, syscall.SIGHUP))
	awaitFile(t, log, "applied=2 need-restart=0")
	daemon.Says(t, daemon.Dial(t, d.address), "verbose\n", "OK DEBUG\n")
}
