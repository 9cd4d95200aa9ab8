// Package daemon runs the polystalkd of these sources for black-box tests, and talks to it through
// sockets, signals, its log and its exit code.
package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// Binary is the path of the polystalkd under test. Main sets it.
var Binary string

// Hang bounds each wait for the program: a test that reaches it has failed. ClientTime bounds a
// script of a client library.
const (
	Hang       = 20 * time.Second
	ClientTime = time.Minute
)

// Main is a package's TestMain: it builds the program, runs the tests and then calls after.
func Main(m *testing.M, after ...func()) {
	var err error
	if Binary, err = conversation.Program("polystalkd"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	for _, f := range after {
		f()
	}
	os.Exit(code)
}

// CLI returns the path of the operators' program, polystalk.
func CLI(t testing.TB) string {
	t.Helper()
	path, err := conversation.Program("polystalk")
	must(t, err)
	return path
}

// Program returns the program of the protocol tests: Binary, or $POLYSTALKD_BIN.
func Program(t *testing.T) string {
	t.Helper()
	if program := os.Getenv("POLYSTALKD_BIN"); program != "" {
		return program
	}
	return Binary
}

// Reference returns the installed beanstalkd and its version, or skips the test.
func Reference(t *testing.T) (program, version string) {
	t.Helper()
	program, version, err := conversation.Beanstalk.Reference()
	if err != nil {
		t.Skip(err)
	}
	return program, version
}

// Tool finds a required program, or skips the test.
func Tool(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s: install Debian's %s", name, pkg)
	}
	return path
}

// CleanEnv returns our environment without variables that would configure the program.
func CleanEnv(extra ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "POLYSTALKD_") || strings.HasPrefix(v, "GEARMAND_") || strings.HasPrefix(v, "LISTEN_") || strings.HasPrefix(v, "NOTIFY_SOCKET=")
	})
	return append(env, extra...)
}

// noteSources reads the program's sources once a test has begun. go test records that, and uses its
// cache only while they are unchanged.
var noteSources = sync.OnceFunc(func() {
	for _, folder := range []string{"cmd", "codec", "router", "shard"} {
		_ = filepath.WalkDir(filepath.Join("..", "..", "..", "..", folder), func(name string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".go") {
				_, _ = os.Stat(name)
			}
			return err
		})
	}
})

// An Outcome is the result of a run that ended by itself.
type Outcome struct {
	Code           int
	Stdout, Stderr string
}

// RunToEnd runs a program that must end by itself.
func RunToEnd(t *testing.T, program string, env []string, args ...string) Outcome {
	t.Helper()
	noteSources()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
	must(t, cmd.Start())
	timer := time.AfterFunc(Hang, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !timer.Stop() {
		t.Fatalf("%s %q did not end; stderr:\n%s", program, args, &stderr)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return Outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// ShortDir returns a directory with a path short enough for unix sockets.
func ShortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "ps")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// PublicDir returns a directory that every user may enter.
func PublicDir(t *testing.T) string {
	dir := ShortDir(t)
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// FreeAddress returns an address of this machine without a listener. The kernel does not give its
// port to other programs.
func FreeAddress(t *testing.T) string {
	t.Helper()
	port, err := conversation.FreePort()
	must(t, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
