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

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A gearmanClient is a program that people use as Gearman client and worker.
//
// Its client submits (fg|bg FUNCTION PAYLOAD)..., and prints for each what
// became of it. Its worker takes BEHAVIOUR=FUNCTION... and prints what it does.
type gearmanClient struct {
	name, interpreter string
	probe             []string // fails where the library is missing
	install           string
	client, worker    string // scripts of testdata/clients; none: the program gearman
	fails, throws     bool   // what the worker can do besides working
	exceptions        bool   // the client is told of exceptions; without, of a failure
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

// missing says what to install before g can be used.
func (g *gearmanClient) missing(t *testing.T) string {
	return missingLibrary(t, g.interpreter, g.probe, g.install)
}

func (g *gearmanClient) skipIfMissing(t *testing.T) {
	t.Helper()
	if why := g.missing(t); why != "" {
		t.Skip(why)
	}
}

// A gearmanJob is one for a client to submit.
type gearmanJob struct{ mode, function, payload, want string }

// submit has g's client submit the jobs, and checks what it says of each.
func (g *gearmanClient) submit(t *testing.T, address string, jobs ...gearmanJob) {
	t.Helper()
	host, port, _ := net.SplitHostPort(address)
	var said []string
	if g.client == "" {
		for _, j := range jobs {
			said = append(said, gearmanTool(t, host, port, j))
		}
	} else {
		args := []string{host, port}
		for _, j := range jobs {
			args = append(args, j.mode, j.function, j.payload)
		}
		out, err := runScript(t, g.interpreter, g.probe, g.install, g.client, args...)
		if err != nil {
			t.Error(err)
		}
		said = strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	}
	for i, j := range jobs {
		if i >= len(said) || said[i] != j.want {
			t.Errorf("%s: %s job %d of %s: want %q; all it said: %q", g.name, j.mode, i, j.function, j.want, said)
			return
		}
	}
}

// gearmanTool submits one job with the program gearman, which waits until the
// job is done or has failed.
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
	case err == nil && j.mode == "bg":
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

// work starts g's worker; it ends with the test at the latest.
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

// await returns once the worker has said all the lines, in any order.
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

// TestGearmanClients lets every client work for every other.
func TestGearmanClients(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	places(t, gearmanClientsWork)
}

func gearmanClientsWork(t *testing.T, p *place) {
	workers := map[*gearmanClient]*gearmanWorker{}
	for _, g := range gearmanClients {
		if g.missing(t) != "" {
			continue
		}
		functions := []string{"upper=" + g.name + ".upper"}
		if g.fails {
			functions = append(functions, "fail="+g.name+".fail")
		}
		if g.throws {
			functions = append(functions, "throw="+g.name+".throw")
		}
		workers[g] = g.work(t, p.gearman, functions...)
	}
	done := map[*gearmanClient][]string{}
	for _, c := range gearmanClients {
		t.Run(c.name, func(t *testing.T) {
			c.skipIfMissing(t)
			var jobs []gearmanJob
			for _, w := range gearmanClients {
				if workers[w] == nil {
					continue
				}
				fore, back := "Fore "+c.name, "Back "+c.name
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
				// The worker has outlived that.
				jobs = append(jobs, gearmanJob{"fg", w.name + ".upper", "again", "result AGAIN"})
			}
			c.submit(t, p.gearman, jobs...)
		})
	}
	for w, lines := range done {
		workers[w].await(t, lines...)
	}
}

// TestGearmanWorkerDies kills a worker with a job, which another then does.
func TestGearmanWorkerDies(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	places(t, gearmanWorkerDies)
}

func gearmanWorkerDies(t *testing.T, p *place) {
	for i, g := range gearmanClients {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.skipIfMissing(t)
			other := gearmanClients[(i+1)%len(gearmanClients)]
			other.skipIfMissing(t)
			function := g.name + ".death"
			first := g.work(t, p.gearman, "hang="+function)
			served := make(chan struct{})
			defer func() { <-served }()
			go func() {
				defer close(served)
				g.submit(t, p.gearman, gearmanJob{"fg", function, "fore", "result FORE"})
			}()
			first.await(t, "hanging fore")
			first.kill()
			second := other.work(t, p.gearman, "upper="+function)
			second.await(t, "done fore")
			<-served
			second.kill()

			first = g.work(t, p.gearman, "hang="+function)
			g.submit(t, p.gearman, gearmanJob{"bg", function, "back", "created"})
			first.await(t, "hanging back")
			first.kill()
			other.work(t, p.gearman, "upper="+function).await(t, "done back")
		})
	}
}

// TestGearmanClientsBridge takes jobs from every client to beanstalkd's
// commands, and from there to every worker.
func TestGearmanClientsBridge(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	places(t, gearmanClientsBridge)
}

func gearmanClientsBridge(t *testing.T, p *place) {
	for _, g := range gearmanClients {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.skipIfMissing(t)
			c, err := beanstalk.Dial("tcp", p.beanstalk)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			tube := beanstalk.NewTube(c, g.name+".there")
			g.submit(t, p.gearman, gearmanJob{"bg", tube.Name, "over there", "created"})
			id, body, err := beanstalk.NewTubeSet(c, tube.Name).Reserve(daemon.ClientTime)
			if err != nil || string(body) != "over there" {
				t.Fatalf("reserve: %q, %v", body, err)
			}
			if err = c.Delete(id); err != nil {
				t.Errorf("delete: %v", err)
			}

			tube = beanstalk.NewTube(c, g.name+".back")
			if id, err = tube.Put([]byte("and back"), 10, 0, time.Minute); err != nil {
				t.Fatal(err)
			}
			g.work(t, p.gearman, "upper="+tube.Name).await(t, "done and back")
			for end := time.Now().Add(daemon.ClientTime); ; time.Sleep(time.Millisecond) {
				if _, err = c.Peek(id); errors.Is(err, beanstalk.ErrNotFound) {
					break
				}
				if err != nil || time.Now().After(end) {
					t.Fatalf("a job that a worker completed is still there: %v", err)
				}
			}
		})
	}
}

// TestGearadmin asks with gearadmin.
func TestGearadmin(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	places(t, gearadmin)
}

func gearadmin(t *testing.T, p *place) {
	if _, err := exec.LookPath("gearadmin"); err != nil {
		t.Skipf("%v: install gearman-tools", err)
	}
	host, port, _ := net.SplitHostPort(p.gearman)
	tool := gearmanClients[0]
	tool.skipIfMissing(t)
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
