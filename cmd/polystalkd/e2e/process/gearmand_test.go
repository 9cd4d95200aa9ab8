package process

import (
	"bufio"
	"context"
	bits "encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/conversation"
	"polystalk/codec/gearman"
)

func TestGearmandServesGearmanOnly(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s, gear := daemon.GearmandWith(t)
		if len(s.Listen) != 0 {
			t.Errorf("beanstalkd's protocol is spoken on %q", s.Listen)
		}
		conn := daemon.Dial(t, gear)
		daemon.Says(t, conn, daemon.Request(gearman.SubmitJobBG, "f", "", "x"), daemon.Response(gearman.JobCreated, "H:x:1"))
		daemon.Says(t, conn, "getpid\n", "OK "+strconv.Itoa(s.Cmd.Process.Pid)+"\n")
		s.Signal(sig)
		s.EndsWith(0)
	}
}

// TestGearmandUnderItsName: the name of the program alone makes it one.
func TestGearmandUnderItsName(t *testing.T) {
	link := filepath.Join(t.TempDir(), "gearmand")
	if err := os.Symlink(daemon.Binary, link); err != nil {
		t.Fatal(err)
	}
	port, err := conversation.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, "--log-format", "json", "-L", "localhost", "--threads=4", "--round-robin")
	cmd.Env = daemon.CleanEnv("GEARMAND_PORT=" + strconv.Itoa(port))
	s := daemon.Await(t, cmd)
	for _, gear := range s.Gearman() {
		if !strings.HasSuffix(gear, ":"+strconv.Itoa(port)) {
			t.Errorf("it listens on %s, not on port %d", gear, port)
		}
		daemon.Says(t, daemon.Dial(t, gear), "maxqueue f 1\n", "OK\r\n")
	}
	if line := s.WaitLog("serving Gearman"); line["speaks"] != "gearmand 2.0.0" {
		t.Errorf("the log says: %v", line)
	}
	// Nothing is said of the protocol that nobody listens for.
	if line := s.WaitLog("serving"); line["listen"] != nil || line["speaks"] != nil || line["pid"] == nil {
		t.Errorf("the log says: %v", line)
	}
	for _, flag := range []string{"-t", "-R"} {
		if !strings.Contains(s.LogText(), "flag "+flag+" has no effect: ") {
			t.Errorf("the log does not say that %s has no effect", flag)
		}
	}
	if got := daemon.RunToEnd(t, link, daemon.CleanEnv(), "--nosuch"); got.Code != 1 || !strings.HasPrefix(got.Stderr, "gearmand: ") || !strings.Contains(got.Stderr, "see gearmand --help") {
		t.Errorf("%+v", got)
	}
	if got := daemon.RunToEnd(t, link, daemon.CleanEnv(), "--version"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "polystalkd ") {
		t.Errorf("%+v", got)
	}
}

// TestGearmandsToolsWork: Gearman's own command line clients.
func TestGearmandsToolsWork(t *testing.T) {
	for _, tool := range []string{"gearman", "gearadmin"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: install gearman-tools", err)
		}
	}
	s, gear := daemon.GearmandWith(t, "--verbose", "NOTICE")
	host, port, _ := net.SplitHostPort(gear)
	ctx, cancel := context.WithTimeout(t.Context(), daemon.ClientTime)
	defer cancel()
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(ctx, name, append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("gearman", "-b", "-f", "tool", "payload")
	if got := run("gearadmin", "--status"); !strings.Contains(got, "tool\t1\t0\t0") {
		t.Errorf("status: %q", got)
	}
	if got := strings.TrimSpace(run("gearadmin", "--server-verbose")); got != "NOTICE" {
		t.Errorf("verbose: %q", got)
	}
	if got := strings.TrimSpace(run("gearadmin", "--getpid")); got != strconv.Itoa(s.Cmd.Process.Pid) {
		t.Errorf("getpid: %q", got)
	}
	if got := run("gearman", "-w", "-c", "1", "-f", "tool", "cat"); strings.Contains(got, "rror") {
		t.Errorf("worker: %q", got)
	}
	if got := run("gearadmin", "--status"); !strings.Contains(got, "tool\t0\t0\t0") {
		t.Errorf("status after the work: %q", got)
	}
	daemon.Says(t, daemon.Dial(t, gear), "shutdown\n", "OK\r\n")
	s.EndsWith(0)
}

func TestGearmandBridgesToBeanstalkd(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	s, gear := daemon.GearmandWith(t, "--beanstalk-listen", "127.0.0.1:0", "--beanstalk-listen", "unix:"+path)
	if len(s.Listen) != 2 || s.Listen[1] != "unix:"+path {
		t.Fatalf("beanstalkd's protocol is spoken on %q", s.Listen)
	}
	client := daemon.Dial(t, gear)
	for i, addr := range s.Listen {
		id := strconv.Itoa(i + 1)
		daemon.Says(t, client, daemon.Request(gearman.SubmitJob, "f", "", "work"), daemon.Response(gearman.JobCreated, "H:x:"+id))
		worker := daemon.Dial(t, addr)
		daemon.Says(t, worker, "watch f\r\nreserve\r\ndelete "+id+"\r\n", "WATCHING 2\r\nRESERVED "+id+" 4\r\nwork\r\nDELETED\r\n")
		daemon.Hears(t, client, daemon.Response(gearman.WorkComplete, "H:x:"+id, ""))
	}
}

// TestGearmandGoesWhenIdle: SIGUSR1 without a job.
func TestGearmandGoesWhenIdle(t *testing.T) {
	s, gear := daemon.GearmandWith(t)
	conn := daemon.Dial(t, gear)
	daemon.Says(t, conn, "maxqueue f\n", "OK\r\n")
	s.Signal(syscall.SIGUSR1)
	s.EndsWith(0)
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection ends with %v", err)
	}
}

// TestGearmandGoesWhenItsJobsAreDone: SIGUSR1 with jobs. Open connections are served on, and
// may even submit.
func TestGearmandGoesWhenItsJobsAreDone(t *testing.T) {
	s, gear := daemon.GearmandWith(t, "--beanstalk-listen", "127.0.0.1:0")
	conn := daemon.Dial(t, gear)
	daemon.Says(t, conn, daemon.Request(gearman.SubmitJobBG, "f", "", "x"), daemon.Response(gearman.JobCreated, "H:x:1"))
	s.Signal(syscall.SIGUSR1)
	if s.WaitLog("no new connections are accepted; it ends when no job is left") == nil {
		t.Fatal("it ended with a job")
	}
	for _, addr := range []string{gear, s.Listen[0]} {
		if late, err := net.DialTimeout("tcp", addr, daemon.Hang); err == nil {
			late.Close()
			t.Errorf("%s accepts connections", addr)
		}
	}
	s.Signal(syscall.SIGUSR1) // again: nothing new
	daemon.Says(t, conn, daemon.Request(gearman.SubmitJob, "f", "", "y"), daemon.Response(gearman.JobCreated, "H:x:2"))
	daemon.Says(t, conn, daemon.Request(gearman.CanDo, "f")+daemon.Request(gearman.GrabJob), daemon.Response(gearman.JobAssign, "H:x:1", "f", "x"))
	daemon.Says(t, conn, daemon.Request(gearman.WorkComplete, "H:x:1", "")+daemon.Request(gearman.GrabJob), daemon.Response(gearman.JobAssign, "H:x:2", "f", "y"))
	daemon.Says(t, conn, daemon.Request(gearman.WorkComplete, "H:x:2", "done"), daemon.Response(gearman.WorkComplete, "H:x:2", "done"))
	s.EndsWith(0)
}

// TestGearmandLosesNothingWhenItGoes: between the last look for jobs and the end no job
// is acknowledged. A client that always has one, or is about to submit it, meets that
// moment.
func TestGearmandLosesNothingWhenItGoes(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for range 10 {
		s, gear := daemon.GearmandWith(t)
		conn := daemon.Dial(t, gear)
		daemon.Says(t, conn, daemon.Request(gearman.CanDo, "f")+"maxqueue f\n", "OK\r\n")
		first := make(chan bool)
		over := make(chan string, 1)
		go func() { over <- oneJobAfterTheOther(conn, first) }()
		<-first
		s.Signal(syscall.SIGUSR1)
		if got := <-over; got != "" {
			t.Errorf("a job was acknowledged and lost: %s", got)
		}
		s.EndsWith(0)
	}
}

// oneJobAfterTheOther submits a job, takes it and completes it, again and again, until
// the server refuses one or has gone. lost says how a job ended that was acknowledged
// and not given out. first is closed after the first job.
func oneJobAfterTheOther(conn net.Conn, first chan bool) (lost string) {
	r := bufio.NewReader(conn)
	read := func() (typ gearman.Type, err error) {
		head := make([]byte, gearman.HeaderSize)
		if _, err := io.ReadFull(r, head); err != nil {
			return 0, err
		}
		_, err = io.CopyN(io.Discard, r, int64(bits.BigEndian.Uint32(head[8:])))
		return gearman.Type(bits.BigEndian.Uint32(head[4:])), err
	}
	for n := 0; ; n++ {
		io.WriteString(conn, daemon.Request(gearman.SubmitJobBG, "f", "", "x")) // read tells
		typ, err := read()
		if err != nil || typ == gearman.Error {
			return ""
		}
		if n == 0 {
			close(first)
		}
		io.WriteString(conn, daemon.Request(gearman.GrabJob))
		if typ, err = read(); err != nil || typ != gearman.JobAssign {
			return fmt.Sprintf("packet %d, %v", typ, err)
		}
		// No other client has jobs: each round has the next id.
		io.WriteString(conn, daemon.Request(gearman.WorkComplete, "H:x:"+strconv.Itoa(n+1), ""))
	}
}

// TestDrainingServerRefusesSubmissions: SIGUSR1 of the normal command line.
func TestDrainingServerRefusesSubmissions(t *testing.T) {
	s := daemon.Serve(t, "--gearman-listen", "127.0.0.1:0", "--gearman-prefix", "H:x")
	conn := daemon.Dial(t, s.Gearman()[0])
	daemon.Says(t, conn, daemon.Request(gearman.SubmitJobBG, "f", "", "x"), daemon.Response(gearman.JobCreated, "H:x:1"))
	s.Signal(syscall.SIGUSR1)
	if s.WaitLog("draining: no new jobs are accepted") == nil {
		t.Fatal("it ended")
	}
	daemon.Says(t, conn, daemon.Request(gearman.SubmitJob, "f", "", "x"), daemon.Response(gearman.Error, "QUEUE_ERROR", "Draining: the server accepts no new jobs"))
	daemon.Says(t, conn, daemon.Request(gearman.CanDo, "f")+daemon.Request(gearman.GrabJob), daemon.Response(gearman.JobAssign, "H:x:1", "f", "x"))
}

// TestLargestBodyIsAFlag of both command lines.
func TestLargestBodyIsAFlag(t *testing.T) {
	normal := daemon.Serve(t, "--gearman-listen", "127.0.0.1:0", "--gearman-max-body", "1000", "--gearman-prefix", "H:x")
	_, gear := daemon.GearmandWith(t, "--gearman-max-body", "1000")
	for _, addr := range []string{normal.Gearman()[0], gear} {
		conn := daemon.Dial(t, addr)
		daemon.Says(t, conn, daemon.Request(gearman.SubmitJobBG, "f", "", strings.Repeat("x", 997)), daemon.Response(gearman.JobCreated, "H:x:1"))
		daemon.Says(t, conn, daemon.Request(gearman.SubmitJobBG, "f", "", strings.Repeat("x", 998)), daemon.Response(gearman.Error, "DATA_TOO_LARGE", "Packet too large"))
		if rest, err := io.ReadAll(conn); len(rest) > 0 {
			t.Errorf("behind the error: %q, %v", rest, err)
		}
	}
	for _, value := range []string{"0", "-1", "64M", "1073741825"} {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "--gearman-max-body", value)
		if got.Code != fault.Usage || !strings.Contains(got.Stderr, `flag --gearman-max-body: bad value "`+value+`"`) {
			t.Errorf("%s: %+v", value, got)
		}
	}
}

func TestGearmandsJournalKeepsBackgroundJobs(t *testing.T) {
	dir := t.TempDir()
	s, gear := daemon.GearmandWith(t, "--journal", dir)
	conn := daemon.Dial(t, gear)
	daemon.Says(t, conn, daemon.Request(gearman.SubmitJobBG, "f", "u", "x"), daemon.Response(gearman.JobCreated, "H:x:1"))
	s.Signal(syscall.SIGKILL)
	s.End()
	_, gear = daemon.GearmandWith(t, "--journal", dir)
	daemon.Says(t, daemon.Dial(t, gear), daemon.Request(gearman.CanDo, "f")+daemon.Request(gearman.GrabJob), daemon.Response(gearman.JobAssign, "H:x:1", "f", "x"))
}

func TestGearmandTakesInheritedSockets(t *testing.T) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, daemon.Binary, "gearmand", "--log-format", "json", "-p", "1", "-b", "5", "-L", "192.0.2.1", "--beanstalk-listen", "127.0.0.1:0")
	cmd.Env = daemon.CleanEnv("LISTEN_FDS=1")
	cmd.ExtraFiles = []*os.File{daemon.FileOf(t, l)}
	s := daemon.Await(t, cmd)
	daemon.Says(t, daemon.Dial(t, l.Addr().String()), "maxqueue f\n", "OK\r\n")
	if got := daemon.Ask(t, daemon.Dial(t, s.Listen[0]), "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
		t.Errorf("reply %q", got)
	}
	for _, flag := range []string{"-p", "-L", "-b"} {
		if s.WaitLog("sockets were passed in by the service manager; ignoring flag "+flag) == nil {
			t.Errorf("no warning that %s is ignored", flag)
		}
	}
	s.Signal(syscall.SIGTERM)
	s.EndsWith(0)

	detached := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, daemon.Binary, "gearmand", "-d")
	detached.Env, detached.ExtraFiles = cmd.Env, []*os.File{daemon.FileOf(t, l)}
	out, err := detached.CombinedOutput()
	if detached.ProcessState.ExitCode() != fault.Gearmand || !strings.Contains(string(out), "flag -d: sockets") {
		t.Errorf("-d with sockets: %v, %s", err, out)
	}
}

// TestGearmandLimitsDescriptors: the limit shows in how many are served.
func TestGearmandLimitsDescriptors(t *testing.T) {
	s, _ := daemon.GearmandWith(t, "-f", "100", "--max-connections", "5000")
	line := s.WaitLog("the limit of descriptors allows fewer connections than --max-connections; raise it (ulimit -n, LimitNOFILE)")
	if line == nil || line["served"].(float64) > 100 {
		t.Errorf("the log says %v", line)
	}
}

// TestGearmandRaisesTooFewDescriptors: gearmand takes -f 4, which its own tests give,
// and cannot serve then.
func TestGearmandRaisesTooFewDescriptors(t *testing.T) {
	for _, n := range []string{"4", "1", "63", "0", "-1"} {
		s, gear := daemon.GearmandWith(t, "-f", n)
		daemon.Says(t, daemon.Dial(t, gear), "status\n", ".\n")
		raised := strings.Contains(s.LogText(), "flag -f: "+n+" descriptors are too few to serve anybody; 64 are allowed")
		if raised != (n[0] != '0' && n[0] != '-') {
			t.Errorf("-f %s: %s", n, s.LogText())
		}
	}
}

// TestGearmandLosesJobsToRetries: a flag of gearmand reaches the queue.
func TestGearmandLosesJobsToRetries(t *testing.T) {
	_, gear := daemon.GearmandWith(t, "-j", "1", "--exceptions")
	client, worker := daemon.Dial(t, gear), daemon.Dial(t, gear)
	daemon.Says(t, client, daemon.Request(gearman.SubmitJob, "f", "", "x"), daemon.Response(gearman.JobCreated, "H:x:1"))
	daemon.Says(t, worker, daemon.Request(gearman.CanDo, "f")+daemon.Request(gearman.GrabJob), daemon.Response(gearman.JobAssign, "H:x:1", "f", "x"))
	daemon.Says(t, worker, daemon.Request(gearman.WorkException, "H:x:1", "boom"), "")
	daemon.Hears(t, client, daemon.Response(gearman.WorkException, "H:x:1", "boom"))
	daemon.Says(t, client, daemon.Request(gearman.SubmitJob, "f", "", "y"), daemon.Response(gearman.JobCreated, "H:x:2"))
	daemon.Says(t, worker, daemon.Request(gearman.GrabJob), daemon.Response(gearman.JobAssign, "H:x:2", "f", "y"))
	worker.Close()
	daemon.Hears(t, client, daemon.Response(gearman.WorkFail, "H:x:2"))
}

// TestGearmandAsAUser: what it writes while it runs belongs to the account.
func TestGearmandAsAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	who, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		t.Fatal(err)
	}
	dir := daemon.PublicDir(t)
	if err := os.Chown(dir, uid, -1); err != nil {
		t.Fatal(err)
	}
	log, pid := filepath.Join(dir, "log"), filepath.Join(dir, "pid")
	cmd := daemon.GearmandCommand("-u", "nobody", "-l", log, "-P", pid)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	awaitFile(t, log, `"msg":"serving"`)
	found, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	if owner := int(found.Sys().(*syscall.Stat_t).Uid); owner != uid {
		t.Errorf("the log belongs to %d, not to %d", owner, uid)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, log, "the log file was opened again")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the pid file is left behind: %v", err)
	}
}

// TestFailuresAreLogged: the log file tells why there is no server.
func TestFailuresAreLogged(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "gearmand", "-L", "127.0.0.1", "-p", "0", "-l", log, "--journal", dir+"/no")
	if got.Code != fault.Gearmand || !strings.Contains(got.Stderr, "--journal") {
		t.Errorf("%+v", got)
	}
	awaitFile(t, log, "the server has failed")
}

// awaitFile returns once the file holds that text.
func awaitFile(t *testing.T, path, text string) {
	t.Helper()
	deadline := newDeadline(t)
	for {
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), text) {
			return
		}
		deadline.wait("%s does not come to hold %q but %q, %v", path, text, b, err)
	}
}
