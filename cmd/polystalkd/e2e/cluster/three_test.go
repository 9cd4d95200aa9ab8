package cluster

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/admin"
)

// three is a cluster of three servers that vote.
func three(t *testing.T, timeout string) []*node {
	t.Helper()
	all := []*node{newNode(t, "jobs1"), newNode(t, "jobs2"), newNode(t, "jobs3")}
	for _, n := range all {
		n.timeout = timeout
	}
	startAll(t, all)
	return all
}

// startAll makes a cluster of servers that vote.
func startAll(t *testing.T, all []*node, more ...string) {
	t.Helper()
	all[0].start(append([]string{"--cluster-new"}, more...)...)
	for _, n := range all[1:] {
		n.launch(append([]string{"--cluster-join", all[0].cluster}, more...)...)
	}
	for _, n := range all[1:] { // they come at the same time, which is sooner
		n.serves()
	}
	awaitVoters(t, all[0], len(all))
}

// awaitVoters waits for a number of voters that are all connected.
func awaitVoters(t *testing.T, ask *node, voters int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d servers vote", voters), func() bool {
		k := ask.status()
		if k == nil || k.Leader == nil || len(k.Members) != voters {
			return false
		}
		for _, m := range k.Members {
			if m.Kind != "voter" || !m.Connected {
				return false
			}
		}
		return true
	})
}

// leader waits until all running servers agree on the leader, and returns it and the others.
func leader(t *testing.T, all []*node) (leads *node, others []*node) {
	t.Helper()
	eventually(t, "all know who leads", func() bool {
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

// TestAnyServerTakesClients: what is put at one is reserved at another; the leader is killed, and
// nothing that was acknowledged is lost.
func TestAnyServerTakesClients(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, "5s") // the one that comes back is not to be elected by chance
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
	l.Crash()
	jobs.put(others[1], "after")
	jobs.wantReady(others[0])
	l.start()
	now, _ := leader(t, all)
	if now == l {
		t.Errorf("%s leads again, though it only came back", l.name)
	}
	jobs.wantReady(l)
}

// TestSigtermHandsOver: another leads by the time that the process has ended, and nothing is lost,
// also where two signals ask for it in a moment.
func TestSigtermHandsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	var jobs tally
	l, others := leader(t, all)
	jobs.put(l, "one")
	l.Signal(syscall.SIGTERM)
	l.Signal(syscall.SIGINT)
	l.EndsWith(0)
	if strings.Contains(l.LogText(), "ending at once") {
		t.Errorf("it did not hand over: %s", l.LogText())
	}
	leader(t, others)
	jobs.put(others[0], "two")
	jobs.wantReady(others[1])
}

// Any server takes commands that change the leader and the members.
func TestOperatorsChangeTheCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	l, others := leader(t, all)
	to, third := others[0], others[1]
	cluster := func(code int, args ...string) daemon.Outcome {
		t.Helper()
		out := operate(t, append([]string{"cluster"}, args...)...)
		if out.Code != code {
			t.Errorf("%v: exit code %d: %s%s", args, out.Code, out.Stdout, out.Stderr)
		}
		return out
	}
	if out := cluster(0, "status", "--dir", third.dir); !strings.Contains(out.Stdout, l.name+"  leader ") {
		t.Errorf("%s", out.Stdout)
	}
	cluster(0, "transfer", to.name, "--dir", third.dir)
	if now, _ := leader(t, all); now != to {
		t.Fatalf("%s leads, want %s", now.name, to.name)
	}
	if out := cluster(0, "transfer", to.name, "--dir", third.dir); !strings.Contains(out.Stdout, to.name+"  leader ") {
		t.Errorf("to who leads already: %s", out.Stdout)
	}
	cluster(1, "remove", to.name, "--dir", third.dir)
	cluster(2, "remove", "jobs9", "--dir", third.dir)
	eventually(t, "the third is removed", func() bool { // the one that led may be beginning anew
		return operate(t, "cluster", "remove", third.name, "--dir", l.dir).Code == 0
	})
	wantRemoved(t, third)
	third.launch()
	wantRemoved(t, third) // and it stays so

	os.RemoveAll(third.dir)
	if err := os.Mkdir(third.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	third.start("--cluster-join", l.cluster)
	awaitVoters(t, to, 3)
}

// wantRemoved wants a server to end because it was removed from its cluster, and to say what to do.
func wantRemoved(t *testing.T, n *node) {
	t.Helper()
	eventually(t, n.name+" ends", n.ended)
	n.EndsWith(fault.Removed)
	for _, s := range []string{"flag -b: ", n.name, "was removed from its cluster", "--cluster-join 127.0.0.1:", "recover-alone " + n.dir} {
		if !strings.Contains(n.LogText(), s) {
			t.Errorf("it says nothing of %q: %s", s, n.LogText())
		}
	}
}

// TestWhoIsNeededStays: the last of three that is left beside the leader is not removed, nor is the
// lead given to the one that is down, which can be removed.
func TestWhoIsNeededStays(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	l, others := leader(t, all)
	down, other := others[0], others[1]
	down.Crash()
	eventually(t, "the leader misses "+down.name, func() bool {
		k := l.status()
		if k == nil {
			return false
		}
		i := slices.IndexFunc(k.Members, func(m admin.ClusterMember) bool { return m.Name == down.name })
		return i >= 0 && !k.Members[i].Connected
	})
	for _, args := range [][]string{{"remove", other.name}, {"transfer", down.name}} {
		out := operate(t, append(append([]string{"cluster"}, args...), "--dir", l.dir)...)
		if out.Code != 1 || !strings.Contains(out.Stderr, "be reached") || !strings.Contains(out.Stderr, "start ") {
			t.Errorf("%v: exit code %d: %s%s", args, out.Code, out.Stdout, out.Stderr)
		}
	}
	if out := operate(t, "cluster", "remove", down.name, "--dir", l.dir); out.Code != 0 {
		t.Errorf("the one that is down: exit code %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
}

// TestRemovedWhileDown: a server that was down, or stood still, while it was removed finds out from
// the others once it is back, and ends; one that still is a member goes on, though the other is not there.
func TestRemovedWhileDown(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for name, away := range map[string]struct {
		goes, comesBack func(*node)
	}{
		"down":   {(*node).Crash, func(n *node) { n.launch() }},
		"frozen": {func(n *node) { n.Freeze() }, func(n *node) { n.Signal(syscall.SIGCONT) }},
	} {
		t.Run(name, func(t *testing.T) {
			all := three(t, swift)
			l, others := leader(t, all)
			away.goes(others[0])
			eventually(t, "it is removed", func() bool {
				return operate(t, "cluster", "remove", others[0].name, "--dir", l.dir).Code == 0
			})
			away.comesBack(others[0])
			wantRemoved(t, others[0])
			if name != "down" {
				return // the others have nothing to do with how it was away
			}
			l.Crash() // of the two that are left, so that no server leads
			eventually(t, "it misses the other", func() bool {
				return others[1].LogHas(`"msg":"no connection to another server of the cluster; trying again"`)
			})
			l.start()
			eventually(t, "the two go on", func() bool { return others[1].put("after") })
		})
	}
}

// TestServersMove: one that is started at another address is found there by the others, and so is
// one that leads.
func TestServersMove(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, steady)
	for _, n := range all {
		n.Signal(syscall.SIGTERM)
		n.EndsWith(0)
		n.cluster = daemon.FreeAddress(t)
		n.start()
		eventually(t, n.name+" is found at its new address", func() bool {
			for _, o := range all {
				k := o.status()
				if k == nil || k.Leader == nil {
					return false
				}
				for _, m := range k.Members {
					if m.Name == n.name && m.Address != n.cluster || !m.Connected {
						return false
					}
				}
			}
			return true
		})
	}
	var jobs tally
	jobs.put(all[0], "one")
	jobs.wantReady(all[1])
}
