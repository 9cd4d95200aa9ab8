package cluster

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/admin"
)

// twinOf copies a node's directory, for a process at another address.
func twinOf(t *testing.T, n *node) *node {
	t.Helper()
	twin := newNode(t, n.name)
	twin.timeout = n.timeout
	if out, err := exec.Command("cp", "-a", n.dir+"/.", twin.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return twin
}

// stoppedWithTwin is a server of three that was stopped, a copy of it, and another server that runs.
func stoppedWithTwin(t *testing.T) (original, twin, other *node) {
	t.Helper()
	_, others := leader(t, three(t, steady))
	others[0].Signal(syscall.SIGTERM)
	others[0].EndsWith(0)
	return others[0], twinOf(t, others[0]), others[1]
}

// wantTwin wants a process to end because another one at an address is the same server.
func wantTwin(t *testing.T, n *node, address string) {
	t.Helper()
	eventually(t, n.name+" ends", n.ended)
	n.EndsWith(fault.Removed)
	for _, s := range []string{"flag -b: ", n.dir, "another process runs as that server at " + address, "delete"} {
		if !strings.Contains(n.LogText(), s) {
			t.Errorf("it says nothing of %q: %s", s, n.LogText())
		}
	}
}

// TestACopyOfADirectoryEnds at its start, whichever server it is a copy of, and whether the copy or
// only another server can reach the original. The original goes on.
func TestACopyOfADirectoryEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	var jobs tally
	for round := range 2 {
		l, others := leader(t, all)
		original := []*node{l, others[0]}[round%2]
		twin := twinOf(t, original)
		reach := original.cluster
		if round/2%2 == 1 {
			reach = daemon.FreeAddress(t) // nothing listens there
		}
		twin.launch("--cluster-dial", original.cluster+"="+reach)
		wantTwin(t, twin, original.cluster)
		if original.ended() {
			t.Fatalf("the original has ended: %s", original.LogText())
		}
		jobs.put(original, "job")
		if !isAt(all[round%3], original) {
			t.Errorf("%s is not found at its address", original.name)
		}
	}
	jobs.wantReady(all[1])
}

// TestACopyThatRunsIsNamed by the original, which ends: the copy was started while it was down, and
// has its address.
func TestACopyThatRunsIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	original, twin, other := stoppedWithTwin(t)
	twin.start()
	eventually(t, "the copy is found at its address", func() bool { return isAt(other, twin) })
	original.launch()
	wantTwin(t, original, twin.cluster)
	if !isAt(other, twin) {
		t.Errorf("the copy has lost its place")
	}
}

// isAt reports whether a server is connected at its own address, as another one knows.
func isAt(ask, n *node) bool {
	k := ask.status()
	return k != nil && slices.ContainsFunc(k.Members, func(m admin.ClusterMember) bool {
		return m.Name == n.name && m.Address == n.cluster && m.Connected
	})
}

// TestTheOriginalTakesItsAddressBack: an old copy that was started while the original was down took
// its address, and ended, since it lacks what the original had acknowledged.
func TestTheOriginalTakesItsAddressBack(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	l, others := leader(t, all)
	original := others[0]
	twin := twinOf(t, original)
	var jobs tally
	jobs.put(l, "one")
	awaitCopy(t, l, original.name, "voter")
	original.Signal(syscall.SIGTERM)
	original.EndsWith(0)
	twin.launch()
	twin.EndsWith(fault.Removed)
	said := twin.LogText()
	if !strings.Contains(said, "polystalk cluster remove "+original.name+" at another server") || !strings.Contains(said, "--cluster-join 127.0.0.1:") {
		t.Errorf("it does not say what to do: %s", said)
	}
	if strings.Contains(said, "tocommit") {
		t.Errorf("it has the text of a library: %s", said)
	}
	if isAt(l, original) {
		t.Error("the copy did not take the address")
	}
	original.start()
	eventually(t, "the original is found at its address", func() bool { return isAt(l, original) })
	jobs.put(original, "two")
	jobs.wantReady(original)
}

// TestAProcessMayHaveTwoAddresses: a server that is given another name for the address at which it still
// listens is found by that name.
func TestAProcessMayHaveTwoAddresses(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	n, _, other := stoppedWithTwin(t)
	_, port, _ := strings.Cut(n.cluster, ":")
	n.cluster = "localhost:" + port
	n.start()
	eventually(t, "it is found by its name", func() bool { return isAt(other, n) })
}
