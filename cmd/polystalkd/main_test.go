package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/config"
)

// binary is the polystalkd under test, built once by TestMain.
var binary string

// hang bounds every wait for the program; a test that meets it has failed.
const hang = 20 * time.Second

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "polystalkd-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "polystalkd")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build has it
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building polystalkd: %v\n%s", err, out)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// cleanEnv is our environment without what would configure the program.
func cleanEnv(extra ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, config.EnvPrefix) || strings.HasPrefix(v, "GEARMAND_") || strings.HasPrefix(v, "LISTEN_") || strings.HasPrefix(v, "NOTIFY_SOCKET=")
	})
	return append(env, extra...)
}

// shortDir is a directory with a path short enough for unix sockets.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// outcome is how a run that ended by itself ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// runToEnd runs a program that is expected to end by itself.
func runToEnd(t *testing.T, program string, env []string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(hang, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !timer.Stop() {
		t.Fatalf("%s %q did not end; stderr:\n%s", program, args, &stderr)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// A server is a polystalkd that serves.
type server struct {
	t      *testing.T
	cmd    *exec.Cmd
	listen []string // addresses from its start line
	loops  int
	shards int

	mu   sync.Mutex
	log  strings.Builder
	grew *sync.Cond // log has another line, or is at its end
	eof  bool
	done chan struct{} // closed when the process is gone
}

// startServer runs cmd, a polystalkd with --log-format json, until it serves.
func startServer(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := launch(t, cmd)
	if !s.serves() {
		t.Fatalf("polystalkd ended instead of serving; stderr:\n%s", s.logText())
	}
	return s
}

// serveWith starts polystalkd on a free port of 127.0.0.1 with more flags.
func serveWith(t *testing.T, args ...string) *server {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"--log-format", "json", "-l", "127.0.0.1", "-p", "0"}, args...)...)
	cmd.Env = cleanEnv()
	return startServer(t, cmd)
}

// unixCommand is polystalkd on a unix socket only.
func unixCommand(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"--log-format", "json", "-l", "unix:" + path}, args...)...)
	cmd.Env = cleanEnv()
	return cmd
}

// launch starts cmd, a polystalkd with --log-format json.
func launch(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, cmd: cmd, done: make(chan struct{})}
	s.grew = sync.NewCond(&s.mu)
	go func() {
		r := bufio.NewReader(stderr)
		for {
			text, err := r.ReadString('\n')
			s.mu.Lock()
			s.log.WriteString(text)
			s.eof = err != nil
			s.grew.Broadcast()
			s.mu.Unlock()
			if err != nil {
				break
			}
		}
		cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-s.done
		if t.Failed() {
			t.Logf("log of polystalkd:\n%s", s.logText())
		}
	})
	return s
}

// serves waits for the start line and reads it; false: the process ended first.
func (s *server) serves() bool {
	s.t.Helper()
	line := s.waitLog("serving")
	if line == nil {
		return false
	}
	listen, _ := line["listen"].([]any) // without beanstalkd's protocol there is none
	for _, a := range listen {
		s.listen = append(s.listen, a.(string))
	}
	s.loops, s.shards = int(line["loops"].(float64)), int(line["shards"].(float64))
	return true
}

func (s *server) logText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// waitLog waits for a line with that msg and returns it, or nil if the log
// ended without one.
func (s *server) waitLog(msg string) map[string]any {
	s.t.Helper()
	timer := time.AfterFunc(hang, func() { s.cmd.Process.Kill() })
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for text := range strings.Lines(s.log.String()) {
			var line map[string]any
			if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == msg {
				return line
			}
		}
		if s.eof {
			return nil
		}
		s.grew.Wait()
	}
}

// signal sends sig to the process.
func (s *server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the process and returns its exit code, -1 for a signal.
func (s *server) end() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(hang):
		s.t.Fatal("polystalkd did not end")
	}
	return s.cmd.ProcessState.ExitCode()
}

// dial connects to one of the server's addresses as its log names them.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	conn, err := net.DialTimeout(network, addr, hang)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(hang))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends a command and returns the first line of the reply.
func ask(t *testing.T, conn net.Conn, command string) string {
	t.Helper()
	if _, err := io.WriteString(conn, command); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatalf("reply to %q: %q, %v", command, line, err)
	}
	return strings.TrimSuffix(line, "\r\n")
}

// stats returns the lines of the stats reply as a map.
func stats(t *testing.T, addr string) map[string]string {
	t.Helper()
	conn := dial(t, addr)
	if _, err := io.WriteString(conn, "stats\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	var size int
	if _, err := fmt.Fscanf(r, "OK %d\r\n", &size); err != nil {
		t.Fatalf("reply to stats: %v", err)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		t.Fatal(err)
	}
	m := make(map[string]string)
	for line := range strings.Lines(string(body)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
			m[key] = strings.Trim(value, `"`)
		}
	}
	return m
}

func TestTermAndInterruptEndWithZero(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			s := serveWith(t)
			idle := dial(t, s.listen[0])
			if got := ask(t, idle, "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
				t.Errorf("reply %q", got)
			}
			s.signal(sig)
			if code := s.end(); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if _, err := idle.Read(make([]byte, 1)); err == nil {
				t.Error("the connection got data, want it closed")
			}
			if conn, err := net.Dial("tcp", s.listen[0]); err == nil {
				conn.Close()
				t.Error("the port still accepts connections")
			}
		})
	}
}

func TestUserSignalDrains(t *testing.T) {
	s := serveWith(t)
	conn := dial(t, s.listen[0])
	const put = "put 0 0 10 1\r\nx\r\n"
	if got := ask(t, conn, put); got != "INSERTED 1" {
		t.Fatalf("before: %q", got)
	}
	s.signal(syscall.SIGUSR1)
	if s.waitLog("draining: no new jobs are accepted") == nil {
		t.Fatal("no log line about draining")
	}
	if got := ask(t, conn, put); got != "DRAINING" {
		t.Errorf("after: %q", got)
	}
	if got := stats(t, s.listen[0])["draining"]; got != "true" {
		t.Errorf("stats draining: %s", got)
	}
}

func TestHangUpIsIgnored(t *testing.T) {
	s := serveWith(t)
	s.signal(syscall.SIGHUP)
	if s.waitLog("ignored: there is nothing to reload") == nil {
		t.Fatal("no log line about SIGHUP")
	}
	if got := stats(t, s.listen[0])["draining"]; got != "false" {
		t.Errorf("stats draining: %s", got)
	}
}

func TestSettingsReachTheServer(t *testing.T) {
	s := serveWith(t, "-z4096", "-s", "8192", "--loops", "1", "--shards=4")
	if s.loops != 1 || s.shards != 4 {
		t.Errorf("start line: %d loops and %d shards, want 1 and 4", s.loops, s.shards)
	}
	got := stats(t, s.listen[0])
	for key, want := range map[string]string{"max-job-size": "4096", "binlog-max-size": "8192", "version": config.StatsVersion()} {
		if got[key] != want {
			t.Errorf("stats %s: %s, want %s", key, got[key], want)
		}
	}
}

func TestSeveralAddresses(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	s := serveWith(t, "-l", "localhost", "-l", "unix:"+path)
	if len(s.listen) < 3 {
		t.Fatalf("listening on %q, want at least three addresses", s.listen)
	}
	for _, addr := range s.listen {
		if got := ask(t, dial(t, addr), "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
			t.Errorf("%s: reply %q", addr, got)
		}
	}
}

func TestLevelsAndFormats(t *testing.T) {
	quiet := exec.Command(binary, "-l", "127.0.0.1", "-p", "0", "--log-level", "error", "-c")
	quiet.Env = cleanEnv()
	var stderr bytes.Buffer
	quiet.Stderr = &stderr
	notify := notifySocket(t)
	quiet.Env = append(quiet.Env, "NOTIFY_SOCKET="+notify.LocalAddr().String())
	if err := quiet.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { quiet.Process.Kill() })
	readState(t, notify)
	quiet.Process.Signal(syscall.SIGTERM)
	if err := quiet.Wait(); err != nil {
		t.Error(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("at level error: %s", &stderr)
	}

	s := serveWith(t, "--log-level", "error", "-VV")
	if s.waitLog("serving")["level"] != "INFO" {
		t.Error("-VV did not bring error down to info")
	}
}
