package conversation

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A Server is a server process on a free port of the loopback interface.
type Server struct {
	Address string // host:port
	Cmd     *exec.Cmd
	exited  chan struct{}
	err     error
}

// StartServer runs program with -l 127.0.0.1, a free -p and args, and returns
// once it accepts connections. What it prints goes to this process's standard
// error. The caller stops it.
func StartServer(program string, args ...string) (*Server, error) {
	var err error
	// Between the choice of a port and its use another process may take it.
	for range 5 {
		var s *Server
		if s, err = startServer(program, args); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func startServer(program string, args []string) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	all := append([]string{"-l", "127.0.0.1", "-p", strconv.Itoa(port)}, args...)
	s := &Server{Address: fmt.Sprintf("127.0.0.1:%d", port), Cmd: exec.Command(program, all...), exited: make(chan struct{})}
	s.Cmd.Stderr = os.Stderr
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s, s.AwaitAccept("tcp", s.Address)
}

// NewServer wraps a command that was built elsewhere, to be started with
// Start.
func NewServer(cmd *exec.Cmd, address string) *Server {
	return &Server{Address: address, Cmd: cmd, exited: make(chan struct{})}
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

// AwaitAccept returns once the server accepts connections, or an error if it
// ends before that.
func (s *Server) AwaitAccept(network, address string) error {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		select {
		case <-s.exited:
			return fmt.Errorf("%s ended before it listened: %v", s.Cmd.Path, s.err)
		default:
		}
		if greet(network, address) == nil {
			return nil
		}
	}
	s.Stop()
	return fmt.Errorf("%s does not answer on %s", s.Cmd.Path, address)
}

// greet connects and quits: the server has seen it come and go before anyone else
// connects, and counts no command for it. A connection that is reset was none to the
// server, but to what had the port before.
func greet(network, address string) error {
	c, err := net.DialTimeout(network, address, Patience)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("quit\r\n")); err != nil {
		return err
	}
	_, err = io.ReadAll(c)
	return err
}

// Exited is closed when the process has ended; Err is valid then.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Err is how the process ended, as exec.Cmd.Wait says it.
func (s *Server) Err() error { return s.err }

// Drain sends the signal for drain mode.
func (s *Server) Drain() error { return s.Cmd.Process.Signal(syscall.SIGUSR1) }

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

// Ports that the kernel gives to whoever asks for any, also for connections that are
// made from here, begin above lastPort.
const firstPort, lastPort = 10_000, 32_767

// FreePort returns a TCP port of the loopback interface nobody listens on: at random,
// no port twice in a process, and none of those that the kernel gives away. Tests that
// run at the same time, in other processes too, would else take the server that comes
// first on the port for their own.
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

// bind takes the port for a moment. No process is started meanwhile: it would have the
// socket too, until it executes its program, and the port would be taken after we have
// closed it.
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

// Reference finds the installed beanstalkd: $BEANSTALKD, or the one on the
// search path. unquoted tells a release before 1.13.
func Reference() (program string, unquoted bool, err error) {
	program = os.Getenv("BEANSTALKD")
	if program == "" {
		program = "beanstalkd"
	}
	program, err = exec.LookPath(program)
	if err != nil {
		return "", false, fmt.Errorf("no reference server: install Debian's beanstalkd, or name one in BEANSTALKD (%w)", err)
	}
	s, err := StartServer(program)
	if err != nil {
		return "", false, err
	}
	defer s.Stop()
	unquoted, err = s.Unquoted()
	return program, unquoted, err
}

// Unquoted asks a running server whether it writes YAML strings without
// quotes, as releases before 1.13 do.
func (s *Server) Unquoted() (bool, error) {
	c, err := Dial("tcp", s.Address)
	if err != nil {
		return false, err
	}
	defer c.Close()
	body, err := c.Ask("stats-tube default\r\n")
	if err != nil {
		return false, err
	}
	return !containsLine(body, `name: "default"`), nil
}
