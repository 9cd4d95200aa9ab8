package compare

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"polystalk/loadtest/workload"
)

// A Target is a server to compare, by its command line.
type Target struct {
	Name    string `json:"name"`
	Command string `json:"command"` // as given
	Version string `json:"version,omitempty"`
	// Constant marks the floor: it answers every command with the same bytes.
	Constant bool `json:"constant,omitempty"`

	args []string // with {port} and {dir} still in place
	addr string   // of a server that runs already and is left running
	pid  int      // of that server; 0: not known
}

// Running is a server at addr that runs already and is left running. pid is its
// process, 0 if that is not known.
func Running(addr string, pid int) Target {
	return Target{Name: addr, Command: "running at " + addr, addr: addr, pid: pid}
}

// Addr is where a target of Running listens; empty for one that is to be started.
func (t Target) Addr() string { return t.addr }

var targetName = regexp.MustCompile(`^[A-Za-z0-9._-]+=`)

// ParseTarget reads "[name=]command arg ...", split at spaces. {port} stands
// for a free port, {dir} for an empty directory that is removed afterwards,
// {body} for the load's body size, {ready} for a file that is not there until the
// command makes it, which may be long after somebody answers at the port. A command without {port} gets the arguments
// appended that the usual server of the protocol understands.
func ParseTarget(s string, p *workload.Protocol) (Target, error) {
	var t Target
	if m := targetName.FindString(s); m != "" {
		t.Name, s = strings.TrimSuffix(m, "="), s[len(m):]
	}
	t.Command = s
	t.args = strings.Fields(s)
	if len(t.args) == 0 {
		return t, fmt.Errorf("%q is no command line of a server", s)
	}
	if !strings.Contains(s, "{port}") {
		t.args = append(t.args, strings.Fields(p.Args)...)
	}
	path, err := exec.LookPath(t.args[0])
	if err != nil {
		return t, fmt.Errorf("server %q: %w; install it or give its path", t.args[0], err)
	}
	t.args[0] = path
	t.Name = cmp.Or(t.Name, filepath.Base(path))
	return t, nil
}

// UniqueNames numbers targets of the same name.
func UniqueNames(targets []Target) {
	seen := map[string]int{}
	for i := range targets {
		name := targets[i].Name
		if seen[name]++; seen[name] > 1 {
			targets[i].Name += "#" + strconv.Itoa(seen[name])
		}
	}
}

// Floor is this program's own constant server, started by its first argument.
func Floor() (Target, error) {
	self, err := os.Executable()
	return Target{Name: "floor", Command: "loadtest floor", Constant: true,
		args: []string{self, "floor", "-addr", "127.0.0.1:{port}", "-body", "{body}"}}, err
}

// ready is how to find out whether a server of this target, and not only its
// kernel, takes connections.
func (t *Target) ready(p *workload.Protocol) func(ctx context.Context, addr string) error {
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
		_, err := p.Version(ctx, addr)
		return err
	}
}
