package cluster

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/fault"
)

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
