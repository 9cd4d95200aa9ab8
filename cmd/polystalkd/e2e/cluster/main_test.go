// Package cluster tests servers that keep the same jobs, as processes.
package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
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

// A node is one server with its processes, one after the other.
type node struct {
	t       *testing.T
	name    string
	dir     string
	queue   string // where it serves beanstalkd's clients
	cluster string // where the others find it
	timeout string // for how long it misses the leader before another is elected
	*daemon.Server
}

const (
	// steady is the timeout of tests without unplanned elections: on a busy machine the same server
	// leads all the same.
	steady = "7s"
	// swift is the timeout of tests that wait for elections. On a busy machine there may be more of
	// them, so these tests accept any leader.
	swift = "1s"
)

// newNode is one that has never run.
func newNode(t *testing.T, name string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "ps") // short enough for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &node{t: t, name: name, dir: dir, queue: daemon.FreeAddress(t), cluster: daemon.FreeAddress(t), timeout: steady}
}

// args are how it is started, with more.
func (n *node) args(more ...string) []string {
	_, port, _ := net.SplitHostPort(n.queue)
	return append([]string{
		"--log-format", "json", "-l", "127.0.0.1", "-p", port, "-b", n.dir, "-s", "4194304",
		"--cluster-listen", n.cluster, "--cluster-node", n.name, "--cluster-timeout", n.timeout,
		"--cluster-wait", "10s", // elections take longer in tests
	}, more...)
}

// start starts its process, and waits until it takes clients.
func (n *node) start(more ...string) {
	n.t.Helper()
	n.launch(more...)
	n.serves()
}

// serves waits until its process takes clients.
func (n *node) serves() {
	n.t.Helper()
	if !n.Serves() {
		n.t.Fatalf("%s ended instead of serving; stderr:\n%s", n.name, n.LogText())
	}
}

// launch starts its process.
func (n *node) launch(more ...string) {
	n.t.Helper()
	cmd := exec.Command(daemon.Binary, n.args(more...)...)
	cmd.Env = daemon.CleanEnv()
	n.Server = daemon.Launch(n.t, cmd)
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

// status is what it knows of its cluster; nil: it cannot be asked.
func (n *node) status() *admin.Cluster {
	out := operate(n.t, "cluster", "status", "--dir", n.dir, "-o", "json")
	k := new(admin.Cluster)
	if json.Unmarshal([]byte(out.Stdout), k) != nil {
		return nil
	}
	return k
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * daemon.Hang); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be that %s", what)
		}
	}
}

// ask says something to a server of beanstalkd's protocol on a connection of its own, and gives
// what it answers until the connection ends; empty: nothing came.
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

// A tally is of the jobs that were put. One that was not acknowledged, since another server came to
// lead, may have been taken or not.
type tally struct{ acknowledged, tried int }

// put puts a job until it is acknowledged.
func (k *tally) put(n *node, body string) {
	n.t.Helper()
	eventually(n.t, n.name+" takes a job", func() bool { k.tried++; return n.put(body) })
	k.acknowledged++
}

// wantReady wants that all jobs are to be had at a server.
func (k *tally) wantReady(n *node) {
	n.t.Helper()
	got := ""
	eventually(n.t, n.name+" says how many jobs there are", func() bool { got = n.ready(); return got != "" })
	if i, err := strconv.Atoi(got); err != nil || i < k.acknowledged || i > k.tried {
		n.t.Errorf("%q jobs are ready at %s, want %d to %d", got, n.name, k.acknowledged, k.tried)
	}
}

// ready is how many jobs there are to be had; empty: it does not say.
func (n *node) ready() string {
	answer := ask(n.queue, "stats-tube default\r\n")
	_, rest, _ := strings.Cut(answer, "current-jobs-ready: ")
	count, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(count)
}
