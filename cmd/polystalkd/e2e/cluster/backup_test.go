package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A server without a cluster starts on a backup from any server, and on the directory of a server
// after the cluster has lost its majority. Such a directory can also start a new cluster.
func TestMajorityIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	l, others := leader(t, all)
	l.work(500, 1000, false)
	l.work(1000, 1000, true)
	last := others[0]
	says := func(code int, says string, args ...string) {
		t.Helper()
		got := operate(t, append([]string{"cluster"}, args...)...)
		if got.Code != code || !strings.Contains(got.Stdout+got.Stderr, says) {
			t.Fatalf("%v: exit code %d: %s%s, want %d and %q", args, got.Code, got.Stdout, got.Stderr, code, says)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	says(0, "", "backup", out, "--dir", last.dir)
	says(10, "not empty", "backup", out, "--dir", last.dir)
	expectJobs(t, out, 500)

	awaitCopy(t, l, last.name, "voter")
	says(10, "in use", "recover-alone", last.dir)
	last.Crash()
	says(1, l.name+" at "+l.cluster, "recover-alone", last.dir)
	says(1, "Start this server as it was", "recover-alone", last.dir)
	l.Crash()
	others[1].Crash()
	says(0, "never", "recover-alone", last.dir)
	expectJobs(t, last.dir, 500)
	last.found()
	if got := last.ready(); got != "500" {
		t.Errorf("%q jobs are ready, want 500", got)
	}
	newNode(t, "jobs4").start("--cluster-join", last.cluster)
	awaitVoters(t, last, 2)
}

// expectJobs starts a server without a cluster on a directory, with jobs 1 to n of 1000 bytes.
func expectJobs(t *testing.T, dir string, n int) {
	t.Helper()
	alone := daemon.Serve(t, "-b", dir, "-s", "4194304")
	c := alone.Client()
	body := strings.Repeat("x", 1000)
	daemon.Expect(t, c, fmt.Sprintf("peek %d\r\n", n), fmt.Sprintf("FOUND %d 1000\r\n%s\r\n", n, body))
	daemon.Expect(t, c, "peek 1\r\n", fmt.Sprintf("FOUND 1 1000\r\n%s\r\n", body))
	daemon.Expect(t, c, fmt.Sprintf("peek %d\r\n", n+1), "NOT_FOUND\r\n")
	alone.Signal(syscall.SIGTERM)
	alone.EndsWith(0)
}
