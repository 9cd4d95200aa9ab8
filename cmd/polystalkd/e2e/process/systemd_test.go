package process

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// A listener has a descriptor that can be passed on.
type listener interface{ File() (*os.File, error) }

// activated returns polystalkd with descriptors passed as a service manager does: from 3 on, with
// the process's own id in LISTEN_PID.
func activated(t *testing.T, files []listener, args ...string) *exec.Cmd {
	cmd := daemon.Command(args...)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`}, cmd.Args...)
	cmd.Env = append(cmd.Env, "LISTEN_FDS="+strconv.Itoa(len(files)))
	for _, l := range files {
		cmd.ExtraFiles = append(cmd.ExtraFiles, daemon.FileOf(t, l))
	}
	return cmd
}

func ignores(t *testing.T, s *daemon.Server, flags string) {
	t.Helper()
	for flag := range strings.FieldsSeq(flags) {
		logged(t, s, "sockets were passed in by the service manager; ignoring flag "+flag)
	}
}

func TestInheritedSocketsAreServed(t *testing.T) {
	tcp := listenTCP(t)
	unix, path := listenUnix(t)
	s := daemon.Await(t, activated(t, []listener{tcp, unix}, "-p", "1", "-l", "192.0.2.1"))
	answers(t, tcp.Addr().String(), "unix:"+path)
	ignores(t, s, "-p -l")
	ends(t, s, syscall.SIGTERM)
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the service manager's socket file was removed: %v", err)
	}
	// Descriptors for another process are ignored.
	if s := serve(t, []string{"LISTEN_FDS=1", "LISTEN_PID=1"}); len(s.Listen) != 1 || !strings.HasPrefix(s.Listen[0], "127.0.0.1:") {
		t.Errorf("listening on %q", s.Listen)
	}
	// A daemon cannot pass them on.
	out, err := activated(t, []listener{tcp}, "gearmand", "-d").CombinedOutput()
	if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != fault.Gearmand || !strings.Contains(string(out), "flag -d: it cannot be combined with sockets") {
		t.Errorf("-d with sockets: %v, %s", err, out)
	}
}

// TestNamedSocketsSpeakWhatTheyAreNamed: on both command lines. A socket with an unknown name has
// the protocol of the command line.
func TestNamedSocketsSpeakWhatTheyAreNamed(t *testing.T) {
	for _, tt := range []struct{ args, unnamed, ignored string }{
		{"-p 1 --gearman-listen 192.0.2.1:1 --http 192.0.2.1:1 --http-anonymous none", "beanstalkd", "-p --gearman-listen --http"},
		{"gearmand -p 1 -b 5 -L 192.0.2.1 --beanstalk-listen 192.0.2.1:1 --config-file /dev/null", "gearman", "-p -L -b --beanstalk-listen"},
	} {
		names := []string{"http", "gearman", "polystalkd.socket", "beanstalkd"}
		var files []listener
		at := make(map[string]string)
		for _, name := range names {
			tcp := listenTCP(t)
			files, at[name] = append(files, tcp), tcp.Addr().String()
		}
		cmd := activated(t, files, strings.Fields(tt.args)...)
		cmd.Env = append(cmd.Env, "LISTEN_FDNAMES="+strings.Join(names, ":"))
		s := daemon.Await(t, cmd)
		for name, addr := range at {
			if name == "polystalkd.socket" {
				name = tt.unnamed
			}
			switch name {
			case "beanstalkd":
				answers(t, addr)
			case "gearman":
				daemon.Says(t, daemon.Dial(t, addr), "version\r\n", "OK 2.0.0")
			case "http":
				if status, _ := getHTTP(t, "http://"+addr+"/livez", ""); status != 200 {
					t.Errorf("/livez: %d", status)
				}
			}
		}
		ignores(t, s, tt.ignored)
	}
}

func TestInheritedDescriptorThatIsNoListenerIsRefused(t *testing.T) {
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer udp.Close()
	client, err := net.Dial("tcp", listenTCP(t).Addr().String())
	must(t, err)
	defer client.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	defer file.Close()
	for _, f := range []*os.File{daemon.FileOf(t, udp), file, daemon.FileOf(t, client.(*net.TCPConn))} {
		cmd := activated(t, nil)
		cmd.Env, cmd.ExtraFiles = append(cmd.Env, "LISTEN_FDS=1"), []*os.File{f}
		s := daemon.Launch(t, cmd)
		s.EndsWith(fault.System)
		logs(t, s, "LISTEN_FDS", "descriptor 3", "ListenStream=")
	}
}

// TestServiceManagerHears: ready, notifications of the watchdog, stopping.
func TestServiceManagerHears(t *testing.T) {
	s, notify := notified(t, []string{"WATCHDOG_USEC=100000"})
	for range 5 {
		state(t, notify, "WATCHDOG=1")
	}
	s.Signal(syscall.SIGTERM)
	got := "WATCHDOG=1"
	for got == "WATCHDOG=1" {
		got = daemon.ReadState(t, notify)
	}
	if got != "STOPPING=1" {
		t.Errorf("state %q at the end", got)
	}
	s.EndsWith(0)

	s, _ = notified(t, []string{"WATCHDOG_USEC=soon"})
	logged(t, s, "the service manager's watchdog is not served")
}
