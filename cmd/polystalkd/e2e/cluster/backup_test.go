package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestBackup is a directory that a server of its own starts on; any server of the cluster makes it.
func TestBackup(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := []*node{newNode(t, "jobs1"), newNode(t, "jobs2")}
	startAll(t, all)
	all[0].fill(500, 1000)
	all[0].churn(1000, 1000)
	_, others := leader(t, all)
	out := filepath.Join(t.TempDir(), "out")
	if got := operate(t, "cluster", "backup", out, "--dir", others[0].dir); got.Code != 0 {
		t.Fatalf("exit code %d: %s%s", got.Code, got.Stdout, got.Stderr)
	}
	if got := operate(t, "cluster", "backup", out, "--dir", others[0].dir); got.Code == 0 || !strings.Contains(got.Stderr, "not empty") {
		t.Errorf("once more: exit code %d: %s", got.Code, got.Stderr)
	}
	new(tally).put(all[0], "one more, which is not in it")
	expectJobs(t, out, 500)
}

// expectJobs has a server of its own start on a directory, with jobs 1 to n as fill puts them.
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

// TestMajorityIsLost: one directory of three becomes a server of its own, once its process has
// ended, and the first of a cluster again.
func TestMajorityIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	l, others := leader(t, all)
	l.fill(500, 1000)
	last := others[0]
	awaitCopy(t, l, last.name, "voter")
	if got := operate(t, "cluster", "recover-alone", last.dir); got.Code == 0 || !strings.Contains(got.Stderr, "in use") {
		t.Errorf("while it runs: exit code %d: %s%s", got.Code, got.Stdout, got.Stderr)
	}
	last.Crash()
	got := operate(t, "cluster", "recover-alone", last.dir)
	if got.Code != 1 || !strings.Contains(got.Stderr, l.name+" at "+l.cluster) || !strings.Contains(got.Stderr, "Start this server as it was") {
		t.Errorf("while the others run: exit code %d: %s%s", got.Code, got.Stdout, got.Stderr)
	}
	l.Crash()
	others[1].Crash()
	if got := operate(t, "cluster", "recover-alone", last.dir); got.Code != 0 || !strings.Contains(got.Stdout, "never") {
		t.Fatalf("exit code %d: %s%s", got.Code, got.Stdout, got.Stderr)
	}
	expectJobs(t, last.dir, 500)
	last.start("--cluster-new")
	last.WaitLog("this server leads: clients are served here")
	if got := last.ready(); got != "500" {
		t.Errorf("%q jobs are ready, want 500", got)
	}
	fresh := newNode(t, "jobs4")
	fresh.start("--cluster-join", last.cluster)
	awaitVoters(t, last, 2)
}
