// Package cluster tests servers that keep the same jobs, as processes.
package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
)

func TestMain(m *testing.M) { daemon.Main(m, func() { os.RemoveAll(tools) }) }

// tools is where polystalk is, once it was built.
var tools string

// polystalk is the operators' program.
var polystalk = sync.OnceValues(func() (path string, err error) {
	if tools, err = os.MkdirTemp("", "polystalk-test-"); err != nil {
		return "", err
	}
	path = filepath.Join(tools, "polystalk")
	out, err := exec.Command("go", "build", "-o", path, "polystalk/cmd/polystalk").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building polystalk: %w\n%s", err, out)
	}
	return path, nil
})

// operate runs polystalk.
func operate(t *testing.T, args ...string) daemon.Outcome {
	t.Helper()
	path, err := polystalk()
	if err != nil {
		t.Fatal(err)
	}
	return daemon.RunToEnd(t, path, daemon.CleanEnv(), args...)
}

// A node is one server, whose process comes and goes.
type node struct {
	t       *testing.T
	name    string
	dir     string
	queue   string // where it serves beanstalkd's clients
	cluster string // where the others find it
	*daemon.Server
}

// newNode is one that has never run.
func newNode(t *testing.T, name string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "ps") // short enough for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &node{t: t, name: name, dir: dir, queue: daemon.FreeAddress(t), cluster: daemon.FreeAddress(t)}
}

// args are how it is started, with more.
func (n *node) args(more ...string) []string {
	_, port, _ := net.SplitHostPort(n.queue)
	return append([]string{
		"--log-format", "json", "-l", "127.0.0.1", "-p", port, "-b", n.dir, "-s", "4194304",
		"--cluster-listen", n.cluster, "--cluster-node", n.name,
	}, more...)
}

// start starts its process, and waits until that takes clients, whoever serves them.
func (n *node) start(more ...string) {
	n.t.Helper()
	n.launch(more...)
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

// ready is how many jobs there are to be had.
func (n *node) ready() string {
	answer := ask(n.queue, "stats-tube default\r\n")
	_, rest, _ := strings.Cut(answer, "current-jobs-ready: ")
	count, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(count)
}
