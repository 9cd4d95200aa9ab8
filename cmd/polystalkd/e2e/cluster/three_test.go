package cluster

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// three is a cluster of three servers that vote.
func three(t *testing.T) []*node {
	t.Helper()
	all := []*node{newNode(t, "jobs1"), newNode(t, "jobs2"), newNode(t, "jobs3")}
	all[0].start("--cluster-new")
	for _, n := range all[1:] {
		n.start("--cluster-join", all[0].cluster)
	}
	awaitVoters(t, all[0], 3)
	return all
}

// awaitVoters waits until so many servers vote, and all members are connected.
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

// leader is the one that leads, as all of them who run agree, and the others.
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
	all := three(t)
	for i, n := range all {
		if !n.put(fmt.Sprint("job", i)) {
			t.Fatalf("%s takes no job", n.name)
		}
	}
	l, others := leader(t, all)
	if got := ask(others[0].queue, "reserve-with-timeout 10\r\n"); !strings.HasPrefix(got, "RESERVED 1 4\r\njob0\r\n") {
		t.Errorf("a worker at another server hears %q", got)
	}
	l.Crash()
	eventually(t, "another server takes jobs", func() bool { return others[1].put("after") })
	if got := others[0].ready(); got != "4" {
		t.Errorf("%q jobs are ready, want 4", got)
	}
	l.start()
	now, _ := leader(t, all)
	if now == l {
		t.Errorf("%s leads again, though it only came back", l.name)
	}
	if got := l.ready(); got != "4" {
		t.Errorf("at the one that came back %q jobs are ready, want 4", got)
	}
}

// TestLogsNameTheLeader: each server says once who leads, and that servers join, and that another
// one leads, is nothing that an operator is warned of.
func TestLogsNameTheLeader(t *testing.T) {
	all := three(t)
	if out := operate(t, "cluster", "transfer", "jobs2", "--dir", all[0].dir); out.Code != 0 {
		t.Fatalf("%+v", out)
	}
	all[1].WaitLog("this server leads: clients are served here")
	for _, n := range []*node{all[0], all[2]} {
		eventually(t, n.name+" says who leads", func() bool {
			return strings.Contains(n.LogText(), `"msg":"another server leads: clients are handed to it","node":"jobs2"`)
		})
	}
	said := make(map[string]bool)
	for line := range strings.Lines(all[2].LogText()) {
		_, who, ok := strings.Cut(line, `"another server leads: clients are handed to it",`)
		if ok && said[who] {
			t.Errorf("%s says twice %s", all[2].name, who)
		}
		said[who] = ok
	}
	if !strings.Contains(all[2].LogText(), `"another server leads: clients are handed to it","node":"jobs1"`) {
		t.Errorf("%s does not say that jobs1 led", all[2].name)
	}
	if line := all[0].WaitLog("beginning anew"); line["level"] != "INFO" || !strings.Contains(fmt.Sprint(line["next"]), "nothing that was acknowledged is lost") {
		t.Errorf("the one that led says %v", line)
	}
	for _, n := range all {
		for line := range strings.Lines(n.LogText()) {
			if strings.Contains(line, `"level":"WARN"`) && strings.Contains(line, `"node":`) {
				t.Errorf("%s warns: %s", n.name, line)
			}
		}
	}
}

// TestDeposedBeginsAnew: a leader that stood still long enough for another to lead begins anew as
// the same process, with the same sockets, and follows.
func TestDeposedBeginsAnew(t *testing.T) {
	all := three(t)
	l, others := leader(t, all)
	if !l.put("one") {
		t.Fatal("a job was not taken")
	}
	l.Signal(syscall.SIGSTOP)
	leader(t, others) // who comes before that is handed to one that does not answer
	if !others[0].put("two") {
		t.Error("the new leader takes no jobs")
	}
	l.Signal(syscall.SIGCONT)
	l.WaitLog("beginning anew")
	if now, _ := leader(t, all); now == l {
		t.Errorf("%s leads", l.name)
	}
	if got := l.ready(); got != "2" {
		t.Errorf("%q jobs are ready, want 2", got)
	}
	select {
	case <-l.Done:
		t.Error("its process has ended")
	default:
	}
}

// TestSigtermHandsOver: another leads by the time that the process has ended, and nothing is lost,
// also where two signals ask for it in a moment.
func TestSigtermHandsOver(t *testing.T) {
	all := three(t)
	l, others := leader(t, all)
	if !l.put("one") {
		t.Fatal("a job was not taken")
	}
	l.Signal(syscall.SIGTERM)
	l.Signal(syscall.SIGINT)
	l.EndsWith(0)
	if strings.Contains(l.LogText(), "ending at once") {
		t.Errorf("it did not hand over: %s", l.LogText())
	}
	leader(t, others)
	if !others[0].put("two") || others[1].ready() != "2" {
		t.Errorf("%q jobs are ready, want 2", others[1].ready())
	}
}

// TestOperatorsChangeTheCluster at any server: who leads, and who belongs to it.
func TestOperatorsChangeTheCluster(t *testing.T) {
	all := three(t)
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
	if out := cluster(0, "status", "--dir", third.dir); !strings.Contains(out.Stdout, l.name+"  voter  yes") {
		t.Errorf("%s", out.Stdout)
	}
	cluster(0, "transfer", to.name, "--dir", third.dir)
	if now, _ := leader(t, all); now != to {
		t.Errorf("%s leads, want %s", now.name, to.name)
	}
	if out := cluster(0, "transfer", to.name, "--dir", third.dir); !strings.Contains(out.Stdout, to.name+"  voter  yes") {
		t.Errorf("to who leads already: %s", out.Stdout)
	}
	cluster(1, "remove", to.name, "--dir", third.dir)
	cluster(2, "remove", "jobs9", "--dir", third.dir)
	cluster(0, "remove", third.name, "--dir", l.dir)
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
	n.EndsWith(fault.Removed)
	for _, s := range []string{"flag -b: ", n.name, "was removed from its cluster", "--cluster-join 127.0.0.1:", "recover-alone " + n.dir} {
		if !strings.Contains(n.LogText(), s) {
			t.Errorf("it says nothing of %q: %s", s, n.LogText())
		}
	}
}

// TestRemovedWhileDown: a server that was down, or stood still, while it was removed finds out from
// the others once it is back, and ends; one that still is a member goes on, whoever is not there.
func TestRemovedWhileDown(t *testing.T) {
	for name, away := range map[string]struct {
		goes, comesBack func(*node)
	}{
		"down":   {(*node).Crash, func(n *node) { n.launch() }},
		"frozen": {func(n *node) { n.Signal(syscall.SIGSTOP) }, func(n *node) { n.Signal(syscall.SIGCONT) }},
	} {
		t.Run(name, func(t *testing.T) {
			all := three(t)
			l, others := leader(t, all)
			away.goes(others[0])
			eventually(t, "it is removed", func() bool {
				return operate(t, "cluster", "remove", others[0].name, "--dir", l.dir).Code == 0
			})
			away.comesBack(others[0])
			wantRemoved(t, others[0])
			l.Crash() // of the two that are left, so that no server leads
			others[1].WaitLog("no connection to another server of the cluster; trying again")
			l.start()
			eventually(t, "the two go on", func() bool { return others[1].put("after") })
		})
	}
}

// TestServersMove: one that is started at another address is found there by the others, and so is
// one that leads.
func TestServersMove(t *testing.T) {
	all := three(t)
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
	if !all[0].put("one") || all[1].ready() != "1" {
		t.Error("the cluster is not what it was")
	}
}
