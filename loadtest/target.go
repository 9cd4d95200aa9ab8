package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"polystalk/loadtest/proc"
)

// A target is a server to compare, by its command line.
type target struct {
	Name    string `json:"name"`
	Command string `json:"command"` // as given
	Version string `json:"version,omitempty"`
	// Constant marks the floor: it answers every command with the same bytes.
	Constant bool `json:"constant,omitempty"`

	args []string // with {port} and {dir} still in place
	addr string   // of a server that runs already and is left running
	pid  int      // of that server; 0: not known
}

var targetName = regexp.MustCompile(`^[A-Za-z0-9._-]+=`)

// parseTarget reads "[name=]command arg ...", split at spaces. {port} stands
// for a free port, {dir} for an empty directory that is removed afterwards,
// {body} for the load's body size. A command without {port} gets the arguments
// appended that the usual server of the protocol understands.
func parseTarget(s string, p *protocol) (target, error) {
	var t target
	if m := targetName.FindString(s); m != "" {
		t.Name, s = strings.TrimSuffix(m, "="), s[len(m):]
	}
	t.Command = s
	t.args = strings.Fields(s)
	if len(t.args) == 0 {
		return t, fmt.Errorf("%q is no command line of a server", s)
	}
	if !strings.Contains(s, "{port}") {
		t.args = append(t.args, strings.Fields(p.args)...)
	}
	path, err := exec.LookPath(t.args[0])
	if err != nil {
		return t, fmt.Errorf("server %q: %w; install it or give its path", t.args[0], err)
	}
	t.args[0] = path
	t.Name = cmp.Or(t.Name, filepath.Base(path))
	return t, nil
}

// uniqueNames numbers targets of the same name.
func uniqueNames(targets []target) {
	seen := map[string]int{}
	for i := range targets {
		name := targets[i].Name
		if seen[name]++; seen[name] > 1 {
			targets[i].Name += "#" + strconv.Itoa(seen[name])
		}
	}
}

// floorTarget is this program's own constant server.
func floorTarget() (target, error) {
	self, err := os.Executable()
	return target{Name: "floor", Command: "loadtest floor", Constant: true,
		args: []string{self, "floor", "-addr", "127.0.0.1:{port}", "-body", "{body}"}}, err
}

// A server is a running target.
type server struct {
	addr   string
	pid    int
	cmd    *exec.Cmd
	dir    string
	output *proc.Tail
	ended  chan struct{} // closed when the process has ended
	err    error         // how it ended; valid after ended
}

// startTarget starts t pinned to cpus and returns once it accepts connections.
// The caller stops it.
func startTarget(ctx context.Context, sp *proc.Spawner, t target, l Load) (_ *server, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &server{addr: "127.0.0.1:" + strconv.Itoa(port), output: &proc.Tail{}, ended: make(chan struct{})}
	args := slices.Clone(t.args)
	for i, a := range args {
		if strings.Contains(a, "{dir}") && s.dir == "" {
			if s.dir, err = os.MkdirTemp("", "loadtest-"); err != nil {
				return nil, err
			}
		}
		args[i] = strings.NewReplacer("{port}", strconv.Itoa(port), "{dir}", s.dir, "{body}", strconv.Itoa(l.Body)).Replace(a)
	}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := sp.Start(s.cmd, l.ServerCPUs); err != nil {
		s.clean()
		return nil, err
	}
	s.pid = s.cmd.Process.Pid
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	if err := s.await(ctx, t.ready(l)); err != nil {
		s.stop() // if it has ended, err says so already
		return nil, fmt.Errorf("server %s (%s): %w", t.Name, strings.Join(args, " "), err)
	}
	return s, nil
}

// ready is how to find out whether a server of this target, and not only its
// kernel, takes connections.
func (t *target) ready(l Load) func(ctx context.Context, addr string) error {
	if t.Constant {
		return func(ctx context.Context, addr string) error {
			c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			return c.Close()
		}
	}
	return func(ctx context.Context, addr string) error {
		_, err := l.protocol().version(ctx, addr)
		return err
	}
}

// await returns when the server is ready.
func (s *server) await(ctx context.Context, ready func(ctx context.Context, addr string) error) error {
	limit := time.Now().Add(10 * time.Second)
	for {
		err := ready(ctx, s.addr)
		if err == nil {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("does not listen after 10 s: %w; its output: %s", err, s.output)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.ended:
			return fmt.Errorf("ended before it listened (%v); its output: %s", s.err, s.output)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stop asks the server to end, and kills it after five seconds.
func (s *server) stop() error {
	defer s.clean()
	select {
	case <-s.ended:
		return fmt.Errorf("the server had already ended (%v); its output: %s", s.err, s.output)
	default:
	}
	s.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has just ended
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
		s.cmd.Process.Kill()
		<-s.ended
	}
	return nil
}

func (s *server) clean() {
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// freePort asks the kernel for a port. Another process may take it before the
// server does; the server then fails with a message of its own.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
