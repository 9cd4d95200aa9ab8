package cluster

import (
	"fmt"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
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
