package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A working is a running polystalk work.
type working struct {
	t     *testing.T
	cmd   *exec.Cmd
	notes string // the file of its standard error
}

// startWork starts the built program with files as its output, as a shell does.
func startWork(t *testing.T, server string, args ...string) *working {
	t.Helper()
	w := &working{t: t, cmd: exec.Command(daemon.CLI(t), append([]string{"work", "--server", server}, args...)...), notes: filepath.Join(t.TempDir(), "notes")}
	notes, err := os.Create(w.notes)
	must(t, err)
	defer notes.Close()
	w.cmd.Env, w.cmd.Stderr = daemon.CleanEnv(), notes
	must(t, w.cmd.Start())
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	return w
}

// ends expects an exit code, -1 for a signal, and a text on standard error.
func (w *working) ends(code int, says string) {
	w.t.Helper()
	hang := time.AfterFunc(daemon.Hang, func() { _ = w.cmd.Process.Kill() })
	_ = w.cmd.Wait() // the exit code tells
	hang.Stop()
	notes, err := os.ReadFile(w.notes)
	must(w.t, err)
	if got := w.cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(notes), says) {
		w.t.Fatalf("%q: exit code %d, want %d; %q, want %q", w.cmd.Args, got, code, notes, says)
	}
}

// pipe makes a named pipe, by which a command tells what it does.
func pipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(name, 0o600))
	return name
}

// told returns what the next commands that open the pipe write, until the last one closes it.
func told(t *testing.T, pipe string) string {
	t.Helper()
	text := make(chan string)
	go func() {
		b, _ := os.ReadFile(pipe)
		text <- string(b)
	}()
	select {
	case got := <-text:
		return got
	case <-time.After(daemon.Hang):
		t.Fatal("no command has opened the pipe")
		return ""
	}
}

// expectJobs waits until the jobs of a tube are in these states: ready, delayed, reserved, buried.
func expectJobs(t *testing.T, p *program, tube, want string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(daemon.Hang); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		o := p.polystalk("tube", tube, "--jq", `.jobs | "\(.ready) \(.delayed) \(.reserved) \(.buried)"`)
		if got = strings.TrimSpace(o.stdout); o.code == client.Nothing {
			got = "0 0 0 0"
		}
		if got == want {
			return
		}
	}
	t.Fatalf("tube %s: ready, delayed, reserved, buried: %s, want %s", tube, got, want)
}

// queue returns the program with a server that it asks by beanstalkd's protocol.
func queue(t *testing.T, flags ...string) *program {
	s := daemon.Serve(t, flags...)
	return &program{t: t, server: "beanstalk://" + s.Listen[0]}
}

// TestExitCodeOfACommandDecidesAboutTheJob, with any server of the protocol.
func TestExitCodeOfACommandDecidesAboutTheJob(t *testing.T) {
	t.Run("polystalkd", func(t *testing.T) {
		t.Parallel()
		decides(t, queue(t))
	})
	t.Run("beanstalkd", func(t *testing.T) {
		t.Parallel()
		decides(t, beanstalkd(t))
	})
}

func decides(t *testing.T, p *program) {
	table := []struct {
		flags, command string
		want, says     string
	}{
		{"", "exit 0", "0 0 0 0", ""},
		{"--backoff 1h", "exit 75", "0 1 0 0", ""},
		{"--backoff 0 --tries 3", "exit 75", "0 0 0 1", ""},
		{"", "exit 1", "0 0 0 1", "the command has failed: exit status 1"},
		{"--failed release --backoff 1h", "exit 1", "0 1 0 0", "exit status 1"},
		{"", "kill -9 $$", "0 0 0 1", "signal: killed"},
		{"", "sleep 1000 & exit 0", "0 0 0 0", ""}, // a daemon keeps the output open
		{"", `test "$POLYSTALK_JOB_TUBE $POLYSTALK_JOB_RESERVES" = "t7 1" && test -n "$POLYSTALK_JOB_ID"`, "0 0 0 0", ""},
	}
	var all []*working
	for i, tt := range table {
		tube := fmt.Sprint("t", i)
		p.must(0, "put", tube, "--body", "x")
		args := append(append([]string{tube, "--idle", "1"}, strings.Fields(tt.flags)...), "--", "sh", "-c", tt.command)
		all = append(all, startWork(t, p.server, args...))
	}
	for i, tt := range table {
		all[i].ends(0, tt.says)
		expectJobs(t, p, fmt.Sprint("t", i), tt.want)
	}
}

// TestCommandsGetBodiesUnchanged, however large they are, and need not read them.
func TestCommandsGetBodiesUnchanged(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	p := queue(t, "-z", "70000000")
	large := strings.Repeat("\x00\r\n\xff12\n", 64<<20/7)
	dir := t.TempDir()
	for _, body := range []string{"", "\x00", "a\r\n", large} {
		p.in = body
		p.must(0, "put", "bodies")
		startWork(t, p.server, "bodies", "--idle", "1", "--", "sh", "-c", "cat > "+dir+"/got").ends(0, "")
		got, err := os.ReadFile(filepath.Join(dir, "got"))
		must(t, err)
		if string(got) != body {
			t.Errorf("%d bytes came, not the %d that were put", len(got), len(body))
		}
	}
	p.in = large
	p.must(0, "put", "bodies")
	startWork(t, p.server, "bodies", "--idle", "1", "--", "true").ends(0, "")
	expectJobs(t, p, "bodies", "0 0 0 0")
}

// TestSignalsLetCommandsEndFirst: a second one ends them too, and their jobs are ready again.
func TestSignalsLetCommandsEndFirst(t *testing.T) {
	p := queue(t)
	began, stop := pipe(t), pipe(t)
	p.in = "a\nb\n"
	p.must(0, "put", "mail", "--lines")
	w := startWork(t, p.server, "mail", "--", "sh", "-c", "echo begun > "+began+"; cat "+stop)
	told(t, began)
	must(t, w.cmd.Process.Signal(syscall.SIGTERM))
	must(t, os.WriteFile(stop, nil, 0))
	w.ends(0, "")
	expectJobs(t, p, "mail", "1 0 0 0") // the other job was not begun

	w = startWork(t, p.server, "mail", "--", "sh", "-c", "echo $$ > "+began+"; exec yes > /dev/null")
	command := told(t, began)
	must(t, w.cmd.Process.Signal(syscall.SIGINT))
	for range 2 { // the first one may still be pending
		must(t, w.cmd.Process.Signal(syscall.SIGTERM))
		time.Sleep(10 * time.Millisecond)
	}
	w.ends(-1, "")
	expectJobs(t, p, "mail", "1 0 0 0")
	expectEnd(t, command)

	w = startWork(t, p.server, "mail", "--", "true")
	expectJobs(t, p, "mail", "0 0 0 0")
	must(t, w.cmd.Process.Signal(syscall.SIGINT)) // it waits for a job
	w.ends(0, "")
}

// TestACommandThatWritesWithoutEnd waits for the reader of its output, and keeps its job. Without a
// reader it ends by a signal, and the job is buried.
func TestACommandThatWritesWithoutEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	p := queue(t)
	p.must(0, "put", "mail", "--body", "x")
	out, in, err := os.Pipe()
	must(t, err)
	defer out.Close()
	w := &working{t: t, cmd: exec.Command(daemon.CLI(t), "work", "mail", "--idle", "1", "--server", p.server, "--", "yes"), notes: filepath.Join(t.TempDir(), "notes")}
	notes, err := os.Create(w.notes)
	must(t, err)
	defer notes.Close()
	w.cmd.Env, w.cmd.Stdout, w.cmd.Stderr = daemon.CleanEnv(), in, notes
	must(t, w.cmd.Start())
	in.Close()
	_, err = io.CopyN(io.Discard, out, 10<<20)
	must(t, err)
	expectJobs(t, p, "mail", "0 0 1 0")
	out.Close()
	w.ends(0, "signal: broken pipe")
	expectJobs(t, p, "mail", "0 0 0 1")
}

// expectEnd waits for the end of a process.
func expectEnd(t *testing.T, pid string) {
	t.Helper()
	for end := time.Now().Add(daemon.Hang); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
		if err != nil || bytes.Contains(state, []byte(") Z ")) {
			return
		}
	}
	t.Errorf("process %s still runs", pid)
}

// TestALongCommandKeepsItsJob, because the job is touched.
func TestALongCommandKeepsItsJob(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	p := queue(t)
	file := filepath.Join(t.TempDir(), "runs")
	p.must(0, "put", "slow", "--body", "x", "--ttr", "1")
	startWork(t, p.server, "slow", "--concurrency", "2", "--idle", "1", "--", "sh", "-c", "echo run >> "+file+"; sleep 3").ends(0, "")
	if runs, _ := os.ReadFile(file); string(runs) != "run\n" {
		t.Errorf("it ran %q", runs)
	}
}

// TestALostConnectionLosesNoJob: the command ends, and the job runs again.
func TestALostConnectionLosesNoJob(t *testing.T) {
	p := queue(t)
	began, stop := pipe(t), pipe(t)
	var mu sync.Mutex
	var open []net.Conn
	proxy := "beanstalk://" + serving(t, func(conn net.Conn) {
		there, err := net.Dial("tcp", strings.TrimPrefix(p.server, "beanstalk://"))
		if err != nil {
			return
		}
		mu.Lock()
		open = append(open, conn, there)
		mu.Unlock()
		go func() { _, _ = io.Copy(there, conn) }()
		_, _ = io.Copy(conn, there)
	})
	p.must(0, "put", "mail", "--body", "x")
	w := startWork(t, proxy, "mail", "--", "sh", "-c", "echo $POLYSTALK_JOB_RESERVES > "+began+"; cat "+stop)
	if got := told(t, began); got != "1\n" {
		t.Fatalf("reserve %q", got)
	}
	mu.Lock()
	for _, conn := range open {
		conn.Close()
	}
	mu.Unlock()
	expectJobs(t, p, "mail", "1 0 0 0")
	must(t, os.WriteFile(stop, nil, 0))
	if got := told(t, began); got != "2\n" {
		t.Fatalf("reserve %q", got)
	}
	must(t, os.WriteFile(stop, nil, 0))
	expectJobs(t, p, "mail", "0 0 0 0")
	must(t, w.cmd.Process.Signal(syscall.SIGTERM))
	w.ends(0, "so the job runs again")
}

func TestWorkContinuesAfterARestartOfTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := t.TempDir()
	s := daemon.Serve(t, "-b", dir, "-f", "0")
	p := &program{t: t, server: "beanstalk://" + s.Listen[0]}
	p.in = "a\nb\n"
	p.must(0, "put", "mail", "--lines")
	began, stop := pipe(t), pipe(t)
	w := startWork(t, p.server, "mail", "--", "sh", "-c", "echo begun > "+began+"; cat "+stop)
	told(t, began)
	s.Crash()
	must(t, os.WriteFile(stop, nil, 0))
	host, port, _ := net.SplitHostPort(s.Listen[0])
	daemon.Await(t, daemon.Command("-l", host, "-p", port, "-b", dir))
	for range 2 { // the first command ran for nothing
		told(t, began)
		must(t, os.WriteFile(stop, nil, 0))
	}
	expectJobs(t, p, "mail", "0 0 0 0")
	must(t, w.cmd.Process.Signal(syscall.SIGTERM))
	w.ends(0, "answers again")
}

// TestACommandThatCannotStartEndsWork, and its job is ready again.
func TestACommandThatCannotStartEndsWork(t *testing.T) {
	p := queue(t)
	p.must(0, "put", "mail", "--body", "x")
	startWork(t, p.server, "mail", "--", "/nonexistent").ends(client.Usage, "the command cannot be run")
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("\x00"), 0o700))
	startWork(t, p.server, "mail", "--", file).ends(client.System, "job 1 is ready again")
	expectJobs(t, p, "mail", "1 0 0 0")
	for flag, value := range map[string]string{"concurrency": "1001", "failed": "delete", "idle": "0", "backoff": "0.5", "tries": "-1"} {
		startWork(t, p.server, "mail", "--"+flag, value, "--", "true").ends(client.Usage, "--"+flag)
	}
	startWork(t, p.server, "not a tube", "--", "true").ends(client.Usage, "no tube")
	startWork(t, p.server, "mail").ends(client.Usage, "COMMAND is missing")
	startWork(t, p.server, "--", "true").ends(client.Usage, "TUBE is missing")
}

// TestKilledWorkersLoseNoJob: each job runs at least once, and none stays reserved.
func TestKilledWorkersLoseNoJob(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const jobs, kills = 3000, 10
	p := queue(t)
	var lines strings.Builder
	for i := range jobs {
		fmt.Fprintln(&lines, i)
	}
	p.in = lines.String()
	p.must(0, "put", "many", "--lines")
	file := filepath.Join(t.TempDir(), "done")
	done := func() map[string]bool {
		b, _ := os.ReadFile(file)
		all := make(map[string]bool)
		for line := range strings.Lines(string(b)) {
			all[line] = true
		}
		return all
	}
	args := []string{"many", "--concurrency", "16", "--idle", "1", "--", "sh", "-c", `read job; echo "$job" >> ` + file}
	for kill := range kills {
		w := startWork(t, p.server, args...)
		for len(done()) < jobs*(kill+1)/(kills+1) {
			time.Sleep(time.Millisecond)
		}
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	}
	startWork(t, p.server, args...).ends(0, "")
	if n := len(done()); n != jobs {
		t.Errorf("%d of %d jobs were done", n, jobs)
	}
	expectJobs(t, p, "many", "0 0 0 0")
}

// TestReserveWritesOneJob, and then deletes it, or with --keep releases it.
func TestReserveWritesOneJob(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *program{"polystalkd": func(t *testing.T) *program { return queue(t) }, "beanstalkd": beanstalkd} {
		t.Run(name, func(t *testing.T) {
			p := start(t)
			body := "\x1b[2J\x00\r\n"
			p.in = body
			p.must(0, "put", "mail")
			p.prints(body, "reserve", "mail", "--keep", "--wait", "0")
			p.screens = cli.Screens{Out: true}
			p.says("the body is not text", client.Usage, "reserve", "mail")
			p.screens = cli.Screens{}
			expectJobs(t, p, "mail", "1 0 0 0")
			p.prints("G1\n", "reserve", "other", "mail", "--jq", ".body_base64[0:2]")
			p.says("there is no job", client.Nothing, "reserve", "mail", "--wait", "0")
			p.in = "text"
			p.must(0, "put", "mail")
			p.screens = cli.Screens{Out: true}
			p.prints("text", "reserve", "mail")
			p.says("HTTP", client.Usage, "reserve", "mail", "--server", "http://127.0.0.1:1")
			p.says("is not a time", client.Usage, "reserve", "mail", "--wait", "soon")
		})
	}
}

// TestReserveDeletesNoUnseenJob: its body is not shown, or cannot be written.
func TestReserveDeletesNoUnseenJob(t *testing.T) {
	p := queue(t)
	p.must(0, "put", "mail", "--body", "x")
	p.says("give --keep", client.Usage, "reserve", "mail", "-o", "name")
	p.prints("1\n", "reserve", "mail", "-o", "name", "--keep")
	for _, format := range []string{"table", "json"} {
		out, in, err := os.Pipe()
		must(t, err)
		out.Close()
		var notes bytes.Buffer
		a := &cli.App{In: strings.NewReader(""), Out: in, Err: &notes, Getenv: func(string) string { return "" }}
		if code := cli.Run(t.Context(), a, []string{"reserve", "mail", "-o", format, "--server", p.server}); code != client.NotDone || !strings.Contains(notes.String(), "job 1 could not be written, and is ready again") {
			t.Errorf("exit code %d, %q", code, notes.String())
		}
		in.Close()
		expectJobs(t, p, "mail", "1 0 0 0")
	}
}

// TestSlotsShareNothing that the race detector knows, and each has one connection.
func TestSlotsShareNothing(t *testing.T) {
	p := queue(t)
	p.in = strings.Repeat("x\n", 20)
	p.must(0, "put", "mail", "--lines")
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer file.Close()
	a := &cli.App{In: strings.NewReader(""), Out: file, Err: file, Getenv: func(string) string { return "" }}
	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int)
	go func() {
		code <- cli.Run(ctx, a, []string{"work", "mail", "--concurrency", "4", "--server", p.server, "--", "true"})
	}()
	expectJobs(t, p, "mail", "0 0 0 0")
	p.prints("4\n", "tube", "mail", "--jq", ".watching")
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
}

// TestManyCommandsRunOnce, although the last one starts long after its job is reserved.
func TestManyCommandsRunOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const jobs = 300
	p := queue(t)
	p.in = strings.Repeat("x\n", jobs)
	p.must(0, "put", "slow", "--lines", "--ttr", "1")
	file := filepath.Join(t.TempDir(), "runs")
	startWork(t, p.server, "slow", "--concurrency", fmt.Sprint(jobs), "--idle", "1", "--", "sh", "-c", "echo run >> "+file+"; sleep 2").ends(0, "")
	if runs, _ := os.ReadFile(file); bytes.Count(runs, []byte("\n")) != jobs {
		t.Errorf("%d runs of %d jobs", bytes.Count(runs, []byte("\n")), jobs)
	}
	expectJobs(t, p, "slow", "0 0 0 0")
}
