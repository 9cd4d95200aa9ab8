package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// A Server is a polystalkd with its log. Start is for tests that need protocol clients and no log.
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

// Command returns polystalkd with a JSON log and without variables that would configure it.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command(Binary, append(args, "--log-format", "json")...)
	cmd.Env = CleanEnv()
	return cmd
}

// Serve starts polystalkd on a free port of 127.0.0.1 with more flags.
func Serve(t *testing.T, args ...string) *Server {
	t.Helper()
	return Await(t, Command(append([]string{"-l", "127.0.0.1", "-p", "0"}, args...)...))
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
	must(t, err)
	must(t, cmd.Start())
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

// Serves waits for the start line and reads it. It returns false if the process ended first.
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

// LogText returns the log so far.
func (s *Server) LogText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// LogHas reports whether the log contains the text.
func (s *Server) LogHas(msg string) bool { return strings.Contains(s.LogText(), msg) }

// WaitLog waits for a line with that msg and returns it, or nil if the log ended without one.
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

// Client opens a connection and closes it at the end of the test.
func (s *Server) Client() *conversation.Client {
	s.t.Helper()
	return client(s.t, s.Listen[0])
}

// Signal sends sig to the process.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	must(s.t, s.Cmd.Process.Signal(sig))
}

// Freeze stops the process with SIGSTOP. Threads continue for a moment after the signal; if there
// is a /proc, Freeze waits until all have stopped.
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

// Crash ends the process at once, like kill -9.
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

// EndsWith expects the process to end by itself with this code.
func (s *Server) EndsWith(code int) {
	s.t.Helper()
	if got := s.End(); got != code {
		s.t.Errorf("exit code %d, want %d", got, code)
	}
}

// Start runs Program until the end of the test.
func Start(t *testing.T, args ...string) *conversation.Server {
	t.Helper()
	noteSources()
	s, err := conversation.StartServer(Program(t), args...)
	must(t, err)
	t.Cleanup(s.Stop)
	return s
}

// AwaitStat waits until the server's stats show a value.
func AwaitStat(t *testing.T, s *conversation.Server, key string, value uint64) {
	t.Helper()
	d := &conversation.NetDriver{Address: s.Address}
	defer d.Shutdown()
	must(t, d.Await(key, strconv.FormatUint(value, 10)))
}

// ShardCounts are the numbers of shards for which every protocol test runs.
var ShardCounts = []int{1, 4, 16}

// ShardArgs returns the arguments for a server with n shards; $POLYSTALKD_BIN gets none.
func ShardArgs(n int) []string {
	if os.Getenv("POLYSTALKD_BIN") != "" {
		return nil
	}
	return []string{"--shards", strconv.Itoa(n), "--log-level", "error"}
}

// The flags of tests that play random sessions.
var (
	Seed     = flag.Uint64("seed", 1, "seed of the first random session")
	Sessions = flag.Int("sessions", 200, "random sessions for each number of shards")
	Commands = flag.Int("commands", 150, "commands of a random session")
)

// Memory returns the resident size of a process in bytes; 0: unknown.
func Memory(s *conversation.Server) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	kB := 0
	if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
		_, _ = fmt.Sscan(rest, &kB)
	}
	return kB << 10
}

// Bounded fails if the server's memory has grown by more than most bytes since it was was.
func Bounded(t *testing.T, s *conversation.Server, was, most int) {
	t.Helper()
	if now := Memory(s); now > was+most {
		t.Errorf("resident memory grew from %d to %d kB", was>>10, now>>10)
	}
}
