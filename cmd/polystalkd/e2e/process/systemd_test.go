package process

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// activated is polystalkd with files passed down as a service manager does it:
// from descriptor 3 on, with the process's own id in LISTEN_PID.
func activated(files []*os.File, args ...string) *exec.Cmd {
	script := `LISTEN_PID=$$ exec "$0" "$@"`
	cmd := exec.Command("sh", append([]string{"-c", script, daemon.Binary, "--log-format", "json"}, args...)...)
	cmd.Env = daemon.CleanEnv("LISTEN_FDS=" + string(rune('0'+len(files))))
	cmd.ExtraFiles = files
	return cmd
}

func TestInheritedSocketsAreServed(t *testing.T) {
	tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := filepath.Join(daemon.ShortDir(t), "s")
	unix, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()

	s := daemon.Await(t, activated([]*os.File{daemon.FileOf(t, tcp), daemon.FileOf(t, unix)}, "-p", "1", "-l", "192.0.2.1"))
	for _, addr := range []string{tcp.Addr().String(), "unix:" + path} {
		if got := daemon.Ask(t, daemon.Dial(t, addr), "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
			t.Errorf("%s: reply %q", addr, got)
		}
	}
	for _, flag := range []string{"-p", "-l"} {
		if s.WaitLog("sockets were passed in by the service manager; ignoring flag "+flag) == nil {
			t.Errorf("no warning that %s is ignored", flag)
		}
	}
	s.Signal(syscall.SIGTERM)
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the service manager's socket file was removed: %v", err)
	}
}

// TestNamedSocketsSpeakWhatTheyAreNamed: on both command lines, and a name that means
// nothing leaves a socket to the protocol that the command line is about.
func TestNamedSocketsSpeakWhatTheyAreNamed(t *testing.T) {
	names := []string{"http", "gearman", "polystalkd.socket", "beanstalkd"}
	for _, tt := range []struct {
		args    []string
		unnamed string
		ignored []string
	}{
		{[]string{"-p", "1", "--gearman-listen", "192.0.2.1:1", "--http", "192.0.2.1:1", "--http-anonymous", "none"}, "beanstalkd", []string{"-p", "--gearman-listen", "--http"}},
		{[]string{"gearmand", "-p", "1", "--beanstalk-listen", "192.0.2.1:1", "--config-file", os.DevNull}, "gearman", []string{"-p", "--beanstalk-listen"}},
	} {
		var files []*os.File
		at := make(map[string]string)
		for _, name := range names {
			tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			defer tcp.Close()
			files = append(files, daemon.FileOf(t, tcp))
			at[name] = tcp.Addr().String()
		}
		cmd := activated(files)
		// The command line of gearmand is chosen by the first argument.
		cmd.Args = slices.Insert(cmd.Args, len(cmd.Args)-2, tt.args...)
		cmd.Env = append(cmd.Env, "LISTEN_FDNAMES="+strings.Join(names, ":"))
		s := daemon.Await(t, cmd)
		spoken := map[string]func(addr string) bool{
			"beanstalkd": func(addr string) bool {
				return daemon.Ask(t, daemon.Dial(t, addr), "nonsense\r\n") == "UNKNOWN_COMMAND"
			},
			"gearman": func(addr string) bool {
				return strings.HasPrefix(daemon.Ask(t, daemon.Dial(t, addr), "version\r\n"), "OK 2.0.0")
			},
			"http": func(addr string) bool {
				status, _ := askHTTP(t, oneShot(), "GET", "http://"+addr+"/livez", "")
				return status == 200
			},
		}
		for name, addr := range at {
			want := name
			if spoken[name] == nil {
				want = tt.unnamed
			}
			if !spoken[want](addr) {
				t.Errorf("%q: the socket that is named %s does not speak %s", tt.args, name, want)
			}
		}
		for _, flag := range tt.ignored {
			if s.WaitLog("sockets were passed in by the service manager; ignoring flag "+flag) == nil {
				t.Errorf("%q: no warning that %s is ignored", tt.args, flag)
			}
		}
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
	client := daemon.Dial(t, tcp.Addr().String()).(*net.TCPConn)

	for name, f := range map[string]*os.File{"datagram socket": daemon.FileOf(t, udp), "file": file, "connection": daemon.FileOf(t, client)} {
		t.Run(name, func(t *testing.T) {
			s := daemon.Launch(t, activated([]*os.File{f}))
			if s.Serves() {
				t.Fatal("it serves")
			}
			if code := s.End(); code != fault.System {
				t.Errorf("exit code %d, want %d", code, fault.System)
			}
			for _, want := range []string{"LISTEN_FDS", "descriptor 3", "ListenStream="} {
				if !strings.Contains(s.LogText(), want) {
					t.Errorf("stderr does not hold %q: %s", want, s.LogText())
				}
			}
		})
	}
}

func TestSocketsMeantForAnotherProcessAreLeftAlone(t *testing.T) {
	cmd := exec.Command(daemon.Binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0")
	cmd.Env = daemon.CleanEnv("LISTEN_FDS=1", "LISTEN_PID=1")
	s := daemon.Await(t, cmd)
	if len(s.Listen) != 1 || !strings.HasPrefix(s.Listen[0], "127.0.0.1:") {
		t.Errorf("listening on %q", s.Listen)
	}
}

func TestServiceManagerIsToldReadyAndStopping(t *testing.T) {
	notify := daemon.NotifySocket(t)
	cmd := exec.Command(daemon.Binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0")
	cmd.Env = daemon.CleanEnv("NOTIFY_SOCKET=" + notify.LocalAddr().String())
	s := daemon.Await(t, cmd)
	if got := daemon.ReadState(t, notify); got != "READY=1" {
		t.Errorf("first message %q", got)
	}
	s.Signal(syscall.SIGTERM)
	if got := daemon.ReadState(t, notify); got != "STOPPING=1" {
		t.Errorf("second message %q", got)
	}
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
