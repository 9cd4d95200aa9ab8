package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// A Server is a polystalkd that serves, with its log. Start is for tests that want
// clients of the protocol and no log.
type Server struct {
	t      *testing.T
	Cmd    *exec.Cmd
	Listen []string // addresses from its start line
	Loops  int
	Shards int

	mu   sync.Mutex
	log  strings.Builder
	grew *sync.Cond // log has another line, or is at its end
	eof  bool
	Done chan struct{} // closed when the process is gone
}

// Serve starts polystalkd on a free port of 127.0.0.1 with more flags.
func Serve(t *testing.T, args ...string) *Server {
	t.Helper()
	cmd := exec.Command(Binary, append([]string{"--log-format", "json", "-l", "127.0.0.1", "-p", "0"}, args...)...)
	cmd.Env = CleanEnv()
	return Await(t, cmd)
}

// Await runs cmd, a polystalkd with --log-format json, until it serves.
func Await(t *testing.T, cmd *exec.Cmd) *Server {
	t.Helper()
	s := Launch(t, cmd)
	if !s.Serves() {
		t.Fatalf("polystalkd ended instead of serving; stderr:\n%s", s.LogText())
	}
	return s
}

// Launch starts cmd, a polystalkd with --log-format json.
func Launch(t *testing.T, cmd *exec.Cmd) *Server {
	t.Helper()
	noteSources()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, Cmd: cmd, Done: make(chan struct{})}
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
		close(s.Done)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-s.Done
		if t.Failed() {
			t.Logf("log of polystalkd:\n%s", s.LogText())
		}
	})
	return s
}

// UnixCommand is polystalkd on a unix socket only.
func UnixCommand(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(Binary, append([]string{"--log-format", "json", "-l", "unix:" + path}, args...)...)
	cmd.Env = CleanEnv()
	return cmd
}

// Serves waits for the start line and reads it; false: the process ended first.
func (s *Server) Serves() bool {
	s.t.Helper()
	line := s.WaitLog("serving")
	if line == nil {
		return false
	}
	listen, _ := line["listen"].([]any) // without beanstalkd's protocol there is none
	for _, a := range listen {
		s.Listen = append(s.Listen, a.(string))
	}
	s.Loops, s.Shards = int(line["loops"].(float64)), int(line["shards"].(float64))
	return true
}

// LogText is the log so far.
func (s *Server) LogText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// LogHas reports whether the log holds that text by now.
func (s *Server) LogHas(msg string) bool { return strings.Contains(s.LogText(), msg) }

// WaitLog waits for a line with that msg and returns it, or nil if the log
// ended without one.
func (s *Server) WaitLog(msg string) map[string]any {
	s.t.Helper()
	timer := time.AfterFunc(Hang, func() { s.Cmd.Process.Kill() })
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

// Client connects to a server with a log.
func (s *Server) Client() *conversation.Client {
	s.t.Helper()
	c, err := conversation.Dial("tcp", s.Listen[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// Signal sends sig to the process.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.Cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Freeze stops the process by SIGSTOP. It waits until every thread stands still, where /proc tells:
// the threads go on for a moment after the signal was sent.
func (s *Server) Freeze() {
	s.t.Helper()
	s.Signal(syscall.SIGSTOP)
	for end := time.Now().Add(Hang); ; time.Sleep(time.Millisecond) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.Cmd.Process.Pid))
		if !slices.ContainsFunc(threads, func(name string) bool {
			b, err := os.ReadFile(name)
			return err == nil && !bytes.Contains(b, []byte(") T "))
		}) {
			return
		}
		if time.Now().After(end) {
			s.t.Fatal("the process does not stand still")
		}
	}
}

// Crash ends the process at once, as kill -9 does.
func (s *Server) Crash() {
	s.Cmd.Process.Kill()
	<-s.Done
}

// End waits for the process and returns its exit code, -1 for a signal.
func (s *Server) End() int {
	s.t.Helper()
	select {
	case <-s.Done:
	case <-time.After(Hang):
		s.t.Fatal("polystalkd did not end")
	}
	return s.Cmd.ProcessState.ExitCode()
}

// EndsWith wants the process to end by itself with that code.
func (s *Server) EndsWith(code int) {
	s.t.Helper()
	if got := s.End(); got != code {
		s.t.Errorf("exit code %d, want %d", got, code)
	}
}
