package daemon

import (
	"os"
	"os/exec"
	"testing"
)

// GearmandWith starts it and returns its address for Gearman.
func GearmandWith(t *testing.T, args ...string) (s *Server, gear string) {
	t.Helper()
	s = Await(t, GearmandCommand(args...))
	return s, s.Gearman()[0]
}

// GearmandCommand is polystalkd in place of gearmand, on one address of this machine.
func GearmandCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(Binary, append([]string{"gearmand", "--log-format", "json", "-L", "127.0.0.1", "-p", "0", "--job-handle-prefix", "H:x", "--config-file", os.DevNull}, args...)...)
	cmd.Env = CleanEnv()
	return cmd
}

// Gearman are the addresses for Gearman of a server that serves.
func (s *Server) Gearman() (list []string) {
	s.t.Helper()
	line := s.WaitLog("serving Gearman")
	if line == nil {
		s.t.Fatal("it does not serve Gearman")
	}
	for _, a := range line["listen"].([]any) {
		list = append(list, a.(string))
	}
	return list
}
