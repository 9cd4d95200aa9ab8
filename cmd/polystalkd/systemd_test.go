package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/fault"
)

// activated is polystalkd with files passed down as a service manager does it:
// from descriptor 3 on, with the process's own id in LISTEN_PID.
func activated(files []*os.File, args ...string) *exec.Cmd {
	script := `LISTEN_PID=$$ exec "$0" "$@"`
	cmd := exec.Command("sh", append([]string{"-c", script, binary, "--log-format", "json"}, args...)...)
	cmd.Env = cleanEnv("LISTEN_FDS=" + string(rune('0'+len(files))))
	cmd.ExtraFiles = files
	return cmd
}

func fileOf(t *testing.T, l interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestInheritedSocketsAreServed(t *testing.T) {
	tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := filepath.Join(shortDir(t), "s")
	unix, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()

	s := startServer(t, activated([]*os.File{fileOf(t, tcp), fileOf(t, unix)}, "-p", "1", "-l", "192.0.2.1"))
	for _, addr := range []string{tcp.Addr().String(), "unix:" + path} {
		if got := ask(t, dial(t, addr), "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
			t.Errorf("%s: reply %q", addr, got)
		}
	}
	for _, flag := range []string{"-p", "-l"} {
		if s.waitLog("sockets were passed in by the service manager; ignoring flag "+flag) == nil {
			t.Errorf("no warning that %s is ignored", flag)
		}
	}
	s.signal(syscall.SIGTERM)
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the service manager's socket file was removed: %v", err)
	}
}

func TestInheritedDescriptorThatIsNoListenerIsRefused(t *testing.T) {
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	client := dial(t, tcp.Addr().String()).(*net.TCPConn)

	for name, f := range map[string]*os.File{"datagram socket": fileOf(t, udp), "file": file, "connection": fileOf(t, client)} {
		t.Run(name, func(t *testing.T) {
			s := launch(t, activated([]*os.File{f}))
			if s.serves() {
				t.Fatal("it serves")
			}
			if code := s.end(); code != fault.System {
				t.Errorf("exit code %d, want %d", code, fault.System)
			}
			for _, want := range []string{"LISTEN_FDS", "descriptor 3", "ListenStream="} {
				if !strings.Contains(s.logText(), want) {
					t.Errorf("stderr does not hold %q: %s", want, s.logText())
				}
			}
		})
	}
}

func TestSocketsMeantForAnotherProcessAreLeftAlone(t *testing.T) {
	cmd := exec.Command(binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0")
	cmd.Env = cleanEnv("LISTEN_FDS=1", "LISTEN_PID=1")
	s := startServer(t, cmd)
	if len(s.listen) != 1 || !strings.HasPrefix(s.listen[0], "127.0.0.1:") {
		t.Errorf("listening on %q", s.listen)
	}
}

func notifySocket(t *testing.T) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(shortDir(t), "n")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// readState reads the next message to the service manager.
func readState(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(hang))
	buf := make([]byte, 256)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestServiceManagerIsToldReadyAndStopping(t *testing.T) {
	notify := notifySocket(t)
	cmd := exec.Command(binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0")
	cmd.Env = cleanEnv("NOTIFY_SOCKET=" + notify.LocalAddr().String())
	s := startServer(t, cmd)
	if got := readState(t, notify); got != "READY=1" {
		t.Errorf("first message %q", got)
	}
	s.signal(syscall.SIGTERM)
	if got := readState(t, notify); got != "STOPPING=1" {
		t.Errorf("second message %q", got)
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
