package main

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

	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/gearman"
	"polystalk/codec/wiretest"
)

// gearmandCommand is polystalkd in place of gearmand, on one address of this machine.
func gearmandCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"gearmand", "--log-format", "json", "-L", "127.0.0.1", "-p", "0", "--job-handle-prefix", "H:x", "--config-file", os.DevNull}, args...)...)
	cmd.Env = cleanEnv()
	return cmd
}

// gearmandWith starts it and returns its address for Gearman.
func gearmandWith(t *testing.T, args ...string) (s *server, gear string) {
	t.Helper()
	s = startServer(t, gearmandCommand(args...))
	return s, s.gearman()[0]
}

// gearman are the addresses for Gearman of a server that serves.
func (s *server) gearman() (list []string) {
	s.t.Helper()
	line := s.waitLog("serving Gearman")
	if line == nil {
		s.t.Fatal("it does not serve Gearman")
	}
	for _, a := range line["listen"].([]any) {
		list = append(list, a.(string))
	}
	return list
}

// request and response are packets.
func request(t gearman.Type, args ...string) string {
	return string(gearman.AppendRequest(nil, t, inBytes(args)...))
}

func response(t gearman.Type, args ...string) string {
	return string(gearman.AppendReply(nil, t, inBytes(args)...))
}

func inBytes(args []string) (list [][]byte) {
	for _, a := range args {
		list = append(list, []byte(a))
	}
	return list
}

// says sends a packet or a line and wants exactly that answer.
func says(t *testing.T, conn net.Conn, text, want string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	hears(t, conn, want)
}

func hears(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if string(got[:n]) != want {
		t.Fatalf("got %q (%v), want %q", got[:n], err, want)
	}
}

// endsWith wants the process to end by itself with that code.
func (s *server) endsWith(code int) {
	s.t.Helper()
	if got := s.end(); got != code {
		s.t.Errorf("exit code %d, want %d", got, code)
	}
}

func TestGearmandServesGearmanOnly(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s, gear := gearmandWith(t)
		if len(s.listen) != 0 {
			t.Errorf("beanstalkd's protocol is spoken on %q", s.listen)
		}
		conn := dial(t, gear)
		says(t, conn, request(gearman.SubmitJobBG, "f", "", "x"), response(gearman.JobCreated, "H:x:1"))
		says(t, conn, "getpid\n", "OK "+strconv.Itoa(s.cmd.Process.Pid)+"\n")
		s.signal(sig)
		s.endsWith(0)
	}
}

// TestGearmandUnderItsName: the name of the program alone makes it one.
func TestGearmandUnderItsName(t *testing.T) {
	link := filepath.Join(t.TempDir(), "gearmand")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	port, err := wiretest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, "--log-format", "json", "-L", "localhost", "--threads=4", "--round-robin")
	cmd.Env = cleanEnv("GEARMAND_PORT=" + strconv.Itoa(port))
	s := startServer(t, cmd)
	for _, gear := range s.gearman() {
		if !strings.HasSuffix(gear, ":"+strconv.Itoa(port)) {
			t.Errorf("it listens on %s, not on port %d", gear, port)
		}
		says(t, dial(t, gear), "maxqueue f 1\n", "OK\r\n")
	}
	if line := s.waitLog("serving Gearman"); line["speaks"] != "gearmand 2.0.0" {
		t.Errorf("the log says: %v", line)
	}
	// Nothing is said of the protocol that nobody listens for.
	if line := s.waitLog("serving"); line["listen"] != nil || line["speaks"] != nil || line["pid"] == nil {
		t.Errorf("the log says: %v", line)
	}
	for _, flag := range []string{"-t", "-R"} {
		if !strings.Contains(s.logText(), "flag "+flag+" has no effect: ") {
			t.Errorf("the log does not say that %s has no effect", flag)
		}
	}
	if got := runToEnd(t, link, cleanEnv(), "--nosuch"); got.code != 1 || !strings.HasPrefix(got.stderr, "gearmand: ") || !strings.Contains(got.stderr, "see gearmand --help") {
		t.Errorf("%+v", got)
	}
	if got := runToEnd(t, link, cleanEnv(), "--version"); got.code != 0 || !strings.HasPrefix(got.stdout, "polystalkd ") {
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
	s, gear := gearmandWith(t, "--verbose", "NOTICE")
	host, port, _ := net.SplitHostPort(gear)
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
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
	if got := strings.TrimSpace(run("gearadmin", "--getpid")); got != strconv.Itoa(s.cmd.Process.Pid) {
		t.Errorf("getpid: %q", got)
	}
	if got := run("gearman", "-w", "-c", "1", "-f", "tool", "cat"); strings.Contains(got, "rror") {
		t.Errorf("worker: %q", got)
	}
	if got := run("gearadmin", "--status"); !strings.Contains(got, "tool\t0\t0\t0") {
		t.Errorf("status after the work: %q", got)
	}
	says(t, dial(t, gear), "shutdown\n", "OK\r\n")
	s.endsWith(0)
}

func TestGearmandBridgesToBeanstalkd(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	s, gear := gearmandWith(t, "--beanstalk-listen", "127.0.0.1:0", "--beanstalk-listen", "unix:"+path)
	if len(s.listen) != 2 || s.listen[1] != "unix:"+path {
		t.Fatalf("beanstalkd's protocol is spoken on %q", s.listen)
	}
	client := dial(t, gear)
	for i, addr := range s.listen {
		id := strconv.Itoa(i + 1)
		says(t, client, request(gearman.SubmitJob, "f", "", "work"), response(gearman.JobCreated, "H:x:"+id))
		worker := dial(t, addr)
		says(t, worker, "watch f\r\nreserve\r\ndelete "+id+"\r\n", "WATCHING 2\r\nRESERVED "+id+" 4\r\nwork\r\nDELETED\r\n")
		hears(t, client, response(gearman.WorkComplete, "H:x:"+id, ""))
	}
}

// TestGearmandGoesWhenIdle: SIGUSR1 without a job.
func TestGearmandGoesWhenIdle(t *testing.T) {
	s, gear := gearmandWith(t)
	conn := dial(t, gear)
	says(t, conn, "maxqueue f\n", "OK\r\n")
	s.signal(syscall.SIGUSR1)
	s.endsWith(0)
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection ends with %v", err)
	}
}

// TestGearmandGoesWhenItsJobsAreDone: SIGUSR1 with jobs. Who is in is served on, and
// may even submit.
func TestGearmandGoesWhenItsJobsAreDone(t *testing.T) {
	s, gear := gearmandWith(t, "--beanstalk-listen", "127.0.0.1:0")
	conn := dial(t, gear)
	says(t, conn, request(gearman.SubmitJobBG, "f", "", "x"), response(gearman.JobCreated, "H:x:1"))
	s.signal(syscall.SIGUSR1)
	if s.waitLog("no new connections are accepted; it ends when no job is left") == nil {
		t.Fatal("it ended with a job")
	}
	for _, addr := range []string{gear, s.listen[0]} {
		if late, err := net.DialTimeout("tcp", addr, hang); err == nil {
			late.Close()
			t.Errorf("%s accepts connections", addr)
		}
	}
	s.signal(syscall.SIGUSR1) // again: nothing new
	says(t, conn, request(gearman.SubmitJob, "f", "", "y"), response(gearman.JobCreated, "H:x:2"))
	says(t, conn, request(gearman.CanDo, "f")+request(gearman.GrabJob), response(gearman.JobAssign, "H:x:1", "f", "x"))
	says(t, conn, request(gearman.WorkComplete, "H:x:1", "")+request(gearman.GrabJob), response(gearman.JobAssign, "H:x:2", "f", "y"))
	says(t, conn, request(gearman.WorkComplete, "H:x:2", "done"), response(gearman.WorkComplete, "H:x:2", "done"))
	s.endsWith(0)
}

// TestGearmandLosesNothingWhenItGoes: between the last look for jobs and the end no job
// is acknowledged. A client that always has one, or is about to submit it, meets that
// moment.
func TestGearmandLosesNothingWhenItGoes(t *testing.T) {
	for range 10 {
		s, gear := gearmandWith(t)
		conn := dial(t, gear)
		says(t, conn, request(gearman.CanDo, "f")+"maxqueue f\n", "OK\r\n")
		first := make(chan bool)
		over := make(chan string, 1)
		go func() { over <- oneJobAfterTheOther(conn, first) }()
		<-first
		s.signal(syscall.SIGUSR1)
		if got := <-over; got != "" {
			t.Errorf("a job was acknowledged and lost: %s", got)
		}
		s.endsWith(0)
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
		io.WriteString(conn, request(gearman.SubmitJobBG, "f", "", "x")) // read tells
		typ, err := read()
		if err != nil || typ == gearman.Error {
			return ""
		}
		if n == 0 {
			close(first)
		}
		io.WriteString(conn, request(gearman.GrabJob))
		if typ, err = read(); err != nil || typ != gearman.JobAssign {
			return fmt.Sprintf("packet %d, %v", typ, err)
		}
		// Nobody else has jobs: the ids are those of the rounds.
		io.WriteString(conn, request(gearman.WorkComplete, "H:x:"+strconv.Itoa(n+1), ""))
	}
}

// TestDrainingServerRefusesSubmissions: SIGUSR1 of the normal command line.
func TestDrainingServerRefusesSubmissions(t *testing.T) {
	s := serveWith(t, "--gearman-listen", "127.0.0.1:0", "--gearman-prefix", "H:x")
	conn := dial(t, s.gearman()[0])
	says(t, conn, request(gearman.SubmitJobBG, "f", "", "x"), response(gearman.JobCreated, "H:x:1"))
	s.signal(syscall.SIGUSR1)
	if s.waitLog("draining: no new jobs are accepted") == nil {
		t.Fatal("it ended")
	}
	says(t, conn, request(gearman.SubmitJob, "f", "", "x"), response(gearman.Error, "QUEUE_ERROR", "Draining: the server accepts no new jobs"))
	says(t, conn, request(gearman.CanDo, "f")+request(gearman.GrabJob), response(gearman.JobAssign, "H:x:1", "f", "x"))
}

// TestLargestBodyIsAFlag of both command lines.
func TestLargestBodyIsAFlag(t *testing.T) {
	normal := serveWith(t, "--gearman-listen", "127.0.0.1:0", "--gearman-max-body", "1000", "--gearman-prefix", "H:x")
	_, gear := gearmandWith(t, "--gearman-max-body", "1000")
	for _, addr := range []string{normal.gearman()[0], gear} {
		conn := dial(t, addr)
		says(t, conn, request(gearman.SubmitJobBG, "f", "", strings.Repeat("x", 997)), response(gearman.JobCreated, "H:x:1"))
		says(t, conn, request(gearman.SubmitJobBG, "f", "", strings.Repeat("x", 998)), response(gearman.Error, "DATA_TOO_LARGE", "Packet too large"))
		if rest, err := io.ReadAll(conn); len(rest) > 0 {
			t.Errorf("behind the error: %q, %v", rest, err)
		}
	}
	for _, value := range []string{"0", "-1", "64M", "1073741825"} {
		got := runToEnd(t, binary, cleanEnv(), "--gearman-max-body", value)
		if got.code != fault.Usage || !strings.Contains(got.stderr, `flag --gearman-max-body: bad value "`+value+`"`) {
			t.Errorf("%s: %+v", value, got)
		}
	}
}

func TestGearmandsJournalKeepsBackgroundJobs(t *testing.T) {
	dir := t.TempDir()
	s, gear := gearmandWith(t, "--journal", dir)
	conn := dial(t, gear)
	says(t, conn, request(gearman.SubmitJobBG, "f", "u", "x"), response(gearman.JobCreated, "H:x:1"))
	s.signal(syscall.SIGKILL)
	s.end()
	_, gear = gearmandWith(t, "--journal", dir)
	says(t, dial(t, gear), request(gearman.CanDo, "f")+request(gearman.GrabJob), response(gearman.JobAssign, "H:x:1", "f", "x"))
}

func TestGearmandTakesInheritedSockets(t *testing.T) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, binary, "gearmand", "--log-format", "json", "-p", "1", "-b", "5", "-L", "192.0.2.1", "--beanstalk-listen", "127.0.0.1:0")
	cmd.Env = cleanEnv("LISTEN_FDS=1")
	cmd.ExtraFiles = []*os.File{fileOf(t, l)}
	s := startServer(t, cmd)
	says(t, dial(t, l.Addr().String()), "maxqueue f\n", "OK\r\n")
	if got := ask(t, dial(t, s.listen[0]), "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
		t.Errorf("reply %q", got)
	}
	for _, flag := range []string{"-p", "-L", "-b"} {
		if s.waitLog("sockets were passed in by the service manager; ignoring flag "+flag) == nil {
			t.Errorf("no warning that %s is ignored", flag)
		}
	}
	s.signal(syscall.SIGTERM)
	s.endsWith(0)

	daemon := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, binary, "gearmand", "-d")
	daemon.Env, daemon.ExtraFiles = cmd.Env, []*os.File{fileOf(t, l)}
	out, err := daemon.CombinedOutput()
	if daemon.ProcessState.ExitCode() != fault.Gearmand || !strings.Contains(string(out), "flag -d: sockets") {
		t.Errorf("-d with sockets: %v, %s", err, out)
	}
}

// TestGearmandLimitsDescriptors: the limit shows in how many are served.
func TestGearmandLimitsDescriptors(t *testing.T) {
	s, _ := gearmandWith(t, "-f", "100", "--max-connections", "5000")
	line := s.waitLog("the limit of descriptors allows fewer connections than --max-connections; raise it (ulimit -n, LimitNOFILE)")
	if line == nil || line["served"].(float64) > 100 {
		t.Errorf("the log says %v", line)
	}
}

// TestGearmandRaisesTooFewDescriptors: gearmand takes -f 4, which its own tests give,
// and cannot serve then.
func TestGearmandRaisesTooFewDescriptors(t *testing.T) {
	for _, n := range []string{"4", "1", "63", "0", "-1"} {
		s, gear := gearmandWith(t, "-f", n)
		says(t, dial(t, gear), "status\n", ".\n")
		raised := strings.Contains(s.logText(), "flag -f: "+n+" descriptors are too few to serve anybody; 64 are allowed")
		if raised != (n[0] != '0' && n[0] != '-') {
			t.Errorf("-f %s: %s", n, s.logText())
		}
	}
}

// TestGearmandLosesJobsToRetries: a flag of gearmand reaches the queue.
func TestGearmandLosesJobsToRetries(t *testing.T) {
	_, gear := gearmandWith(t, "-j", "1", "--exceptions")
	client, worker := dial(t, gear), dial(t, gear)
	says(t, client, request(gearman.SubmitJob, "f", "", "x"), response(gearman.JobCreated, "H:x:1"))
	says(t, worker, request(gearman.CanDo, "f")+request(gearman.GrabJob), response(gearman.JobAssign, "H:x:1", "f", "x"))
	says(t, worker, request(gearman.WorkException, "H:x:1", "boom"), "")
	hears(t, client, response(gearman.WorkException, "H:x:1", "boom"))
	says(t, client, request(gearman.SubmitJob, "f", "", "y"), response(gearman.JobCreated, "H:x:2"))
	says(t, worker, request(gearman.GrabJob), response(gearman.JobAssign, "H:x:2", "f", "y"))
	worker.Close()
	hears(t, client, response(gearman.WorkFail, "H:x:2"))
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
	dir := publicDir(t)
	if err := os.Chown(dir, uid, -1); err != nil {
		t.Fatal(err)
	}
	log, pid := filepath.Join(dir, "log"), filepath.Join(dir, "pid")
	cmd := gearmandCommand("-u", "nobody", "-l", log, "-P", pid)
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

// TestFailuresAreLogged: who looks at the log file sees why there is no server.
func TestFailuresAreLogged(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	got := runToEnd(t, binary, cleanEnv(), "gearmand", "-L", "127.0.0.1", "-p", "0", "-l", log, "--journal", dir+"/no")
	if got.code != fault.Gearmand || !strings.Contains(got.stderr, "--journal") {
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
