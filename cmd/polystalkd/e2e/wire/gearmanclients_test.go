package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A gearmanClient is a library or program for Gearman clients and workers.
//
// Its client submits (fg|bg FUNCTION PAYLOAD)..., and prints a line for the end of each. Its
// worker takes BEHAVIOUR=FUNCTION..., and prints what it does.
type gearmanClient struct {
	name, interpreter string
	probe             []string // fails where the library is missing
	install           string
	client, worker    string // scripts of testdata/clients; none: the program gearman
	fails, throws     bool   // what the worker can do besides working
	exceptions        bool   // the client hears of exceptions; otherwise of a failure
}

var gearmanClients = []*gearmanClient{
	{
		name: "gearman", interpreter: "gearman", probe: []string{"-H"}, install: "gearman-tools",
		fails: true,
	},
	{
		name: "php", interpreter: "php", probe: []string{"-r", "new GearmanClient();"}, install: "php-cli and php-gearman",
		client: "client.php", worker: "worker.php", fails: true, throws: true, exceptions: true,
	},
	{
		name: "perl", interpreter: "perl", probe: []string{"-MGearman::Client", "-e", "1"}, install: "libgearman-client-perl",
		client: "client.pl", worker: "worker.pl", fails: true, throws: true, exceptions: true,
	},
	{
		name: "gearmanode", interpreter: "node", probe: []string{"-e", "require('gearmanode')"},
		install: "node, and gearmanode with npm, and set NODE_PATH or GEARMAN_NODE_DIR",
		client:  "client_gearmanode.js", worker: "worker_gearmanode.js", fails: true, throws: true, exceptions: true,
	},
	{
		// Its worker cannot fail without an exception.
		name: "abraxas", interpreter: "node", probe: []string{"-e", "require('abraxas')"},
		install: "node, and abraxas with npm, and set NODE_PATH or GEARMAN_NODE_DIR",
		client:  "client_abraxas.js", worker: "worker_abraxas.js", throws: true, exceptions: true,
	},
}

// A gearmanJob is a job for a client to submit, and what the client must print of it.
type gearmanJob struct{ mode, function, payload, want string }

// says submits the jobs with g's client, and returns what it prints.
func (g *gearmanClient) says(t *testing.T, address string, jobs ...gearmanJob) (said []string, err error) {
	t.Helper()
	host, port, _ := net.SplitHostPort(address)
	if g.client == "" {
		for _, j := range jobs {
			said = append(said, gearmanTool(t, host, port, j))
		}
		return said, nil
	}
	args := []string{host, port}
	for _, j := range jobs {
		args = append(args, j.mode, j.function, j.payload)
	}
	out, err := runScript(t, g.interpreter, g.client, args...)
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n"), err
}

// submit submits the jobs with g's client, and checks what it prints.
func (g *gearmanClient) submit(t *testing.T, address string, jobs ...gearmanJob) {
	t.Helper()
	said, err := g.says(t, address, jobs...)
	if err != nil {
		t.Error(err)
	}
	for i, j := range jobs {
		if i >= len(said) || said[i] != j.want {
			t.Errorf("%s: %s job %d of %s: want %q, got %q", g.name, j.mode, i, j.function, j.want, said)
			return
		}
	}
}

// gearmanTool submits one job with the program gearman, which waits for the job's end.
func gearmanTool(t *testing.T, host, port string, j gearmanJob) string {
	ctx, cancel := context.WithTimeout(t.Context(), daemon.ClientTime)
	defer cancel()
	args := []string{"-h", host, "-p", port, "-f", j.function}
	if j.mode == "bg" {
		args = append(args, "-b")
	}
	out, err := exec.CommandContext(ctx, "gearman", append(args, j.payload)...).CombinedOutput()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil && j.mode == "bg" && len(out) == 0: // it prints an error, and exits with 0
		return "created"
	case err == nil:
		return "result " + string(out)
	case failed && exit.Exited():
		return "fail"
	}
	return fmt.Sprintf("error %v %s", err, out)
}

// A gearmanWorker is a running worker.
type gearmanWorker struct {
	cmds  []*exec.Cmd
	lines chan string
}

// toolBehaviours are shell commands that the program gearman runs for a job.
var toolBehaviours = map[string]string{
	"upper": `x=$(cat); echo "done $x" >&2; printf %s "$x" | tr a-z A-Z`,
	"fail":  `cat >/dev/null; exit 1`,
	"hang":  `x=$(cat); echo "hanging $x" >&2; sleep 60`,
}

// work starts g's worker until the end of the test.
func (g *gearmanClient) work(t *testing.T, address string, functions ...string) *gearmanWorker {
	t.Helper()
	host, port, _ := net.SplitHostPort(address)
	w := &gearmanWorker{lines: make(chan string, 1000)}
	t.Cleanup(w.kill)
	if g.worker != "" {
		args := append([]string{filepath.Join("testdata", "clients", g.worker), host, port}, functions...)
		w.start(t, exec.Command(g.interpreter, args...))
		return w
	}
	for _, f := range functions {
		behaviour, function, _ := strings.Cut(f, "=")
		w.start(t, exec.Command("gearman", "-w", "-h", host, "-p", port, "-f", function, "--", "sh", "-c", toolBehaviours[behaviour]))
	}
	return w
}

func (w *gearmanWorker) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Env = pipe, scriptEnv()
	if filepath.Base(cmd.Path) == "gearman" {
		cmd.Stderr = pipe // what it runs prints results to the other
	}
	// What the program gearman runs holds its connection too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	pipe.Close()
	if err != nil {
		r.Close()
		t.Fatal(err)
	}
	w.cmds = append(w.cmds, cmd)
	go func() {
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			w.lines <- s.Text()
		}
	}()
}

// kill ends the worker as a crash does.
func (w *gearmanWorker) kill() {
	for _, cmd := range w.cmds {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // Wait tells
		_ = cmd.Wait()                                      // killed
	}
	w.cmds = nil
}

// await returns once the worker has printed all the lines, in any order.
func (w *gearmanWorker) await(t *testing.T, want ...string) {
	t.Helper()
	var said []string
	hung := time.After(daemon.ClientTime)
	for len(want) > 0 {
		select {
		case line := <-w.lines:
			said = append(said, line)
			if i := slices.Index(want, line); i >= 0 {
				want = slices.Delete(want, i, i+1)
			}
		case <-hung:
			t.Fatalf("a worker did not say %q, but %q", want, said)
		}
	}
}

// TestGearmanClients lets each client work for each other one, on both places.
func TestGearmanClients(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	var here []*gearmanClient
	for _, g := range gearmanClients {
		if why := missingLibrary(t, g.interpreter, g.probe, g.install); why != "" {
			t.Logf("%s is left out: %s", g.name, why)
		} else {
			here = append(here, g)
		}
	}
	if len(here) == 0 {
		t.Skip("no client is installed")
	}
	places(t, func(t *testing.T, p *place) {
		t.Run("gearadmin", func(t *testing.T) { gearadmin(t, p) }) // first: it lists all functions
		t.Run("work", func(t *testing.T) { clientsWork(t, p, here) })
	})
}

func clientsWork(t *testing.T, p *place, here []*gearmanClient) {
	workers, done := map[*gearmanClient]*gearmanWorker{}, map[*gearmanClient][]string{}
	for _, g := range here {
		functions := []string{"upper=" + g.name + ".upper"}
		if g.fails {
			functions = append(functions, "fail="+g.name+".fail")
		}
		if g.throws {
			functions = append(functions, "throw="+g.name+".throw")
		}
		workers[g] = g.work(t, p.gearman, functions...)
	}
	for _, c := range here {
		fore, back := "Fore "+c.name, "Back "+c.name
		var jobs []gearmanJob
		for _, w := range here {
			jobs = append(jobs,
				gearmanJob{"fg", w.name + ".upper", fore, "result " + strings.ToUpper(fore)},
				gearmanJob{"bg", w.name + ".upper", back, "created"})
			done[w] = append(done[w], "done "+fore, "done "+back)
			if w.fails {
				jobs = append(jobs, gearmanJob{"fg", w.name + ".fail", "x", "fail"})
			}
			if w.throws {
				want := "fail"
				if c.exceptions {
					want = "exception boom"
				}
				jobs = append(jobs, gearmanJob{"fg", w.name + ".throw", "x", want})
			}
			// The worker has survived that.
			jobs = append(jobs, gearmanJob{"fg", w.name + ".upper", "again", "result AGAIN"})
		}
		c.submit(t, p.gearman, jobs...)
	}
	for w, lines := range done {
		workers[w].await(t, lines...)
	}
}

// gearadmin asks with the program of that name.
func gearadmin(t *testing.T, p *place) {
	if _, err := exec.LookPath("gearadmin"); err != nil {
		t.Skipf("%v: install gearman-tools", err)
	}
	host, port, _ := net.SplitHostPort(p.gearman)
	tool := gearmanClients[0]
	tool.submit(t, p.gearman, gearmanJob{"bg", "admin", "busy", "created"}, gearmanJob{"bg", "queue", "x", "created"})
	tool.work(t, p.gearman, "hang=admin").await(t, "hanging busy")
	for _, a := range []struct{ args, want string }{
		{"--status", `(?m)\Aadmin\t1\t1\t1\nqueue\t1\t0\t0\n\.?\n?\z|\Aqueue\t1\t0\t0\nadmin\t1\t1\t1\n\.?\n?\z`},
		{"--priority-status", `(?m)^queue\t0\t1\t0\t0$`},
		{"--workers", `(?m)^\d+ 127\.0\.0\.1 - : admin$`},
		{"--server-version", `\A2\.0\.0\+polystalk\.`},
		{"--getpid", fmt.Sprintf(`\b%d\b`, p.pid)},
		{"--server-verbose", `\S`},
		{"--show-jobs", `(?m)^H:lap:\d+\t0\t0\t1$`},
		{"--show-unique-jobs", `(?m)^[0-9a-f]{8}-[-0-9a-f]{27}$`},
		{"--create-function made", `\A(OK\s*)?\z`},
		{"--status", `(?m)^made\t0\t0\t0$`},
		{"--drop-function made", `\A(OK\s*)?\z`},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), daemon.ClientTime)
		out, err := exec.CommandContext(ctx, "gearadmin", append([]string{"-h", host, "-p", port}, strings.Fields(a.args)...)...).CombinedOutput()
		cancel()
		if err != nil || !regexp.MustCompile(a.want).Match(out) {
			t.Errorf("gearadmin %s: %v, %q, want %s", a.args, err, out, a.want)
		}
	}
}
