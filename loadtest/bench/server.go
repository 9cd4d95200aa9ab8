package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Target is a server to compare.
type Target struct {
	Name    string `json:"name"`
	Command string `json:"command"` // as given
	Version string `json:"version,omitempty"`
	// Constant marks the floor server: it answers every command with the same bytes.
	Constant bool `json:"constant,omitempty"`

	protocol *protocol // nil: the session's
	args     []string  // with {port} and {dir} still in place
	secure   bool      // it uses TLS
	addr     string    // address of a server that already runs and is not stopped
	pid      int       // of that server; 0: not known
}

var targetName = regexp.MustCompile(`^[A-Za-z0-9._-]+=`)

// parseTarget reads "[name=][protocol:][tls:]command arg ...", split at spaces. {port} stands for a free port, {dir}
// for an empty directory that is removed afterwards, and {body} for the size of the load's bodies.
// A command without {port} gets the arguments of the protocol's usual server.
func parseTarget(s string, p *protocol) (Target, error) {
	var t Target
	if m := targetName.FindString(s); m != "" {
		t.Name, s = strings.TrimSuffix(m, "="), s[len(m):]
	}
	if name, rest, ok := strings.Cut(s, ":"); ok && peers[name] != nil {
		t.protocol, s = peers[name], rest
	}
	s, t.secure = strings.CutPrefix(s, secured)
	t.Command = s
	t.args = strings.Fields(s)
	if len(t.args) == 0 {
		return t, fmt.Errorf("%q is not the command line of a server", s)
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

// A server is a running target.
type server struct {
	*Process
	addr   string
	dir    string
	output tail
}

// start starts t with the settings of l and returns once it is ready. The caller must stop it.
func (t *Target) start(ctx context.Context, sp Spawner, p *protocol, l Load) (_ *server, err error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s := &server{addr: "127.0.0.1:" + port}
	if t.secure {
		s.addr = secured + s.addr
	}
	if strings.Contains(strings.Join(t.args, " "), "{dir}") {
		if s.dir, err = os.MkdirTemp("", "loadtest-"); err != nil {
			return nil, err
		}
	}
	fill := strings.NewReplacer("{port}", port, "{dir}", s.dir, "{body}", strconv.Itoa(l.Body))
	args := make([]string, len(t.args))
	for i, a := range t.args {
		args[i] = fill.Replace(a)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if s.Process, err = sp.Start(cmd, l.ServerCPUs); err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	if err := s.await(ctx, t, p); err != nil {
		s.stop()
		return nil, fmt.Errorf("server %s (%s): %w", t.Name, strings.Join(args, " "), err)
	}
	return s, nil
}

// startLimit is how long a server may take to start. RabbitMQ takes ten seconds.
const startLimit = time.Minute

// await returns when the server is ready.
func (s *server) await(ctx context.Context, t *Target, p *protocol) error {
	for limit := time.Now().Add(startLimit); ; {
		err := t.answers(ctx, p, s.addr)
		if err == nil {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("is not ready after %v: %w; its output: %s", startLimit, err, &s.output)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.Ended:
			return fmt.Errorf("ended before it was ready (%v); its output: %s", s.ProcessState, &s.output)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// answers returns nil if the server at addr, not only its kernel, accepts connections. It sets the
// server's version.
func (t *Target) answers(ctx context.Context, p *protocol, addr string) (err error) {
	c, err := dial(ctx, addr)
	if err != nil || t.Constant {
		return err
	}
	defer c.Close()
	c.nc.SetDeadline(time.Now().Add(grace))
	c.Out = append(c.Out, p.ask...)
	for err = c.Flush(); err == nil; err = c.receive(len(c.unread()) + 1) {
		if m := p.version.FindSubmatch(c.unread()); m != nil {
			t.Version = string(m[1])
			return nil
		}
	}
	return fmt.Errorf("%.100q has no version: %w", c.unread(), err)
}

// stop asks the server to end, and kills it after five seconds.
func (s *server) stop() error {
	defer os.RemoveAll(s.dir)
	if !s.Running() {
		return fmt.Errorf("the server had already ended (%v); its output: %s", s.ProcessState, &s.output)
	}
	s.Terminate(5 * time.Second)
	return nil
}

// FreePort returns a port of 127.0.0.1 that no process uses. It is below the ports that the kernel
// gives to clients, so no other process gets it while a server is down.
func FreePort() (string, error) {
	for range 1000 {
		port := 12000 + rand.IntN(20000)
		if bind(port) == nil {
			return strconv.Itoa(port), nil
		}
	}
	return "", errors.New("there is no free port on 127.0.0.1 between 12000 and 32000")
}

// bind takes the port for a moment. Meanwhile no process is started: it would inherit the socket until
// it executes its program, and the port would be in use.
func bind(port int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(s)
	if err := syscall.SetsockoptInt(s, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return err
	}
	return syscall.Bind(s, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}
