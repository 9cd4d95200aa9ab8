package conversation

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Server is a server process on a free port of the loopback interface.
type Server struct {
	Address string // host:port
	Cmd     *exec.Cmd

	protocol *Protocol
	exited   chan struct{}
	err      error
}

// StartServer runs program with -l 127.0.0.1, a free -p and args, and returns once it accepts
// connections. What it prints goes to this process's standard error. The caller stops it.
func StartServer(program string, args ...string) (*Server, error) {
	return Launch(Beanstalk, func(port string) *exec.Cmd {
		cmd := exec.Command(program, append([]string{"-l", "127.0.0.1", "-p", port}, args...)...)
		cmd.Stderr = os.Stderr
		return cmd
	})
}

// StartBeanstalkd is a Start for a program with beanstalkd's flags.
func StartBeanstalkd(program string, args ...string) Start {
	return func(c *Conversation, dir string) (*Server, error) {
		all := append(slices.Clone(args), c.Flags...)
		if c.Store {
			all = append(all, "-b", dir)
		}
		return StartServer(program, all...)
	}
}

// HandlePrefix begins the handles in conversations.
const HandlePrefix = "H:lap"

// StartGearmand is a Start for the gearmand of that name.
func StartGearmand(program string, args ...string) Start {
	return func(c *Conversation, dir string) (*Server, error) {
		all := append([]string{"-l", filepath.Join(dir, "log"), "-P", filepath.Join(dir, "pid"), "-L", "127.0.0.1", "--job-handle-prefix", HandlePrefix}, args...)
		if c.Store {
			all = append(all, "-q", "libsqlite3", "--libsqlite3-db", filepath.Join(dir, "queue.db"))
		}
		all = append(all, c.Flags...)
		return Launch(Gearman, func(port string) *exec.Cmd { return exec.Command(program, append(all, "-p", port)...) })
	}
}

// Launch starts a command that listens on a port of 127.0.0.1, and returns once the server
// answers there. Between the choice of a port and its use another process may take the
// port: then Launch tries another one.
func Launch(p *Protocol, command func(port string) *exec.Cmd) (*Server, error) {
	var err error
	for range 5 {
		var port int
		if port, err = FreePort(); err != nil {
			return nil, err
		}
		s := NewServer(command(strconv.Itoa(port)), fmt.Sprintf("127.0.0.1:%d", port))
		if err = s.Start(); err != nil {
			return nil, err
		}
		s.protocol = p
		if err = s.AwaitAccept("tcp", s.Address); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// NewServer returns a server of beanstalkd's protocol for a command. Start starts it.
func NewServer(cmd *exec.Cmd, address string) *Server {
	return &Server{Address: address, Cmd: cmd, protocol: Beanstalk, exited: make(chan struct{})}
}

// Start starts the process and watches for its end.
func (s *Server) Start() error {
	if err := s.Cmd.Start(); err != nil {
		return err
	}
	go func() {
		s.err = s.Cmd.Wait()
		close(s.exited)
	}()
	return nil
}

// AwaitAccept returns once the server accepts connections, or an error if it ends before that.
func (s *Server) AwaitAccept(network, address string) error {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		select {
		case <-s.exited:
			return fmt.Errorf("%s ended before it listened: %v", s.Cmd.Path, s.err)
		default:
		}
		if s.protocol.greet(network, address) == nil {
			return nil
		}
	}
	s.Stop()
	return fmt.Errorf("%s does not answer on %s", s.Cmd.Path, address)
}

// greet connects, and checks that the server replies and closes: then the server no longer counts
// this connection. A reset is an error: it comes from the process that had the port before.
func (p *Protocol) greet(network, address string) error {
	c, err := net.DialTimeout(network, address, Patience)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, p.hello); err != nil {
		return err
	}
	if p.welcome != "" {
		got := make([]byte, len(p.welcome))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != p.welcome && !strings.HasPrefix(p.refusal, string(got)) {
			return fmt.Errorf("the greeting is answered by %q, %w", got, err)
		}
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			return err
		}
	}
	_, err = io.ReadAll(c)
	return err
}

// Exited is closed when the process has ended; Err is valid then.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Err returns what exec.Cmd.Wait returned.
func (s *Server) Err() error { return s.err }

// Kill ends the process like a crash.
func (s *Server) Kill() {
	_ = s.Cmd.Process.Kill() // it may have ended
	<-s.exited
}

// Stop ends the process and waits for its end.
func (s *Server) Stop() {
	_ = s.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(5 * time.Second):
		_ = s.Cmd.Process.Kill()
		<-s.exited
	}
}

// given are the ports that FreePort has returned.
var given sync.Map

// The kernel chooses ports above lastPort, also for connections of this process.
const firstPort, lastPort = 10_000, 32_767

// FreePort returns a TCP port of the loopback interface without a listener: at random, no
// port twice in a process, and none that the kernel chooses. Otherwise tests in other
// processes might take a foreign server for their own.
func FreePort() (int, error) {
	var err error
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if _, again := given.LoadOrStore(port, true); again {
			continue
		}
		if err = bind(port); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d: %w", firstPort, lastPort, err)
}

// bind takes the port for a moment. It prevents that a process is started meanwhile: a child would
// hold the socket until it executes its program, and the port would stay in use.
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

// Reference finds the installed server of the protocol, and its version. $BEANSTALKD and
// $GEARMAND name another one.
func (p *Protocol) Reference() (program, version string, err error) {
	// gearmand is not looked for in the search path: the Perl server has the same name.
	find, option, install := "beanstalkd", "-v", "beanstalkd"
	if p == Gearman {
		find, option, install = "/usr/sbin/gearmand", "--version", "gearman-job-server"
	}
	variable := strings.ToUpper(filepath.Base(find))
	if program = os.Getenv(variable); program == "" {
		program = find
	}
	out, err := exec.Command(program, option).Output()
	fields := strings.Fields(string(out)) // gearmand 1.1.20+ds - https://…
	if err != nil || len(fields) < 2 {
		return "", "", fmt.Errorf("no reference server: install Debian's %s, or name one in %s (%q, %w)", install, variable, out, err)
	}
	return program, fields[1], nil
}
