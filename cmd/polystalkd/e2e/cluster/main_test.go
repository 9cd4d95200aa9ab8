// Package cluster tests servers that keep the same jobs, as processes.
package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
)

func TestMain(m *testing.M) { daemon.Main(m) }

// operate runs polystalk.
func operate(t *testing.T, args ...string) daemon.Outcome {
	t.Helper()
	return daemon.RunToEnd(t, daemon.CLI(t), daemon.CleanEnv(), args...)
}

// A node is one server. Its processes run one after the other.
type node struct {
	t       *testing.T
	name    string
	dir     string
	queue   string // its address for beanstalkd's clients
	cluster string // its address for the other servers
	timeout string // of elections
	program string // empty: the program under test
	*daemon.Server
}

const (
	// steady is the timeout of tests without unplanned elections: a busy server still leads.
	steady = "7s"
	// swift is the timeout of tests that wait for elections. On a busy machine there may be more of
	// them, so these tests accept any leader.
	swift = "1s"
)

// newNode returns a server that has never run.
func newNode(t *testing.T, name string) *node {
	t.Helper()
	return &node{t: t, name: name, dir: daemon.ShortDir(t), queue: daemon.FreeAddress(t), cluster: daemon.FreeAddress(t), timeout: steady}
}

// args returns the flags of its start, followed by more.
func (n *node) args(more ...string) []string {
	_, port, _ := net.SplitHostPort(n.queue)
	return append([]string{
		"--log-format", "json", "-l", "127.0.0.1", "-p", port, "-b", n.dir, "-s", "4194304",
		"--cluster-listen", n.cluster, "--cluster-node", n.name, "--cluster-timeout", n.timeout,
		"--cluster-wait", "10s", // elections take longer in tests
	}, more...)
}

// start starts its process, and waits until it accepts clients.
func (n *node) start(more ...string) {
	n.t.Helper()
	n.launch(more...)
	n.serves()
}

// serves waits until its process accepts clients.
func (n *node) serves() {
	n.t.Helper()
	if !n.Serves() {
		n.t.Fatalf("%s ended instead of serving; stderr:\n%s", n.name, n.LogText())
	}
}

// launch starts its process.
func (n *node) launch(more ...string) {
	n.t.Helper()
	cmd := exec.Command(cmp.Or(n.program, daemon.Binary), n.args(more...)...)
	cmd.Env = daemon.CleanEnv()
	n.Server = daemon.Launch(n.t, cmd)
}

// found starts its process as the first of a cluster, and waits until it leads.
func (n *node) found(more ...string) {
	n.t.Helper()
	n.start(append(more, "--cluster-new")...)
	n.leads()
}

// restart kills the process of the only voter, and starts another.
func (n *node) restart() {
	n.t.Helper()
	n.Crash()
	n.start()
	n.leads()
}

// leads waits until its process leads.
func (n *node) leads() {
	n.t.Helper()
	n.WaitLog("this server leads: clients are served here")
}

// ended reports whether its process is gone.
func (n *node) ended() bool {
	select {
	case <-n.Done:
		return true
	default:
		return false
	}
}

// wantLogged wants texts in its log.
func (n *node) wantLogged(texts ...string) {
	n.t.Helper()
	for _, s := range texts {
		if !n.LogHas(s) {
			n.t.Errorf("%s does not log %q: %s", n.name, s, n.LogText())
		}
	}
}

// status returns its view of the cluster; nil: it does not answer.
func (n *node) status() *admin.Cluster {
	out := operate(n.t, "cluster", "status", "--dir", n.dir, "-o", "json")
	k := new(admin.Cluster)
	if json.Unmarshal([]byte(out.Stdout), k) != nil {
		return nil
	}
	return k
}

// member returns its view of a member; nil: it does not know the member.
func (n *node) member(name string) *admin.ClusterMember {
	if k := n.status(); k != nil {
		if i := slices.IndexFunc(k.Members, func(m admin.ClusterMember) bool { return m.Name == name }); i >= 0 {
			return &k.Members[i]
		}
	}
	return nil
}

// has returns the number of files in its directory that match a pattern.
func (n *node) has(pattern string) int {
	list, err := filepath.Glob(filepath.Join(n.dir, pattern))
	if err != nil {
		n.t.Fatal(err)
	}
	return len(list)
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * daemon.Hang); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("this did not happen: %s", what)
		}
	}
}

// ask sends a text to a beanstalkd port on a new connection, and returns the answer, if any.
func ask(address, text string) string {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(daemon.Hang))
	if _, err := fmt.Fprint(c, text+"quit\r\n"); err != nil {
		return ""
	}
	b, _ := io.ReadAll(c)
	return string(b)
}

// put puts a job, and reports whether it was acknowledged.
func (n *node) put(body string) bool {
	return strings.HasPrefix(ask(n.queue, fmt.Sprintf("put 0 0 60 %d\r\n%s\r\n", len(body), body)), "INSERTED ")
}

// work puts jobs of a size in bytes, several small ones at a time, and deletes them if told to. It
// returns their IDs, at the first OUT_OF_MEMORY those so far.
func (n *node) work(jobs, size int, remove bool) (ids []string) {
	n.t.Helper()
	c := daemon.Dial(n.t, n.queue)
	defer c.Close()
	in := lines{n.t, c, ""}
	put := fmt.Sprintf("put 9 0 60 %d\r\n%s\r\n", size, strings.Repeat("x", size))
	for full := false; !full && len(ids) < jobs; {
		c.SetDeadline(time.Now().Add(daemon.Hang))
		batch := min(max(1, 50_000/size), 50, jobs-len(ids))
		fmt.Fprint(c, strings.Repeat(put, batch))
		for range batch {
			answer := in.next()
			id, ok := strings.CutPrefix(answer, "INSERTED ")
			if full = full || answer == "OUT_OF_MEMORY"; ok {
				ids = append(ids, id)
			} else if !full {
				n.t.Fatalf("a put is answered %q", answer)
			}
		}
	}
	if remove {
		n.remove(ids)
	}
	return ids
}

// remove deletes jobs.
func (n *node) remove(ids []string) {
	n.t.Helper()
	c := daemon.Dial(n.t, n.queue)
	defer c.Close()
	in := lines{n.t, c, ""}
	for batch := range slices.Chunk(ids, 50) {
		c.SetDeadline(time.Now().Add(daemon.Hang))
		fmt.Fprint(c, "delete "+strings.Join(batch, "\r\ndelete ")+"\r\n")
		for range batch {
			if got := in.next(); got != "DELETED" {
				n.t.Fatalf("a delete is answered %q", got)
			}
		}
	}
}

// lines reads the answers of a server.
type lines struct {
	t    *testing.T
	from net.Conn
	rest string
}

func (r *lines) next() string {
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

// A tally counts jobs that were put. A job without an acknowledgement, because the leader changed,
// may exist.
type tally struct{ acknowledged, tried int }

// put puts a job until it is acknowledged.
func (k *tally) put(n *node, body string) {
	n.t.Helper()
	eventually(n.t, n.name+" takes a job", func() bool { k.tried++; return n.put(body) })
	k.acknowledged++
}

// wantReady expects all jobs to be ready at a server.
func (k *tally) wantReady(n *node) {
	n.t.Helper()
	got := ""
	eventually(n.t, n.name+" says how many jobs there are", func() bool { got = n.ready(); return got != "" })
	if i, err := strconv.Atoi(got); err != nil || i < k.acknowledged || i > k.tried {
		n.t.Errorf("%q jobs are ready at %s, want %d to %d", got, n.name, k.acknowledged, k.tried)
	}
}

// ready returns the number of ready jobs; empty: there is no answer.
func (n *node) ready() string {
	answer := ask(n.queue, "stats-tube default\r\n")
	_, rest, _ := strings.Cut(answer, "current-jobs-ready: ")
	count, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(count)
}
