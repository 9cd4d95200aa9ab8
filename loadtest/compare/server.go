package compare

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
)

// A Server is a running target.
type Server struct {
	Addr   string
	PID    int
	cmd    *exec.Cmd
	dir    string
	ready  string // the file that the server makes once it is ready; empty: it need not
	output *proc.Tail
	ended  chan struct{} // closed when the process has ended
	err    error         // how it ended; valid after ended
}

// Start starts t pinned to cpus and returns once it accepts connections.
// The caller stops it.
func Start(ctx context.Context, sp *proc.Spawner, p *workload.Protocol, t Target, l workload.Load) (_ *Server, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: "127.0.0.1:" + strconv.Itoa(port), output: &proc.Tail{}, ended: make(chan struct{})}
	args := slices.Clone(t.args)
	for i, a := range args {
		if (strings.Contains(a, "{dir}") || strings.Contains(a, "{ready}")) && s.dir == "" {
			if s.dir, err = os.MkdirTemp("", "loadtest-"); err != nil {
				return nil, err
			}
		}
		if strings.Contains(a, "{ready}") {
			s.ready = s.dir + ".ready"
		}
		args[i] = strings.NewReplacer("{ready}", s.ready, "{port}", strconv.Itoa(port), "{dir}", s.dir, "{body}", strconv.Itoa(l.Body)).Replace(a)
	}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := sp.Start(s.cmd, l.ServerCPUs); err != nil {
		s.clean()
		return nil, err
	}
	s.PID = s.cmd.Process.Pid
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	if err := s.await(ctx, t.ready(p)); err != nil {
		s.Stop() // if it has ended, err says so already
		return nil, fmt.Errorf("server %s (%s): %w", t.Name, strings.Join(args, " "), err)
	}
	return s, nil
}

// await returns when the server is ready.
func (s *Server) await(ctx context.Context, ready func(ctx context.Context, addr string) error) error {
	limit := time.Now().Add(10 * time.Second)
	for {
		var err error
		if s.ready != "" {
			_, err = os.Stat(s.ready)
		}
		if err == nil {
			err = ready(ctx, s.Addr)
		}
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

// Stop asks the server to end, and kills it after five seconds.
func (s *Server) Stop() error {
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

func (s *Server) clean() {
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
	if s.ready != "" {
		os.Remove(s.ready)
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
