package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
	"polystalk/codec/wiretest/certtest"
)

// guide is the file of the operators' guide.
const guide = "../../../manual/guide/cluster.md"

// A room runs the guide's commands: each machine is a node, with its own directories and addresses.
type room struct {
	t     *testing.T
	nodes map[string]*node
	bin   string // directory of polystalk
	jobs  tally
}

// newRoom returns four machines by name.
func newRoom(t *testing.T) map[string]*node {
	t.Helper()
	nodes := make(map[string]*node)
	for i := range 4 {
		name := fmt.Sprint("jobs", i+1)
		n := newNode(t, name)
		n.timeout = swift
		t.Cleanup(func() { os.RemoveAll(backup(n)) })
		nodes[name] = n
	}
	return nodes
}

// TestGuide runs the commands of the guide, section by section, in their order.
func TestGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	r := &room{t: t, nodes: newRoom(t), bin: filepath.Dir(daemon.CLI(t))}
	usual := r.nodes
	after := map[string]func(){
		"Three servers": func() { r.awaitVoters(3); r.puts(3) },
		"When a server dies": func() {
			r.awaitVoters(3)
			r.puts(1)
		},
		"Starting all servers at once": func() {
			for i := range 3 {
				r.nodes[fmt.Sprint("jobs", i+1)].serves()
			}
			r.awaitVoters(3)
			r.nodes = usual
		},
		"When a disk is lost":   func() { r.awaitVoters(3) },
		"Upgrades and restarts": func() { r.awaitVoters(3); r.puts(1) },
		"A copy elsewhere":      func() { wantRemoved(t, r.nodes["jobs4"]) },
	}
	before := map[string]func(){
		"Starting all servers at once": func() { r.nodes = newRoom(t) },
		"When a disk is lost": func() { // jobs3 loses its disk
			r.nodes["jobs3"].Crash()
			r.nodes["jobs3"].empty()
		},
		"When most are lost": func() { // jobs2 and jobs3 are
			r.nodes["jobs2"].Crash()
			r.nodes["jobs3"].Crash()
		},
	}
	ran := 0
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		if f := before[title]; f != nil {
			f()
		}
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(body, -1) {
			for line := range strings.Lines(block[1]) {
				machine, command, ok := strings.Cut(strings.TrimSpace(line), "$ ")
				if !ok || r.nodes[machine] == nil {
					t.Fatalf("the test knows no machine for %q", line)
				}
				r.run(r.nodes[machine], command)
				ran++
			}
		}
		if f := after[title]; f != nil {
			f()
		}
		if t.Failed() {
			return
		}
	}
	if ran < 20 {
		t.Errorf("only %d commands were found", ran)
	}
	if r.jobs.acknowledged != 5 {
		t.Errorf("%d jobs were put, want 5", r.jobs.acknowledged)
	}
	r.jobs.wantReady(r.nodes["jobs1"])
}

// The guide's configuration file is valid, with the certificates where the unit passes them on.
func TestGuideConfigures(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```toml\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("the guide has nothing for a configuration file")
	}
	n := newNode(t, "jobs1")
	conf := filepath.Join(t.TempDir(), "polystalkd.toml")
	set := strings.ReplaceAll(string(block[1]), "/var/lib/polystalkd", n.dir)
	if err := os.WriteFile(conf, []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := secure(certtest.New(t), "jobs1")
	passed := t.TempDir()
	for i := 0; i < len(flags); i += 2 {
		if err := os.Rename(flags[i+1], filepath.Join(passed, strings.TrimPrefix(flags[i], "--"))); err != nil {
			t.Fatal(err)
		}
	}
	for _, variable := range []string{"POLYSTALKD_CLUSTER_NEW=true", "POLYSTALKD_CLUSTER_JOIN=10.0.0.2:11390"} {
		env := daemon.CleanEnv("CREDENTIALS_DIRECTORY="+passed, variable)
		if got := daemon.RunToEnd(t, daemon.Binary, env, "--config", conf, "--check-config"); got.Code != 0 {
			t.Errorf("%s: %+v", variable, got)
		}
		if got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(variable), "--config", conf, "--check-config"); got.Code == 0 {
			t.Errorf("%s: without certificates it is accepted as well", variable)
		}
	}
}

// backup returns the directory of a node's backup.
func backup(n *node) string { return n.dir + "-backup" }

// here replaces the addresses and directories of a command.
func (r *room) here(n *node, command string) string {
	for i := range 4 {
		name := fmt.Sprint("jobs", i+1)
		command = strings.ReplaceAll(command, fmt.Sprintf("10.0.0.%d:11390", i+1), r.nodes[name].cluster)
	}
	command = strings.ReplaceAll(command, "/var/lib/polystalkd", n.dir)
	return strings.ReplaceAll(command, "/var/backups/polystalkd", backup(n))
}

// run runs a command on a machine.
func (r *room) run(n *node, command string) {
	r.t.Helper()
	switch line := r.here(n, command); {
	case strings.HasPrefix(line, "polystalkd "):
		args := strings.Fields(line)[1:]
		_, port, _ := strings.Cut(n.queue, ":")
		cmd := exec.Command(daemon.Binary, append([]string{"--log-format", "json", "-l", "127.0.0.1", "-p", port, "--cluster-timeout", n.timeout}, args...)...)
		cmd.Env = daemon.CleanEnv()
		if strings.Contains(line, "--cluster-bootstrap") { // it serves once all do
			n.Server = daemon.Launch(r.t, cmd)
			return
		}
		n.Server = daemon.Await(r.t, cmd)
		if strings.Contains(line, "--cluster-join") {
			r.awaitMember(n)
		} else {
			n.leads()
		}
	case strings.HasPrefix(line, "kill -9 "):
		n.Crash()
	case line == "systemctl stop polystalkd":
		n.Signal(syscall.SIGTERM)
		n.EndsWith(0)
	case line == "systemctl start polystalkd":
		n.start()
	case line == "systemctl restart polystalkd":
		n.Signal(syscall.SIGTERM)
		n.EndsWith(0)
		n.start()
		r.awaitVoters(3)
	default:
		last := ""
		r.t.Cleanup(func() {
			if r.t.Failed() {
				r.t.Logf("%s: %s", line, last)
			}
		})
		eventually(r.t, "this succeeds: "+line, func() bool { // for a moment there may be no leader
			cmd := exec.Command("bash", "-c", line)
			cmd.Env = daemon.CleanEnv("PATH=" + r.bin + ":" + os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			last = string(out)
			return err == nil || r.isDone(n, line)
		})
	}
}

// isDone reports whether a failed command has changed the members nevertheless: its answer is lost
// if the leader changes at that moment.
func (r *room) isDone(n *node, command string) bool {
	words := strings.Fields(command)
	if len(words) < 4 {
		return false
	}
	k, m := n.status(), n.member(words[3])
	switch words[2] {
	case "remove":
		return k != nil && k.Leader != nil && m == nil
	case "promote":
		return m != nil && m.Kind == admin.MemberVotes
	}
	return false
}

// awaitMember waits until a server that has joined has caught up.
func (r *room) awaitMember(n *node) {
	r.t.Helper()
	eventually(r.t, n.name+" has caught up", func() bool {
		m := n.member(n.name)
		return m != nil && m.Kind != admin.MemberJoins
	})
}

func (r *room) awaitVoters(n int) {
	r.t.Helper()
	awaitVoters(r.t, r.nodes["jobs1"], n)
}

// puts puts a job at each of the first n machines.
func (r *room) puts(n int) {
	r.t.Helper()
	for i := range n {
		r.jobs.put(r.nodes[fmt.Sprint("jobs", i+1)], "x")
	}
}
