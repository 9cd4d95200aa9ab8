package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// awaitCopy waits until the leader says that a member is of a kind and lacks nothing.
func awaitCopy(t *testing.T, leader *node, name, kind string) {
	t.Helper()
	eventually(t, name+" is a "+kind+" that lacks nothing", func() bool {
		m := leader.member(name)
		return m != nil && m.Kind == kind && m.Connected && m.LagEntries != nil && *m.LagEntries == 0
	})
}

// lead makes another server lead. With two voters the old leader may be elected again, if it
// restarts before it has sent its vote.
func lead(t *testing.T, all []*node, to *node) {
	t.Helper()
	eventually(t, to.name+" leads", func() bool {
		if operate(t, "cluster", "transfer", to.name, "--dir", all[0].dir).Code != 0 {
			return false
		}
		l, _ := leader(t, all)
		return l == to
	})
}

// two returns two servers with a short election timeout.
func two(t *testing.T) (first, second *node) {
	first, second = newNode(t, "jobs1"), newNode(t, "jobs2")
	first.timeout, second.timeout = swift, swift
	return first, second
}

// A server that poses as another member is refused with a remedy. If no server answers, it retries.
func TestJoinIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	first := newNode(t, "jobs1")
	first.found()
	own := newNode(t, "jobs3")
	for _, tt := range []struct {
		node     *node
		at, says string
	}{
		{newNode(t, "jobs1"), first.cluster, "polystalk cluster remove jobs1"},
		{own, own.cluster, "flag --cluster-join: every given address is this server's own"},
	} {
		tt.node.launch("--cluster-join", tt.at)
		tt.node.EndsWith(5)
		tt.node.wantLogged(tt.says)
		if tt.node.has("cluster.*") > 0 {
			t.Errorf("%s: a refused start leaves files of a cluster", tt.node.name)
		}
	}
	if k := first.status(); k == nil || len(k.Members) != 1 {
		t.Errorf("%+v", k)
	}
	own.found() // the remedy of the refusal
	for _, at := range []string{first.queue, daemon.FreeAddress(t)} {
		lost := newNode(t, "jobs2")
		lost.launch("--cluster-join", at)
		lost.WaitLog("this server has not joined the cluster yet; trying again")
		if at == first.queue {
			lost.wantLogged(at + " is a port for beanstalkd's clients")
		}
		lost.Signal(syscall.SIGTERM)
		lost.EndsWith(0)
	}
}

// A server that was down until the others had dropped entries that it needs gets the leader's
// journal.
func TestServerThatWasDownForLongFetchesTheJournal(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	first, second := two(t)
	first.found("--cluster-catchup-rate", "2500000")
	second.start("--cluster-join", first.cluster, "--cluster-standby")
	awaitCopy(t, first, "jobs2", "standby")
	first.work(1000, 10_000, false)
	awaitCopy(t, first, "jobs2", "standby")
	had := second.has("journal.*")
	second.Crash()
	gone := fmt.Sprintf("journal.%010d", had+1) // the last segment that the other server has in part
	eventually(t, "the leader has dropped entries that the other lacks", func() bool {
		first.work(2000, 10_000, true)
		return first.has("journal.*") > 0 && first.has(gone) == 0
	})
	second.start()
	second.WaitLog("this server lacks entries that the others no longer have, and fetches the journal")
	second.WaitLog("restarting in the same process")
	awaitCopy(t, first, "jobs2", "standby")
	first.work(50, 100, false)
	awaitCopy(t, first, "jobs2", "standby")
	if out := operate(t, "cluster", "promote", "jobs2", "--dir", first.dir); out.Code != 0 {
		t.Fatalf("%s%s", out.Stdout, out.Stderr)
	}
	awaitVoters(t, first, 2)
	lead(t, []*node{first, second}, second)
	(&tally{1050, 1050}).wantReady(second)
}

// twinOf copies a server's directory, for a process at another address.
func twinOf(t *testing.T, n *node) *node {
	t.Helper()
	twin := newNode(t, n.name)
	twin.timeout = n.timeout
	if out, err := exec.Command("cp", "-a", n.dir+"/.", twin.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return twin
}

// wantTwin expects a process to end because another one at an address is the same server.
func wantTwin(t *testing.T, n *node, address string) {
	t.Helper()
	eventually(t, n.name+" ends", n.ended)
	n.EndsWith(fault.Removed)
	n.wantLogged("flag -b: ", n.dir, "another process runs as that server at "+address, "delete")
}

// isAt reports whether another server is connected to a server at its own address.
func isAt(ask, n *node) bool {
	m := ask.member(n.name)
	return m != nil && m.Address == n.cluster && m.Connected
}

// A copy of a directory ends at its start while the original runs. If it was started while the
// original was down, it has the address: the original ends, unless the copy lacks acknowledged jobs.
// A process may have two addresses.
func TestOneProcessPerServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	var jobs tally
	l, others := leader(t, all)
	original := others[0]
	for _, n := range []*node{l, original} {
		twin := twinOf(t, n)
		twin.launch()
		wantTwin(t, twin, n.cluster)
		if n.ended() {
			t.Fatalf("the original has ended: %s", n.LogText())
		}
		jobs.put(n, "job")
		if !isAt(others[1], n) {
			t.Errorf("%s is not found at its address", n.name)
		}
	}

	old := twinOf(t, original)
	jobs.put(l, "one")
	awaitCopy(t, l, original.name, "voter")
	original.Signal(syscall.SIGTERM)
	original.EndsWith(0)
	old.launch()
	old.EndsWith(fault.Removed)
	old.wantLogged("polystalk cluster remove "+original.name+" at another server", "--cluster-join 127.0.0.1:")
	if old.LogHas("tocommit") {
		t.Errorf("the log has a library's text: %s", old.LogText())
	}
	if isAt(l, original) {
		t.Error("the copy did not take the address")
	}
	_, port, _ := strings.Cut(original.cluster, ":")
	original.cluster = "localhost:" + port
	original.start()
	eventually(t, "the original is found at its address", func() bool { return isAt(l, original) })
	jobs.put(original, "two")
	jobs.wantReady(original)

	original.Signal(syscall.SIGTERM)
	original.EndsWith(0)
	twin := twinOf(t, original)
	twin.start()
	eventually(t, "the copy is found at its address", func() bool { return isAt(l, twin) })
	original.launch()
	wantTwin(t, original, twin.cluster)
	if !isAt(l, twin) {
		t.Error("the copy has lost its place")
	}
}

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
	for _, n := range all {
		n.Crash()
	}
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
