package process

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/internal/release"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/binlog"
)

// refused is a start that must fail, with the reference's exit code where the
// reference knows the flag.
type refused struct {
	name string
	args []string
	env  []string
	code int
	says []string // what the one line on stderr must hold: flag, value, remedy
	ours bool     // not for the reference: it has no such flag, or accepts it
}

func refusals(t *testing.T) []refused {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	_, port, _ := net.SplitHostPort(taken.Addr().String())

	inUse := t.TempDir()
	lock, err := binlog.Lock(inUse)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Unlock() })
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "journal.0000000001"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}

	return []refused{
		{name: "unknown letter", args: []string{"-x"}, code: 5, says: []string{"-x", "polystalkd -h"}},
		{name: "unknown letter in a group", args: []string{"-Vx"}, code: 5, says: []string{"-x"}},
		{name: "unknown letter before -v", args: []string{"-xv"}, code: 5, says: []string{"-x"}},
		{name: "unknown long flag", args: []string{"--frobnicate=1"}, code: 5, says: []string{"--frobnicate", "polystalkd -h"}},
		{name: "argument", args: []string{"extra"}, code: 5, says: []string{`"extra"`, "polystalkd -h"}},
		{name: "argument behind flags", args: []string{"-p", "0", "extra"}, code: 5, says: []string{`"extra"`}},
		{name: "lone dash", args: []string{"-"}, code: 5, says: []string{`"-"`}},
		{name: "empty argument", args: []string{""}, code: 5, says: []string{`""`}},

		{name: "connection memory of letters", args: []string{"--connection-memory", "much"}, code: 5, says: []string{"--connection-memory", `"much"`, "bytes"}, ours: true},
		{name: "connection memory below zero", env: []string{"POLYSTALKD_CONNECTION_MEMORY=-1"}, code: 5, says: []string{"POLYSTALKD_CONNECTION_MEMORY", `"-1"`, "bytes"}, ours: true},
		{name: "size of letters", args: []string{"-z", "abc"}, code: 5, says: []string{"-z", `"abc"`, "bytes"}},
		{name: "size with a unit", args: []string{"-z12k"}, code: 5, says: []string{"-z", `"12k"`, "bytes"}},
		{name: "empty size", args: []string{"-z", ""}, code: 5, says: []string{"-z", `""`, "bytes"}},
		{name: "no size", args: []string{"-z"}, code: 5, says: []string{"-z", "BYTES"}},
		{name: "no address", args: []string{"-l"}, code: 5, says: []string{"-l", "ADDR"}},
		{name: "no port", args: []string{"-p"}, code: 5, says: []string{"-p", "PORT"}},
		{name: "no user", args: []string{"-u"}, code: 5, says: []string{"-u", "USER"}},
		{name: "no directory", args: []string{"-b"}, code: 5, says: []string{"-b", "DIR"}},
		{name: "fsync of letters", args: []string{"-f", "soon"}, code: 5, says: []string{"-f", `"soon"`, "milliseconds"}},
		{name: "fsync below zero", args: []string{"-f-1"}, code: 5, says: []string{"-f", `"-1"`, "milliseconds"}, ours: true},
		{name: "binlog size of letters", args: []string{"-s", "big"}, code: 5, says: []string{"-s", `"big"`, "bytes"}},
		{name: "binlog size below zero", args: []string{"-s-1"}, code: 5, says: []string{"-s", `"-1"`, "bytes"}, ours: true},

		{name: "port of letters", args: []string{"-p", "abc"}, code: 111, says: []string{"-p", `"abc"`, "65535"}},
		{name: "port with a tail", args: []string{"-p11300x"}, code: 111, says: []string{"-p", `"11300x"`, "65535"}},
		{name: "port below zero", args: []string{"-p", "-1"}, code: 111, says: []string{"-p", `"-1"`, "65535"}},
		{name: "port too large", args: []string{"-p", "70000"}, code: 111, says: []string{"-p", `"70000"`, "65535"}, ours: true},
		{name: "port taken", args: []string{"-l", "127.0.0.1", "-p", port}, code: 111, says: []string{"-p", port, "127.0.0.1", "in use", "another port"}},
		{name: "empty address", args: []string{"-l", ""}, code: 111, says: []string{"-l", "address"}},
		{name: "unknown host", args: []string{"-l", "no-such-host.invalid"}, code: 111, says: []string{"-l", `"no-such-host.invalid"`, "-l 0.0.0.0"}},
		{name: "not our address", args: []string{"-l", "192.0.2.1"}, code: 111, says: []string{"-l", `"192.0.2.1"`, "-l 0.0.0.0"}},
		{name: "port in the address", args: []string{"-l", "127.0.0.1:11300"}, code: 111, says: []string{"-l", `"127.0.0.1:11300"`, "-p 11300"}},
		{name: "one address of two", args: []string{"-l", "127.0.0.1", "-p0", "-l", "192.0.2.1"}, code: 111, says: []string{"-l", `"192.0.2.1"`}},
		{name: "unix path empty", args: []string{"-l", "unix:"}, code: 111, says: []string{"-l", `"unix:"`, "path"}, ours: true},
		{name: "unix path too long", args: []string{"-l", "unix:/" + strings.Repeat("x", 200)}, code: 111, says: []string{"-l", "201", "shorter"}},
		{name: "unix path a directory", args: []string{"-l", "unix:" + dir}, code: 111, says: []string{"-l", dir, "directory", "name a file"}},
		{name: "unix path a file", args: []string{"-l", "unix:" + file}, code: 111, says: []string{"-l", file, "regular file", "another path"}},
		{name: "unix path below nothing", args: []string{"-l", "unix:" + dir + "/no/s"}, code: 111, says: []string{"-l", dir + "/no/s", "directory"}},

		{name: "unknown user", args: []string{"-l127.0.0.1", "-p0", "-u", "no-such-user"}, code: 33, says: []string{"-u", `"no-such-user"`, "account"}},
		{name: "journal", args: []string{"-p0", "-b", filepath.Join(dir, "missing")}, code: 10, says: []string{"-b", "missing", "no such file or directory"}},
		{name: "journal in use", args: []string{"-p0", "-b", inUse}, code: 10, says: []string{"-b", inUse, "in use"}},
		{name: "journal damaged", args: []string{"-p0", "-b", damaged}, code: 10, says: []string{"-b", "journal.0000000001", "offset 0", "journal salvage"}, ours: true},
		{name: "journal without a name", args: []string{"-p0", "-b", ""}, code: 10, says: []string{"-b", "directory"}, ours: true},

		{name: "loops of letters", args: []string{"--loops", "many"}, code: 5, says: []string{"--loops", `"many"`, "number"}, ours: true},
		{name: "loops below zero", args: []string{"--loops=-1"}, code: 5, says: []string{"--loops", "-1", "one per core"}, ours: true},
		{name: "loops beyond the limit", args: []string{"--loops=1025"}, code: 5, says: []string{"--loops", "1025", "1024"}, ours: true},
		{name: "shards not a power of two", args: []string{"--shards", "6"}, code: 5, says: []string{"--shards", "6", "power of two"}, ours: true},
		{name: "shards beyond the limit", args: []string{"--shards", "8192"}, code: 5, says: []string{"--shards", "8192", "4096"}, ours: true},
		{name: "connections below zero", args: []string{"--max-connections", "-5"}, code: 5, says: []string{"--max-connections", "-5", "0"}, ours: true},
		{name: "log level", args: []string{"--log-level", "loud"}, code: 5, says: []string{"--log-level", `"loud"`, "debug, info, warn or error"}, ours: true},
		{name: "log format", args: []string{"--log-format", "xml"}, code: 5, says: []string{"--log-format", `"xml"`, "text or json"}, ours: true},

		{name: "variable with a bad size", env: []string{"POLYSTALKD_MAX_JOB_SIZE=big"}, code: 5, says: []string{"POLYSTALKD_MAX_JOB_SIZE", `"big"`, "bytes"}, ours: true},
		{name: "variable with a bad number", env: []string{"POLYSTALKD_SHARDS=x"}, code: 5, says: []string{"POLYSTALKD_SHARDS", `"x"`, "number"}, ours: true},
		{name: "variable out of range", env: []string{"POLYSTALKD_SHARDS=6"}, code: 5, says: []string{"POLYSTALKD_SHARDS", "6", "power of two"}, ours: true},
		{name: "variable with a bad choice", env: []string{"POLYSTALKD_NO_FSYNC=perhaps"}, code: 5, says: []string{"POLYSTALKD_NO_FSYNC", `"perhaps"`, "true or false"}, ours: true},
		{name: "variable with a bad port", env: []string{"POLYSTALKD_PORT=abc"}, code: 111, says: []string{"POLYSTALKD_PORT", `"abc"`, "65535"}, ours: true},
		{name: "variable with a bad address", env: []string{"POLYSTALKD_LISTEN=127.0.0.1,unix:" + file, "POLYSTALKD_PORT=0"}, code: 111, says: []string{"POLYSTALKD_LISTEN", file, "regular file"}, ours: true},
		{name: "variable with a directory", env: []string{"POLYSTALKD_PORT=0", "POLYSTALKD_BINLOG_DIR=" + inUse}, code: 10, says: []string{"POLYSTALKD_BINLOG_DIR", inUse, "in use"}, ours: true},
		{name: "variable with a bad user", env: []string{"POLYSTALKD_USER=no-such-user"}, code: 33, says: []string{"POLYSTALKD_USER", "no-such-user"}, ours: true},
	}
}

func TestRefusalsNameFlagValueAndRemedy(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, r := range refusals(t) {
		t.Run(r.name, func(t *testing.T) {
			got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(r.env...), r.args...)
			if got.Code != r.code {
				t.Errorf("exit code %d, want %d", got.Code, r.code)
			}
			if got.Stdout != "" {
				t.Errorf("stdout: %q", got.Stdout)
			}
			if strings.Count(got.Stderr, "\n") != 1 || !strings.HasPrefix(got.Stderr, "polystalkd: ") {
				t.Errorf("stderr is not one line of ours: %q", got.Stderr)
			}
			for _, want := range r.says {
				if !strings.Contains(got.Stderr, want) {
					t.Errorf("stderr does not hold %q: %s", want, got.Stderr)
				}
			}
		})
	}
}

func TestExitCodesOfTheInstalledReference(t *testing.T) {
	reference, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("beanstalkd is not installed")
	}
	for _, r := range refusals(t) {
		if r.ours {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			if got := daemon.RunToEnd(t, reference, daemon.CleanEnv(), r.args...); got.Code != r.code {
				t.Errorf("exit code %d, ours is %d; stderr: %s", got.Code, r.code, got.Stderr)
			}
		})
	}
}

func TestVersionAndHelpGoToStdout(t *testing.T) {
	for _, args := range [][]string{{"-v"}, {"--version"}, {"-vx"}, {"-p0", "-v"}, {"version"}, {"-p0", "version"}} {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), args...)
		if got.Code != 0 || got.Stderr != "" || !strings.HasPrefix(got.Stdout, "polystalkd "+release.Version+" (speaks beanstalkd 1.13)") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	for _, args := range [][]string{{"-h"}, {"--help"}, {"-Vh"}, {"help"}, {"help", "-V"}} {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), args...)
		if got.Code != 0 || got.Stderr != "" {
			t.Errorf("%q: %+v", args, got)
		}
		for _, flag := range []string{"-b", "-f", "-F", "-l", "-p", "-u", "-z", "-s", "-v", "-V", "-h", "--loops", "--shards", "--max-connections", "--connection-memory", "--log-level", "--log-format"} {
			if !strings.Contains(got.Stdout, " "+flag+",") && !strings.Contains(got.Stdout, " "+flag+" ") {
				t.Errorf("%q does not explain %s", args, flag)
			}
		}
		if !strings.Contains(got.Stdout, "-V, --verbose   ") {
			t.Errorf("%q has a value for -V: %s", args, got.Stdout)
		}
	}
	for _, args := range [][]string{{"version", "help"}, {"versions"}, {"help", "gearman"}, {"gearmand", "help", "me"}, {""}} {
		if got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), args...); got.Code == 0 || got.Stdout != "" || !strings.Contains(got.Stderr, "unknown argument") {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestSettingsReachTheServer(t *testing.T) {
	s := daemon.Serve(t, "-z4096", "-s", "8192", "--loops", "1", "--shards=4")
	if s.Loops != 1 || s.Shards != 4 {
		t.Errorf("start line: %d loops and %d shards, want 1 and 4", s.Loops, s.Shards)
	}
	got := daemon.Stats(t, s.Listen[0])
	for key, want := range map[string]string{"max-job-size": "4096", "binlog-max-size": "8192", "version": "1.13.0+polystalk." + release.Version} {
		if got[key] != want {
			t.Errorf("stats %s: %s, want %s", key, got[key], want)
		}
	}
}

func TestLevelsAndFormats(t *testing.T) {
	quiet := exec.Command(daemon.Binary, "-l", "127.0.0.1", "-p", "0", "--log-level", "error", "-c")
	quiet.Env = daemon.CleanEnv()
	var stderr bytes.Buffer
	quiet.Stderr = &stderr
	notify := daemon.NotifySocket(t)
	quiet.Env = append(quiet.Env, "NOTIFY_SOCKET="+notify.LocalAddr().String())
	if err := quiet.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { quiet.Process.Kill() })
	daemon.ReadState(t, notify)
	quiet.Process.Signal(syscall.SIGTERM)
	if err := quiet.Wait(); err != nil {
		t.Error(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("at level error: %s", &stderr)
	}

	s := daemon.Serve(t, "--log-level", "error", "-VV")
	if s.WaitLog("serving")["level"] != "INFO" {
		t.Error("-VV did not bring error down to info")
	}
}
