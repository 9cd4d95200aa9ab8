package cluster

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
)

// A server in place of gearmand, detached, with a PID file and relative paths, restarts as the same
// process after it has handed over.
func TestDaemonRestartsAsTheSameProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	n := newNode(t, "jobs4")
	work := daemon.ShortDir(t)
	if err := os.Rename(n.dir, filepath.Join(work, "jobs")); err != nil {
		t.Fatal(err)
	}
	n.dir = filepath.Join(work, "jobs")
	_, gear, _ := net.SplitHostPort(daemon.FreeAddress(t))
	cmd := exec.Command(daemon.Binary, "gearmand", "--daemon", "-P", "pid", "-l", "log", "--config-file", os.DevNull,
		"-L", "127.0.0.1", "-p", gear, "--beanstalk-listen", n.queue, "--journal", "jobs", "--journal-size", "4194304",
		"--cluster-listen", n.cluster, "--cluster-node", n.name, "--cluster-join", all[0].cluster, "--cluster-timeout", n.timeout)
	cmd.Dir, cmd.Env = work, daemon.CleanEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(work, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	awaitVoters(t, all[0], 4)

	for _, to := range []string{n.name, all[1].name} {
		eventually(t, to+" leads", func() bool {
			return operate(t, "cluster", "transfer", to, "--dir", all[0].dir).Code == 0
		})
	}
	logged := func() string {
		b, _ := os.ReadFile(filepath.Join(work, "log"))
		return string(b)
	}
	eventually(t, "it restarts", func() bool { return strings.Count(logged(), "msg=serving ") >= 2 })
	eventually(t, "its sockets are served", func() bool { return n.put("after") })
	daemon.Says(t, daemon.Dial(t, "127.0.0.1:"+gear), "version\n", "OK ")
	if again, err := os.ReadFile(filepath.Join(work, "pid")); err != nil || string(again) != string(text) {
		t.Errorf("the PID file has %q, had %q: %v", again, text, err)
	}
	syscall.Kill(pid, syscall.SIGTERM)
	eventually(t, "its process ends", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	if _, err := os.Stat(filepath.Join(work, "pid")); !os.IsNotExist(err) {
		t.Errorf("the PID file is left: %v\n%s", err, logged())
	}
}
