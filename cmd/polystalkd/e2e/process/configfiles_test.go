// Package config tests configuration files from outside: at the start, in a check, and
// read again while the server serves.
package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// write writes a file, below directories that are made for it.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// confFile is a new file of a configuration.
func confFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.toml")
	write(t, path, text)
	return path
}

// run runs polystalkd to its end.
func run(t *testing.T, env []string, args ...string) daemon.Outcome {
	t.Helper()
	return daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(env...), args...)
}

// TestErrorsOfTwoFilesEndTheStart: all of them, each with its line, and the code of the
// first.
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
}

// TestWhatTheSystemRefusesNamesTheLine.
func TestWhatTheSystemRefusesNamesTheLine(t *testing.T) {
	path := confFile(t, "\nuser = \"no-such-user\"\nport = 0\n")
	if got := run(t, nil, "--config", path); got.Code != fault.NoUser || !strings.Contains(got.Stderr, "file "+path+":2: there is no user") || !strings.HasSuffix(got.Stderr, "\n    user = \"no-such-user\"\n") {
		t.Errorf("%+v", got)
	}
}

// TestCheckConfigGoesFurther than --check-args: it says all at once, and looks names up.
// Its code is 0 or 5, in place of gearmand as well.
func TestCheckConfigGoesFurther(t *testing.T) {
	path := confFile(t, "user = \"no-such-user\"\nbinlog-dir = \"/no/such/dir\"\nlisten = [\"no-such-host.invalid\"]\nshards = 6\n")
	got := run(t, nil, "--check-config", "--config", path)
	if got.Code != fault.Usage || strings.Count(got.Stderr, "polystalkd: file "+path) != 4 {
		t.Errorf("%+v", got)
	}
	if got := run(t, nil, "gearmand", "--config-file", os.DevNull, "--check-config", "-L", "no-such-host.invalid", "--journal", "/no/such/dir"); got.Code != fault.Usage || strings.Count(got.Stderr, "\n") != 2 {
		t.Errorf("in place of gearmand: %+v", got)
	}
	for _, args := range [][]string{{"-l", "localhost", "-p", "0"}, {"gearmand", "--config-file", os.DevNull, "-L", "localhost"}} {
		if got := run(t, nil, append(args, "--check-config")...); got != (daemon.Outcome{}) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if got := run(t, nil, "--check-config=prnt"); got.Code != fault.Usage || !strings.Contains(got.Stderr, "give print, or nothing") {
		t.Errorf("%+v", got)
	}
}

// TestPrintReadsBack as a configuration that prints the same.
func TestPrintReadsBack(t *testing.T) {
	path := confFile(t, "max-job-size = 1234\n")
	values := func(text string) (list []string) {
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, " # ")
			list = append(list, strings.TrimSpace(line))
		}
		return list
	}
	for _, args := range [][]string{{"-F", "-l", "::1", "-V", "--config", path}, {"gearmand", "--config-file", os.DevNull, "-b", "9", "--config", path}} {
		first := run(t, nil, append(args, "--check-config=print")...)
		if first.Code != 0 || first.Stderr != "" || !strings.Contains(first.Stdout, "# file "+path+":1\n") {
			t.Fatalf("%q: %+v", args, first)
		}
		again := []string{"--check-config=print", "--config", confFile(t, first.Stdout)}
		if args[0] == "gearmand" {
			again = append(slices.Clone(args[:3]), again...)
		}
		if second := run(t, nil, again...); second.Code != 0 || !slices.Equal(values(second.Stdout), values(first.Stdout)) {
			t.Errorf("%q: printed\n%s\nread back\n%s%s", args, first.Stdout, second.Stdout, second.Stderr)
		}
	}
}

// TestFilesConfigureTheServer, less than variables, and these less than flags.
func TestFilesConfigureTheServer(t *testing.T) {
	path := confFile(t, "listen = [\"127.0.0.1\"]\nport = 0\nlog-format = \"json\"\nmax-job-size = 10\nshards = 16\nloops = 2\n")
	write(t, path+".d/x.toml", "max-job-size = 4096\n")
	cmd := exec.Command(daemon.Binary, "--config", filepath.Base(path), "--loops", "1")
	cmd.Dir, cmd.Env = filepath.Dir(path), daemon.CleanEnv("POLYSTALKD_SHARDS=4")
	s := daemon.Await(t, cmd)
	if got := daemon.Stats(t, s.Listen[0])["max-job-size"]; s.Loops != 1 || s.Shards != 4 || got != "4096" {
		t.Errorf("%d loops, %d shards, jobs of %s bytes", s.Loops, s.Shards, got)
	}
}
