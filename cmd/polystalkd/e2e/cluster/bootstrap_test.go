package cluster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
	"polystalk/codec/wiretest/certtest"
)

// Another number of rounds takes a while: -bootstrap-rounds 300 -parallel 6 -timeout 2h.
var (
	bootRounds = flag.Int("bootstrap-rounds", 2, "rounds of TestBootstrapMakesOneCluster")
	bootSeed   = flag.Uint64("bootstrap-seed", 1, "seed of its first round")
)

// bootstrapping returns servers that have never run, and the flags with which each bootstraps.
func bootstrapping(t *testing.T, names ...string) (all []*node, flags []string) {
	t.Helper()
	var list []string
	for _, name := range names {
		n := newNode(t, name)
		n.timeout = swift
		all, list = append(all, n), append(list, n.cluster)
	}
	return all, []string{"--cluster-bootstrap", strings.Join(list, ",")}
}

// tryPut puts a job, and does not wait long for a leader.
func tryPut(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(c, "put 0 0 60 1\r\nx\r\n")
	b := make([]byte, 64)
	n, _ := c.Read(b)
	return strings.HasPrefix(string(b[:n]), "INSERTED ")
}

// A bootRound is one round of three servers that start at once.
type bootRound struct {
	*testing.T
	rng   *rand.Rand
	all   []*node
	flags []string
	saw   map[string]int // what the processes that have ended logged
}

// marks are log messages by what they show.
var marks = map[string]string{
	"made":    "a cluster was made of all servers in the list",
	"adopted": "this server belongs to the cluster that was made",
	"joined":  "the journal was fetched",
	"renewed": "begins to bootstrap again under another id",
	"refused": "polystalk cluster remove",
}

func (r *bootRound) note(n *node) {
	for name, text := range marks {
		r.saw[name] += strings.Count(n.LogText(), text)
	}
}

func (r *bootRound) launch(n *node) {
	if n.Server != nil && n.ended() {
		r.note(n)
	}
	if n.Server == nil || n.ended() {
		n.launch(r.flags...)
	}
}

// disturb starts a server, or kills it and perhaps loses its disk.
func (r *bootRound) disturb(n *node, wipes bool) {
	if n.Server == nil || n.ended() {
		r.launch(n)
		return
	}
	n.Crash()
	if wipes && r.rng.IntN(2) == 0 {
		n.empty()
	}
}

func (r *bootRound) sleep(most int) { time.Sleep(time.Duration(r.rng.IntN(most)) * time.Millisecond) }

// run starts, kills and wipes. Until all three servers run, no cluster can be made, so any disk may be
// lost. From then on it is always the same one.
func (r *bootRound) run() {
	r.rng.Shuffle(len(r.all), func(i, j int) { r.all[i], r.all[j] = r.all[j], r.all[i] })
	for range r.rng.IntN(5) {
		r.disturb(r.all[r.rng.IntN(2)], true)
		r.sleep(300)
	}
	for _, n := range r.all {
		r.launch(n)
		r.sleep(200)
	}
	var jobs tally
	var putting sync.WaitGroup
	over := make(chan struct{})
	queues := []string{r.all[0].queue, r.all[1].queue, r.all[2].queue}
	putting.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond):
			}
			jobs.tried++
			if tryPut(queues[i%3]) {
				jobs.acknowledged++
			}
		}
	})
	victim := r.all[r.rng.IntN(3)]
	for range 2 + r.rng.IntN(8) {
		r.sleep(900)
		n := r.all[r.rng.IntN(3)]
		r.disturb(n, n == victim)
	}
	eventually(r.T, "three servers vote", func() bool {
		for i, n := range r.all {
			if n.Server != nil && n.ended() && n.LogHas("polystalk cluster remove "+n.name) { // the operator does what it says
				operate(r.T, "cluster", "remove", n.name, "--dir", r.all[(i+1)%3].dir)
			}
			r.launch(n)
		}
		return votes(r.all[0], 3) && votes(r.all[1], 3) && votes(r.all[2], 3)
	})
	close(over)
	putting.Wait()
	jobs.put(victim, "x")
	jobs.wantReady(r.all[r.rng.IntN(3)])
	for _, n := range r.all {
		r.note(n)
	}
	r.Logf("%d jobs; %v", jobs.acknowledged, r.saw)
}

// TestBootstrapMakesOneCluster: three servers that start at once, in any order, end in one cluster that
// has every acknowledged job, after kills and with a lost disk.
func TestBootstrapMakesOneCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for i := range *bootRounds {
		seed := *bootSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := &bootRound{T: t, rng: rand.New(rand.NewPCG(seed, 1)), saw: map[string]int{}}
			r.all, r.flags = bootstrapping(t, "jobs1", "jobs2", "jobs3")
			r.run()
		})
	}
}

// TestBootstrapScales: one server serves by itself; two more join it; alone it waits for them, until they
// are removed first.
func TestBootstrapScales(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all, three := bootstrapping(t, "jobs1", "jobs2", "jobs3")
	first := all[0]
	one := []string{"--cluster-bootstrap", first.cluster}
	first.start(one...)
	first.leads()
	var jobs tally
	jobs.put(first, "one")
	for _, n := range all[1:] {
		n.start(three...)
	}
	awaitVoters(t, first, 3)
	jobs.put(all[2], "three")

	for _, n := range all {
		n.Crash()
	}
	first.start(one...)
	eventually(t, "alone it says why it waits", func() bool { return first.LogHas("no server of the cluster leads") })
	if first.LogHas("a cluster was made") {
		t.Errorf("it has made a cluster: %s", first.LogText())
	}
	for _, n := range all[1:] {
		n.start(three...)
	}
	awaitVoters(t, first, 3)
	lead(t, all, first)
	for _, n := range all[1:] {
		remove(t, n, first)
		wantRemoved(t, n)
	}
	first.Crash()
	first.start(one...)
	first.leads()
	jobs.wantReady(first)
	all[1].empty()
	all[1].start(three...) // it scales again, with an empty directory
	awaitVoters(t, first, 2)
}

// TestASecondClusterOfOneIsReplaced: a list of one server makes a cluster of an empty directory, although
// other servers, which do not run, have jobs. The remedy of the guide brings these back.
func TestASecondClusterOfOneIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all, three := bootstrapping(t, "jobs1", "jobs2", "jobs3")
	first := all[0]
	for _, n := range all {
		n.launch(three...)
	}
	for _, n := range all {
		n.serves()
	}
	awaitVoters(t, first, 3)
	var jobs tally
	jobs.put(first, "three")
	for _, n := range all {
		n.Crash()
	}
	first.empty()
	first.start("--cluster-bootstrap", first.cluster)
	first.leads() // the second cluster
	first.Crash()
	first.empty()
	for _, n := range all {
		n.launch(three...)
	}
	all[1].serves()
	all[2].serves()
	eventually(t, "the cluster refuses the empty server", first.ended)
	first.EndsWith(5)
	remove(t, first, all[1])
	first.start(three...)
	awaitVoters(t, all[1], 3)
	jobs.wantReady(first)
}

// TestBootstrapWaits: two servers with one name, and servers without certificates, make no cluster, and
// say so. Once that is corrected, they do.
func TestBootstrapWaits(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	ours := certtest.New(t)
	all, flags := bootstrapping(t, "jobs1", "jobs2", "jobs1")
	all[0].launch(append(secure(ours, "jobs1"), flags...)...)
	all[1].launch(flags...)
	all[2].launch(append(secure(ours, "jobs1"), flags...)...)
	for _, n := range all {
		n.WaitLog("this server waits to bootstrap a cluster")
	}
	eventually(t, "the cause is in the log", func() bool { return all[0].LogHas("no answer from "+all[1].cluster+`"`) && all[0].LogHas("TLS") })
	all[1].Signal(syscall.SIGTERM)
	all[1].EndsWith(0)
	all[1].launch(append(secure(ours, "jobs2"), flags...)...)
	eventually(t, "the name is in the log", func() bool {
		return all[1].LogHas(`both have the name \"jobs1\": give each another --cluster-node`)
	})
	all[2].Crash()
	all[2].name = "jobs3"
	all[2].launch(append(secure(ours, "jobs3"), flags...)...)
	for _, n := range all {
		n.serves()
	}
	awaitVoters(t, all[1], 3)
	all[1].Crash()
	all[1].start(append(secure(ours, "jobs2"), flags...)...) // the flag may stay
	awaitVoters(t, all[0], 3)
}

// TestBootstrapIsRefused: jobs of a server without a cluster are kept, and the list has the own address.
func TestBootstrapIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	alone := newNode(t, "jobs1")
	s := daemon.Serve(t, "-b", alone.dir)
	daemon.Expect(t, s.Client(), "put 0 0 60 3\r\nold\r\n", "INSERTED 1\r\n")
	s.Crash()
	was := files(t, alone.dir)
	got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), alone.args("--cluster-bootstrap", alone.cluster)...)
	if got.Code != 10 || !strings.Contains(got.Stderr, "start this server once with --cluster-new") {
		t.Errorf("exit code %d: %s", got.Code, got.Stderr)
	}
	if is := files(t, alone.dir); is != was {
		t.Errorf("there is %s, and was %s", is, was)
	}
	alone.found() // the remedy
	alone.Signal(syscall.SIGTERM)
	alone.EndsWith(0)
	alone.start("--cluster-bootstrap", alone.cluster)
	if got := alone.ready(); got != "1" {
		t.Errorf("%q jobs are ready, want 1", got)
	}

	wide := newNode(t, "jobs2")
	var many []string
	for i := range 13 {
		many = append(many, fmt.Sprintf("10.0.0.%d:1", i))
	}
	got = daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), wide.args("--cluster-bootstrap", strings.Join(append(many, wide.cluster), ","))...)
	if got.Code != 5 || !strings.Contains(got.Stderr, "--cluster-bootstrap") || !strings.Contains(got.Stderr, "12 servers") {
		t.Errorf("exit code %d: %s", got.Code, got.Stderr)
	}
	if entries, _ := os.ReadDir(wide.dir); len(entries) > 1 {
		t.Errorf("a refused start leaves %v", entries)
	}
}

// lateFounder returns a cluster with a founding member that has stopped before it knew of the cluster.
func lateFounder(t *testing.T) (all []*node, late *node, flags []string) {
	t.Helper()
	for range 20 {
		all, flags = bootstrapping(t, "jobs1", "jobs2", "jobs3")
		slices.SortFunc(all, func(a, b *node) int { return strings.Compare(a.cluster, b.cluster) })
		first, late := all[0], all[2]
		for _, n := range all {
			n.launch(flags...)
		}
		eventually(t, "the cluster is made", func() bool {
			late.Signal(syscall.SIGCONT)
			time.Sleep(30 * time.Millisecond)
			late.Freeze()
			return first.LogHas(marks["made"])
		})
		late.Crash()
		if late.has("cluster.state") == 0 {
			return all, late, flags
		}
		for _, n := range all {
			n.Crash()
		}
	}
	t.Fatal("every founding member was in time")
	return nil, nil, nil
}

// TestFoundingMemberComesLate: after changes of the members, one that still is a voter begins with an
// empty log and gets the jobs. One that was removed takes a new ID and joins.
func TestFoundingMemberComesLate(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, removed := range []bool{false, true} {
		all, late, flags := lateFounder(t)
		var jobs tally
		jobs.put(all[0], "early")
		fourth := newNode(t, "jobs4")
		fourth.timeout = swift
		fourth.start("--cluster-join", all[0].cluster)
		eventually(t, "the fourth server votes", func() bool { m := all[0].member("jobs4"); return m != nil && m.Kind == admin.MemberVotes })
		says := marks["adopted"]
		if removed {
			remove(t, late, all[1])
			says = marks["joined"]
		}
		late.start(flags...)
		awaitVoters(t, all[1], 4)
		late.wantLogged(says)
		if removed != late.LogHas(marks["renewed"]) {
			t.Errorf("removed %v: %s", removed, late.LogText())
		}
		jobs.put(late, "late")
		jobs.wantReady(late)
	}
}
