package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/listen"
)

// child makes the test program a process that executes itself several times.
const child = "AGAIN_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(child); dir != "" {
		if err := live(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lives is the number of the child's runs.
const lives = 3

// live accepts one connection on each socket in each run, sends the process ID, and executes itself
// again. The last run removes the file of its unix socket.
func live(dir string) error {
	last, err := readInherited()
	if err != nil {
		return err
	}
	next := &inherited{}
	var socks *listen.Sockets
	if last == nil {
		c, err := config.Parse([]string{"-l", "127.0.0.1", "-p", "0", "-l", "unix:" + filepath.Join(dir, "s")}, func(string) (string, bool) { return "", false })
		if err == nil {
			err = c.Validate()
		}
		if err != nil {
			return err
		}
		if socks, err = listen.All(c, nil, nil); err != nil {
			return err
		}
		fmt.Println(socks.Of[listen.Beanstalkd][0].Addr())
	} else {
		if socks, err = last.Sockets.Sockets(); err != nil {
			return err
		}
		next.Short = last.Short + 1
	}
	if got := os.Getenv(restartVariable); got != "" {
		return fmt.Errorf("the variable is still there: %s", got)
	}
	extra, err := os.Open(os.DevNull) // which the next life must not have
	if err != nil {
		return err
	}
	defer extra.Close()
	for _, l := range socks.Of[listen.Beanstalkd] {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		fds, _ := os.ReadDir("/proc/self/fd")
		fmt.Fprintln(c, os.Getpid(), next.Short, l.Addr().Network(), len(fds))
		c.Close()
	}
	if next.Short+1 == lives {
		socks.RemoveFiles(nil)
		return nil
	}
	if next.Sockets, err = socks.Keep(); err != nil {
		return err
	}
	for _, l := range socks.Of[listen.Beanstalkd] {
		l.Close()
	}
	return next.exec()
}

// TestSocketsOutliveTheProgram: clients that connect between two runs wait, and the next run
// of the same process answers them. No descriptors but the sockets stay open.
func TestSocketsOutliveTheProgram(t *testing.T) {
	dir, err := os.MkdirTemp("", "ps") // short enough for a unix socket's path
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), child+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	ended := make(chan error, 1)
	stop := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer stop.Stop()
	addr, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	var conns []net.Conn
	for range lives {
		for network, at := range map[string]string{"tcp": strings.TrimSpace(addr), "unix": filepath.Join(dir, "s")} {
			c, err := net.Dial(network, at)
			must(t, err)
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			conns = append(conns, c)
		}
	}
	open := make(map[string]string) // how many descriptors were, by life and network
	for _, c := range conns {
		text, err := io.ReadAll(c)
		must(t, err)
		f := strings.Fields(string(text))
		if len(f) != 4 || f[0] != fmt.Sprint(cmd.Process.Pid) {
			t.Fatalf("it says %q, and is process %d", text, cmd.Process.Pid)
		}
		open[f[1]+f[2]] = f[3]
	}
	if len(open) != 2*lives || open["1tcp"] != open["2tcp"] || open["1unix"] != open["2unix"] {
		t.Errorf("so many descriptors were open in each life: %v", open)
	}
	go func() { ended <- cmd.Wait() }()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "s")); !os.IsNotExist(err) {
		t.Errorf("the file of the unix socket is left: %v", err)
	}
}

// TestPausesGrow: a process that cannot run restarts less and less often, but does not stop.
func TestPausesGrow(t *testing.T) {
	if p, _ := restartPause(nil, time.Millisecond); p != 0 {
		t.Errorf("the first time it waits for %v", p)
	}
	l := &inherited{}
	for _, want := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		p, short := restartPause(l, time.Second)
		if p != want {
			t.Errorf("after %d short lives it waits for %v, want %v", short, p, want)
		}
		l.Short = short
	}
	l.Short = 1 << 30
	if p, _ := restartPause(l, time.Second); p != pauseMax {
		t.Errorf("it waits for %v", p)
	}
	if p, short := restartPause(l, 2*time.Minute); p != 0 || short != 0 {
		t.Errorf("after a long life it waits for %v, and counts %d short ones", p, short)
	}
}

// TestForeignVariableIsRefused: a user may have set the variable.
func TestForeignVariableIsRefused(t *testing.T) {
	t.Setenv(restartVariable, "yes")
	if _, err := readInherited(); err == nil || !strings.Contains(err.Error(), "leave it out") {
		t.Errorf("%v", err)
	}
	if _, found := os.LookupEnv(restartVariable); found {
		t.Error("the variable is still there")
	}
	t.Setenv(restartVariable, `{"Sockets":{"Of":{"beanstalkd":[987]}}}`)
	l, err := readInherited()
	must(t, err)
	if _, err := l.Sockets.Sockets(); err == nil || !strings.Contains(err.Error(), "987") {
		t.Errorf("%v", err)
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
