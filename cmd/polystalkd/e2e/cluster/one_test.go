package cluster

import (
	"crypto/sha256"
	"fmt"
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

// A server that is alone in its cluster has all jobs after a kill, also jobs from before it had one.
// A start that does not fit its directory is refused with a remedy, and changes nothing.
func TestClusterOfOne(t *testing.T) {
	n := newNode(t, "jobs1")
	before := daemon.Serve(t, "-b", n.dir, "-s", "4194304")
	daemon.Expect(t, before.Client(), "put 0 0 60 3\r\nold\r\n", "INSERTED 1\r\n")
	before.Signal(syscall.SIGTERM)
	before.EndsWith(0)

	n.found()
	n.wantLogged("flag --cluster-new: it has done its work: remove it now")
	for _, body := range []string{"one", "two"} {
		if !n.put(body) {
			t.Fatal("a job was not taken")
		}
	}
	k := n.status()
	if k == nil || k.Role != "leader" || k.Leader == nil || *k.Leader != "jobs1" || len(k.Members) != 1 || k.Members[0].Address != n.cluster {
		t.Errorf("%+v", k)
	}
	socket := filepath.Join(n.dir, "cluster.sock")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket of operators: %v, %v", info, err)
	}
	n.restart()
	if got := n.ready(); got != "3" {
		t.Errorf("%q jobs are ready, want 3", got)
	}
	n.Signal(syscall.SIGTERM)
	n.EndsWith(0)
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket of operators is left: %v", err)
	}

	if testing.Short() {
		return // each refusal takes a process
	}
	alone := newNode(t, "jobs2")
	s := daemon.Serve(t, "-b", alone.dir)
	daemon.Expect(t, s.Client(), "put 0 0 60 3\r\nold\r\n", "INSERTED 1\r\n")
	s.Crash()
	was := files(t, n.dir) + files(t, alone.dir)
	for name, tt := range map[string]struct {
		args []string
		says []string
	}{
		"a member alone":           {[]string{"-b", n.dir}, []string{`"jobs1"`, "give --cluster-listen"}},
		"a member made anew":       {n.args("--cluster-new"), []string{"--cluster-new", `"jobs1"`, "leave it out"}},
		"a member by another name": {append(n.args(), "--cluster-node", "jobs9"), []string{"--cluster-node", `"jobs1"`, "leave it out"}},
		"no member":                {alone.args(), []string{"no cluster", "--cluster-new", "--cluster-join"}},
		"jobs that would be lost":  {alone.args("--cluster-join", n.cluster), []string{"the journal of a single server", "give an empty one"}},
	} {
		args := append([]string{"-l", "127.0.0.1", "-p", "0"}, tt.args...)
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), args...)
		if got.Code != 10 || strings.Count(got.Stderr, "polystalkd: ") != 1 {
			t.Errorf("%s: exit code %d: %q", name, got.Code, got.Stderr)
		}
		for _, s := range tt.says {
			if !strings.Contains(got.Stderr, s) {
				t.Errorf("%s: it says %q, without %q", name, got.Stderr, s)
			}
		}
		if is := files(t, n.dir) + files(t, alone.dir); is != was {
			t.Errorf("%s: there is %s, and was %s", name, is, was)
		}
	}
}

// files lists the files of a directory with their checksums.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x, ", e.Name(), sha256.Sum256(text))
	}
	return b.String()
}

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
