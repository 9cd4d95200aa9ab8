package cluster

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
)

// fill puts jobs of a size in bytes.
func (n *node) fill(jobs, size int) {
	n.t.Helper()
	n.work(jobs, size, false)
}

// churn puts jobs of a size in bytes, and deletes them.
func (n *node) churn(jobs, size int) {
	n.t.Helper()
	n.work(jobs, size, true)
}

// work does either, on a connection of its own, fifty at a time.
func (n *node) work(jobs, size int, remove bool) {
	n.t.Helper()
	c, err := net.Dial("tcp", n.queue)
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(6 * daemon.Hang))
	answers := replies{t: n.t, from: c}
	put := fmt.Sprintf("put 9 0 60 %d\r\n%s\r\n", size, strings.Repeat("x", size))
	for ; jobs > 0; jobs -= 50 {
		fmt.Fprint(c, strings.Repeat(put, 50))
		var ids []string
		for range 50 {
			answer := answers.line()
			id, ok := strings.CutPrefix(answer, "INSERTED ")
			if !ok {
				n.t.Fatalf("a job was not taken: %s", answer)
			}
			ids = append(ids, id)
		}
		if !remove {
			continue
		}
		fmt.Fprint(c, "delete "+strings.Join(ids, "\r\ndelete ")+"\r\n")
		for range ids {
			if got := answers.line(); got != "DELETED" {
				n.t.Fatalf("a job was not deleted: %s", got)
			}
		}
	}
}

// replies are what a server answers, a line at a time.
type replies struct {
	t    *testing.T
	from net.Conn
	rest string
}

func (r *replies) line() string {
	r.t.Helper()
	for {
		if line, rest, ok := strings.Cut(r.rest, "\r\n"); ok {
			r.rest = rest
			return line
		}
		b := make([]byte, 16<<10)
		k, err := r.from.Read(b)
		if err != nil {
			r.t.Fatal(err)
		}
		r.rest += string(b[:k])
	}
}

// has is how many files of its directory have names like that.
func (n *node) has(pattern string) int {
	list, err := filepath.Glob(filepath.Join(n.dir, pattern))
	if err != nil {
		n.t.Fatal(err)
	}
	return len(list)
}

// awaitCopy waits until a member is of a kind, and has all, by what the leader says.
func awaitCopy(t *testing.T, leader *node, name, kind string) {
	t.Helper()
	eventually(t, name+" is a "+kind+" that has all", func() bool {
		k := leader.status()
		if k == nil {
			return false
		}
		for _, m := range k.Members {
			if m.Name == name {
				return m.Kind == kind && m.Connected && m.LagEntries != nil && *m.LagEntries == 0
			}
		}
		return false
	})
}

// lead has another server lead. Of two the one that led may be elected again, if it begins anew
// before its vote has gone out.
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

// goesOn ends a server that is alone in voting, and starts it as it is to be from then on.
func (n *node) goesOn(flags ...string) {
	n.t.Helper()
	n.Crash()
	n.start(flags...)
	n.WaitLog("this server leads: clients are served here")
}

// TestJoinIsKilled again and again while the journal comes: it goes on under the same name, and
// has all jobs in the end.
func TestJoinIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	first, second := newNode(t, "jobs1"), newNode(t, "jobs2")
	first.timeout, second.timeout = swift, swift
	first.start("--cluster-new", "--cluster-catchup-rate", "1500000") // the whole takes many seconds
	first.WaitLog("this server leads: clients are served here")
	first.fill(1400, 10_000)
	for i, segments := range []int{1, 2, 1} {
		second.launch("--cluster-join", first.cluster)
		eventually(t, "it is sent something", func() bool { return second.has("incoming.*") >= segments })
		second.Crash()
		if second.has("cluster.joining") != 1 || second.has("cluster.state") != 0 {
			t.Fatalf("after end %d it holds %s", i+1, files(t, second.dir))
		}
	}
	first.goesOn()
	// It is no server's of its own meanwhile.
	got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l", "127.0.0.1", "-p", "0", "-b", second.dir)
	if got.Code != 10 || !strings.Contains(got.Stderr, "--cluster-join") {
		t.Errorf("as a server of its own: exit code %d: %s", got.Code, got.Stderr)
	}
	second.start("--cluster-join", first.cluster)
	awaitVoters(t, first, 2)
	if second.has("incoming.*")+second.has("cluster.joining")+second.has("exchange.*") > 0 {
		t.Errorf("there is still %s", files(t, second.dir))
	}
	lead(t, []*node{first, second}, second)
	(&tally{1400, 1400}).wantReady(second)
}

// The status of the leader shows how much of the journal was sent, until the other server has
// caught up.
func TestJoinShowsHowFarItIs(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	first, second := newNode(t, "jobs1"), newNode(t, "jobs2")
	first.timeout, second.timeout = swift, swift
	first.start("--cluster-new", "--cluster-catchup-rate", "300000") // the whole takes more than thirty seconds
	first.WaitLog("this server leads: clients are served here")
	first.fill(1000, 10_000)
	fetching := func() *admin.ClusterFetching {
		if k := first.status(); k != nil {
			for _, m := range k.Members {
				if m.Name == second.name {
					return m.Fetching
				}
			}
		}
		return nil
	}
	fetching() // the program is there from now on
	second.launch("--cluster-join", first.cluster)
	was := new(admin.ClusterFetching)
	eventually(t, "it is shown to go on", func() bool {
		now := fetching()
		if now == nil || now.SentBytes == 0 {
			return false
		}
		if now.AllBytes < 10_000_000 || now.SentBytes > now.AllBytes || now.Begun.IsZero() {
			t.Fatalf("%+v", now)
		}
		defer func() { was = now }()
		return was.SentBytes > 0 && now.SentBytes > was.SentBytes
	})
	first.goesOn()
	awaitVoters(t, first, 2)
	if now := fetching(); now != nil {
		t.Errorf("then there is still %+v", now)
	}
}

// TestJoinIsRefused for what belongs to another member, with what to do.
func TestJoinIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	first := newNode(t, "jobs1")
	first.start("--cluster-new")
	first.WaitLog("this server leads: clients are served here")
	same := newNode(t, "jobs1")
	same.launch("--cluster-join", first.cluster)
	same.EndsWith(5)
	if !strings.Contains(same.LogText(), "polystalk cluster remove jobs1") {
		t.Errorf("it says %s", same.LogText())
	}
	if k := first.status(); k == nil || len(k.Members) != 1 {
		t.Errorf("%+v", k)
	}
	own := newNode(t, "jobs3")
	own.launch("--cluster-join", own.cluster)
	own.EndsWith(5)
	if !strings.Contains(own.LogText(), "flag --cluster-join: every address that it gives is this server's own") {
		t.Errorf("of its own address it says %s", own.LogText())
	}
	for _, n := range []*node{same, own} {
		if n.has("cluster.*") > 0 {
			t.Errorf("%s: a start that was refused leaves files of a cluster", n.name)
		}
	}
	own.start("--cluster-new") // as the refusal says
	own.WaitLog("this server leads: clients are served here")
	own.Crash()
	own = newNode(t, "jobs3")
	own.launch("--cluster-join", first.queue)
	own.WaitLog("this server has not joined the cluster yet; trying again")
	if !strings.Contains(own.LogText(), first.queue+" is a port for beanstalkd's clients") {
		t.Errorf("of a port for clients it says %s", own.LogText())
	}
	// With nobody to ask it goes on asking, and ends when it is told to.
	lost := newNode(t, "jobs2")
	lost.launch("--cluster-join", daemon.FreeAddress(t))
	lost.WaitLog("this server has not joined the cluster yet; trying again")
	lost.Signal(syscall.SIGTERM)
	lost.EndsWith(0)
}

// TestAwayTooLong: a server that was away until the others had given up what it lacks gets the
// journal of the leader, though it is killed while that comes.
func TestAwayTooLong(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	first, second := newNode(t, "jobs1"), newNode(t, "jobs2")
	first.timeout, second.timeout = swift, swift
	first.start("--cluster-new", "--cluster-catchup-rate", "2500000")
	second.start("--cluster-join", first.cluster, "--cluster-standby")
	awaitCopy(t, first, "jobs2", "standby")
	first.fill(1000, 10_000)
	awaitCopy(t, first, "jobs2", "standby")
	had := second.has("journal.*")
	second.Crash()
	gone := fmt.Sprintf("journal.%010d", had+1) // all that the other has a part of
	eventually(t, "the leader has given up what the other lacks", func() bool {
		first.churn(2000, 10_000)
		return first.has("journal.*") > 0 && first.has(gone) == 0
	})
	for range 2 {
		second.launch()
		second.WaitLog("this server lacks more than the others have as entries, and fetches the journal")
		eventually(t, "it is sent something", func() bool { return second.has("incoming.*") > 1 })
		second.Crash()
	}
	first.goesOn()
	second.start()
	second.WaitLog("beginning anew")
	awaitCopy(t, first, "jobs2", "standby")
	first.fill(50, 100)
	awaitCopy(t, first, "jobs2", "standby")
	if out := operate(t, "cluster", "promote", "jobs2", "--dir", first.dir); out.Code != 0 {
		t.Fatalf("%s%s", out.Stdout, out.Stderr)
	}
	awaitVoters(t, first, 2)
	lead(t, []*node{first, second}, second)
	(&tally{1050, 1050}).wantReady(second)
}
