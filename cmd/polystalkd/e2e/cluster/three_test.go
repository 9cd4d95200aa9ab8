package cluster

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/admin"
)

// three starts a cluster of three servers that vote.
func three(t *testing.T, timeout string) []*node {
	t.Helper()
	all := []*node{newNode(t, "jobs1"), newNode(t, "jobs2"), newNode(t, "jobs3")}
	for _, n := range all {
		n.timeout = timeout
	}
	startAll(t, all)
	return all
}

// startAll starts a cluster of servers that vote.
func startAll(t *testing.T, all []*node) {
	t.Helper()
	all[0].start("--cluster-new")
	for _, n := range all[1:] {
		n.launch("--cluster-join", all[0].cluster)
	}
	for _, n := range all[1:] {
		n.serves()
	}
	awaitVoters(t, all[0], len(all))
}

// awaitVoters waits for a number of voters that are all connected.
func awaitVoters(t *testing.T, ask *node, voters int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d servers vote", voters), func() bool { return votes(ask, voters) })
}

// votes reports whether a server knows a leader and a number of members, all voters and connected.
func votes(ask *node, voters int) bool {
	k := ask.status()
	if k == nil || k.Leader == nil || len(k.Members) != voters {
		return false
	}
	for _, m := range k.Members {
		if m.Kind != admin.MemberVotes || !m.Connected {
			return false
		}
	}
	return true
}

// leader waits until all running servers agree on the leader, and returns it and the others.
func leader(t *testing.T, all []*node) (leads *node, others []*node) {
	t.Helper()
	eventually(t, "all know the leader", func() bool {
		leads, others = nil, nil
		name := ""
		for _, n := range all {
			k := n.status()
			if k == nil || k.Leader == nil || name != "" && name != *k.Leader {
				return false
			}
			name = *k.Leader
		}
		for _, n := range all {
			if n.name == name {
				leads = n
			} else {
				others = append(others, n)
			}
		}
		return leads != nil
	})
	return leads, others
}

// A job that was put at one server is reserved at another. After SIGTERM, a restart at another
// address and a kill of the leader, no acknowledged job is lost.
func TestAnyServerTakesClients(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, "5s") // a server that returns is not elected by chance
	var jobs tally
	for i, n := range all {
		jobs.put(n, fmt.Sprint("job", i))
	}
	l, others := leader(t, all)
	got := ""
	eventually(t, "a worker at another server is answered", func() bool {
		got = ask(others[0].queue, "reserve-with-timeout 10\r\n")
		return got != ""
	})
	if !strings.HasPrefix(got, "RESERVED ") || !strings.Contains(got, " 4\r\njob0\r\n") {
		t.Errorf("a worker at another server hears %q", got)
	}
	l.Signal(syscall.SIGTERM)
	l.Signal(syscall.SIGINT) // the same at the same moment
	l.EndsWith(0)
	if l.LogHas("ending at once") {
		t.Errorf("it did not hand over: %s", l.LogText())
	}
	leader(t, others)
	jobs.put(others[0], "two")
	l.cluster = daemon.FreeAddress(t)
	l.start()
	for _, n := range others {
		eventually(t, "the server is found at its new address", func() bool { return isAt(n, l) })
	}

	l, others = leader(t, all)
	l.Crash()
	jobs.put(others[1], "after")
	jobs.wantReady(others[0])
	l.start()
	if now, _ := leader(t, all); now == l {
		t.Errorf("%s leads again after its restart", l.name)
	}
	jobs.wantReady(l)
}

// Any server takes commands that change the leader and the members. A server that a majority needs
// is not removed, and one that is down cannot be made the leader.
func TestOperatorsChangeTheCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	l, others := leader(t, all)
	to, third := others[0], others[1]
	cluster := func(code int, says string, args ...string) {
		t.Helper()
		out := operate(t, append([]string{"cluster"}, args...)...)
		if out.Code != code || !strings.Contains(out.Stdout+out.Stderr, says) {
			t.Errorf("%v: exit code %d: %s%s, want %d and %q", args, out.Code, out.Stdout, out.Stderr, code, says)
		}
	}
	cluster(0, l.name+"  leader ", "status", "--dir", third.dir)
	cluster(0, "", "transfer", to.name, "--dir", third.dir)
	if now, _ := leader(t, all); now != to {
		t.Fatalf("%s leads, want %s", now.name, to.name)
	}
	cluster(0, "transfer: "+to.name+" leads\n", "transfer", to.name, "--dir", third.dir) // it leads already
	cluster(1, "", "remove", to.name, "--dir", third.dir)
	cluster(2, "", "remove", "jobs9", "--dir", third.dir)

	third.Crash()
	eventually(t, "the leader does not hear "+third.name, func() bool { m := to.member(third.name); return m != nil && !m.Connected })
	cluster(1, "be reached", "remove", l.name, "--dir", to.dir)
	cluster(1, "start ", "transfer", third.name, "--dir", to.dir)
	third.start()
	awaitVoters(t, to, 3)

	remove(t, third, l) // l may be restarting as a follower
	wantRemoved(t, third)
	third.launch()
	wantRemoved(t, third) // and it stays so
	third.empty()
	third.start("--cluster-join", l.cluster)
	awaitVoters(t, to, 3)
}

// remove removes a member through a server.
func remove(t *testing.T, one, at *node) {
	t.Helper()
	eventually(t, one.name+" is removed", func() bool {
		return operate(t, "cluster", "remove", one.name, "--dir", at.dir).Code == 0
	})
}

// wantRemoved expects a server to end because it was removed from its cluster, and to log a remedy.
func wantRemoved(t *testing.T, n *node) {
	t.Helper()
	eventually(t, n.name+" ends", n.ended)
	n.EndsWith(fault.Removed)
	n.wantLogged("flag -b: ", n.name, "was removed from its cluster", "--cluster-join 127.0.0.1:", "recover-alone "+n.dir)
}

// A server that was down or frozen while it was removed learns of that from the others, and ends. A
// member that hears nothing from the others continues.
func TestRemovedWhileDown(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, swift)
	l, others := leader(t, all)
	frozen, last := others[0], others[1]
	frozen.Freeze()
	remove(t, frozen, l)
	frozen.Signal(syscall.SIGCONT)
	wantRemoved(t, frozen)

	down := newNode(t, "jobs4")
	down.timeout = swift
	down.start("--cluster-join", l.cluster)
	awaitVoters(t, l, 3)
	down.Crash()
	remove(t, down, l)
	down.launch()
	wantRemoved(t, down)

	l.Crash() // one of the last two, so that no server leads
	last.WaitLog("no connection to another server of the cluster; trying again")
	l.start()
	eventually(t, "both servers continue", func() bool { return last.put("after") })
}

// empty removes all files of a server's directory.
func (n *node) empty() {
	n.t.Helper()
	if err := os.RemoveAll(n.dir); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		n.t.Fatal(err)
	}
}
