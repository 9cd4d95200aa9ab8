package gearmantest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"polystalk/codec/conversation"
)

// Reference finds the installed gearmand: $GEARMAND, or Debian's. The version is
// as the text protocol says it.
func Reference() (program, version string, err error) {
	program = os.Getenv("GEARMAND")
	if program == "" {
		// Not by the search path: the Perl server has the same name there.
		program = "/usr/sbin/gearmand"
	}
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("no reference server: install Debian's gearman-job-server, or name one in GEARMAND (%w)", err)
	}
	fields := strings.Fields(string(out)) // gearmand 1.1.20+ds - https://…
	if len(fields) < 2 {
		return "", "", fmt.Errorf("%s --version says %q", program, out)
	}
	return program, fields[1], nil
}

// StartGearmand is a Start for the gearmand of that name.
func StartGearmand(program string) Start {
	return func(c *Case, dir string) (*Server, error) {
		args := []string{"-l", filepath.Join(dir, "log"), "-P", filepath.Join(dir, "pid"), "-L", "127.0.0.1", "--job-handle-prefix", defaultPrefix}
		if c.Store {
			args = append(args, "-q", "libsqlite3", "--libsqlite3-db", filepath.Join(dir, "queue.db"))
		}
		args = append(args, c.Opts...)
		var err error
		// Between the choice of a port and its use another process may take it.
		for range 5 {
			var port int
			if port, err = conversation.FreePort(); err != nil {
				return nil, err
			}
			var s *Server
			cmd := exec.Command(program, append(args, "-p", strconv.Itoa(port))...)
			if s, err = StartProcess(cmd, "127.0.0.1:"+strconv.Itoa(port)); err == nil {
				return s, nil
			}
		}
		return nil, err
	}
}

// StartProcess starts a command that is going to listen on address, and returns
// once it answers there.
func StartProcess(cmd *exec.Cmd, address string) (*Server, error) {
	p := conversation.NewServer(cmd, address)
	if err := p.Start(); err != nil {
		return nil, err
	}
	s := &Server{
		Address: address,
		Signal:  func(name string) error { return cmd.Process.Signal(signals[name]) },
		Exited:  p.Exited(),
		Err:     p.Err,
		Stop:    p.Stop,
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		select {
		case <-s.Exited:
			return nil, fmt.Errorf("%s ended before it listened: %w", cmd.Path, s.Err())
		default:
		}
		if alive(address) == nil {
			return s, nil
		}
	}
	s.Stop()
	return nil, fmt.Errorf("%s does not answer on %s", cmd.Path, address)
}

var signals = map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL, "SIGUSR1": syscall.SIGUSR1}
