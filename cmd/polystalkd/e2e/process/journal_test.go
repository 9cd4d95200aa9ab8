package process

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/binlog"
	"polystalk/codec/conversation"
)

// startLogged runs the daemon with a journal in dir.
func startLogged(t *testing.T, dir string, args ...string) *daemon.Server {
	t.Helper()
	return daemon.Serve(t, append([]string{"-b", dir}, args...)...)
}

// fields returns the values of a reply in YAML, without quotes.
func fields(reply string) map[string]string {
	m := make(map[string]string)
	for line := range strings.SplitSeq(reply, "\n") {
		if key, value, ok := strings.Cut(line, ": "); ok {
			m[key] = strings.Trim(value, `"`)
		}
	}
	return m
}

// A sighting is a server's description of a job.
type sighting struct {
	stats map[string]string
	body  string
}

// shape returns the properties of a job that must not change by themselves: stats-job without
// values that depend on the time or the file.
func (s *sighting) shape() string {
	var b strings.Builder
	for _, key := range []string{"tube", "state", "pri", "delay", "ttr", "reserves", "timeouts", "releases", "buries", "kicks"} {
		fmt.Fprintf(&b, "%s=%s ", key, s.stats[key])
	}
	fmt.Fprintf(&b, "body=%d:%.40q", len(s.body), s.body)
	return b.String()
}

// see returns the jobs that exist.
func see(t *testing.T, c *conversation.Client, ids []uint64) map[uint64]*sighting {
	t.Helper()
	found := make(map[uint64]*sighting)
	for chunk := range slices.Chunk(ids, 2000) {
		var ask bytes.Buffer
		for _, id := range chunk {
			fmt.Fprintf(&ask, "peek %d\r\nstats-job %d\r\n", id, id)
		}
		fed := daemon.Feed(c, ask.Bytes())
		for _, id := range chunk {
			job, err := c.Reply(conversation.Patience)
			must(t, err)
			stats, err := c.Reply(conversation.Patience)
			must(t, err)
			head, body, _ := bytes.Cut(job, []byte("\r\n"))
			if string(head) == "NOT_FOUND" && string(stats) == "NOT_FOUND\r\n" {
				continue
			}
			if !bytes.HasPrefix(head, fmt.Appendf(nil, "FOUND %d ", id)) || !bytes.HasPrefix(stats, []byte("OK ")) {
				t.Fatalf("job %d: %.60q, %.60q", id, job, stats)
			}
			found[id] = &sighting{fields(string(stats)), string(bytes.TrimSuffix(body, []byte("\r\n")))}
		}
		must(t, <-fed)
	}
	return found
}

// upTo returns the ids 1 to n.
func upTo(n uint64) (ids []uint64) {
	for id := range n {
		ids = append(ids, id+1)
	}
	return ids
}

// sameJobs compares two sightings of the same jobs. No job may become due in between.
func sameJobs(t *testing.T, got, want map[uint64]*sighting) {
	t.Helper()
	for id, w := range want {
		g := got[id]
		if g == nil {
			t.Errorf("job %d is lost: %s", id, w.shape())
			continue
		}
		if g.shape() != w.shape() || g.body != w.body {
			t.Errorf("job %d was\n\t%s, is\n\t%s", id, w.shape(), g.shape())
		}
	}
	for id, g := range got {
		if want[id] == nil {
			t.Errorf("job %d is there, and should not be: %s", id, g.shape())
		}
	}
}

// segments returns the journal's files in dir.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "journal.*"))
	must(t, err)
	return names
}

// contents returns the files of dir with a prefix: bytes by name.
func contents(t *testing.T, dir, prefix string) map[string]string {
	t.Helper()
	m := make(map[string]string)
	names, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	must(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(t, err)
		m[filepath.Base(name)] = string(b)
	}
	return m
}

// putN puts n jobs in one write and expects each to be acknowledged. It returns the last id.
func putN(t *testing.T, c *conversation.Client, n int, command string) (last uint64) {
	t.Helper()
	fed := daemon.Feed(c, bytes.Repeat([]byte(command), n))
	for range n {
		reply, err := c.Reply(conversation.Patience)
		must(t, err)
		if _, err := fmt.Sscanf(string(reply), "INSERTED %d\r\n", &last); err != nil {
			t.Fatalf("put: %q", reply)
		}
	}
	must(t, <-fed)
	return last
}

// TestKillKeepsWhatWasAcknowledged, with each sync policy: jobs in each state, bodies up to the limit
// and the pause of a tube survive kill -9. After a restart beanstalkd refuses its own jobs of 65534
// and 65535 bytes, and all jobs that follow them. A smaller limit for new jobs makes no difference.
// The fault harness (make faults) has kill rounds that judge whole histories.
func TestKillKeepsWhatWasAcknowledged(t *testing.T) {
	for _, policy := range [][]string{nil, {"-f", "5"}, {"-F"}} {
		t.Run("policy="+strings.Join(policy, ""), func(t *testing.T) {
			dir := t.TempDir()
			s := startLogged(t, dir, policy...)
			c := s.Client()
			for i, size := range []int{4, 4, 4, 4, 4, 0, 1, 65533, 65534, 65535, 1} {
				daemon.Expect(t, c, fmt.Sprintf("put 9 0 1000 %d\r\n%s\r\n", size, strings.Repeat("b", size)), fmt.Sprintf("INSERTED %d\r\n", i+1))
			}
			for id, end := range map[int]string{1: "bury 1 5\r\n", 2: "release 2 4 3000\r\n", 3: "release 3 3 0\r\n", 4: "bury 4 1\r\n"} {
				daemon.MustAsk(t, c, "reserve-job %d\r\n", id)
				daemon.MustAsk(t, c, "%s", end)
			}
			daemon.Expect(t, c, "kick-job 4\r\n", "KICKED\r\n")
			daemon.Expect(t, c, "pause-tube default 4000\r\n", "PAUSED\r\n")
			states := see(t, c, upTo(11))
			daemon.MustAsk(t, c, "reserve-job 5\r\n") // the reservation ends with the process
			for _, more := range []string{"--shards=16", "-z=100"} {
				s.Crash()
				s = startLogged(t, dir, append(policy, more)...)
				if line := s.WaitLog("journal read"); line == nil || line["jobs"] != 11.0 || line["dir"] != dir || line["level"] != "INFO" {
					t.Errorf("%v, want 11 jobs in %s", line, dir)
				}
				c = s.Client()
				sameJobs(t, see(t, c, upTo(20)), states)
				if left := fields(daemon.MustAsk(t, c, "stats-tube default\r\n"))["pause-time-left"]; left < "3" || len(left) != 4 {
					t.Errorf("the pause has %s s left", left)
				}
			}
		})
	}
}

// startTraced runs the daemon under strace, which makes the calls in inject fail. With -D strace is
// a separate process, and the daemon is our child.
func startTraced(t *testing.T, dir, inject string, args ...string) *daemon.Server {
	t.Helper()
	calls, _, _ := strings.Cut(inject, ":")
	return strace(t, []string{"-o", os.DevNull, "-e", "trace=" + calls, "-e", "inject=" + inject}, dir, args)
}

func strace(t *testing.T, options []string, dir string, args []string) *daemon.Server {
	t.Helper()
	strace := daemon.Tool(t, "strace", "strace")
	all := append([]string{"-D", "-f", "-qq"}, options...)
	all = append(all, daemon.Program(t), "--log-format", "json", "-l", "127.0.0.1", "-p", "0", "-b", dir)
	cmd := exec.Command(strace, append(all, args...)...)
	cmd.Env = daemon.CleanEnv()
	return daemon.Launch(t, cmd)
}

// TestDiskErrorsEndTheServer: a failed write or sync is never ignored. A waiting client gets no
// reply, the exit code shows the failure, and a restart has everything that was acknowledged.
func TestDiskErrorsEndTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, policy := range [][]string{nil, {"-f", "5"}, {"-F"}} {
		dir := t.TempDir()
		inject := "fdatasync:error=EIO:when=40"
		if len(policy) == 1 { // nothing is synced
			inject = "pwrite64:error=ENOSPC:when=60"
		}
		s := startTraced(t, dir, inject, append([]string{"-s", "1000000", "--loops", "1"}, policy...)...)
		if !s.Serves() {
			t.Fatalf("it ended instead of serving:\n%s", s.LogText())
		}
		conn := s.Client()
		acked := 0
		for end := time.Now().Add(daemon.Hang); time.Now().Before(end); acked++ {
			reply, err := conn.Ask("put 7 0 100 3\r\njob\r\n")
			if err != nil {
				if len(reply) > 0 {
					t.Errorf("half a reply: %q", reply)
				}
				break
			}
			if want := fmt.Sprintf("INSERTED %d\r\n", acked+1); string(reply) != want {
				t.Fatalf("got %q, want %q", reply, want)
			}
			if len(policy) == 2 {
				time.Sleep(2 * time.Millisecond) // give the timer something to do
			}
		}
		s.EndsWith(fault.Journal)
		logs(t, s, "polystalkd: the journal has failed", "journal.")
		if found := see(t, startLogged(t, dir).Client(), upTo(uint64(acked+1))); acked == 0 || len(found) < acked {
			t.Errorf("%d jobs of %d that were acknowledged are there", len(found), acked)
		}
	}
}

// TestOneServerForADirectory: a second server, ours or beanstalkd, exits with 10 and changes
// nothing.
func TestOneServerForADirectory(t *testing.T) {
	program, _ := daemon.Reference(t)
	dir := t.TempDir()
	s := startLogged(t, dir)
	c := s.Client()
	putN(t, c, 10, "put 0 0 100 3\r\nabc\r\n")
	files := slices.Sorted(maps.Keys(contents(t, dir, "")))
	second := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l", "127.0.0.1", "-p", "0", "-b", dir)
	pid := fmt.Sprint(s.Cmd.Process.Pid)
	if second.Code != 10 || !strings.Contains(second.Stderr, "in use by another server") || !strings.Contains(second.Stderr, pid) || strings.Count(second.Stderr, "\n") != 1 {
		t.Errorf("exit code %d and %q, want 10 and our process %s named in one line", second.Code, second.Stderr, pid)
	}
	port, err := conversation.FreePort()
	must(t, err)
	if other := daemon.RunToEnd(t, program, daemon.CleanEnv(), "-l", "127.0.0.1", "-p", fmt.Sprint(port), "-b", dir); other.Code != 10 {
		t.Errorf("beanstalkd: exit code %d and %q, want 10", other.Code, other.Stderr)
	}
	if now := slices.Sorted(maps.Keys(contents(t, dir, ""))); !slices.Equal(now, files) {
		t.Errorf("the directory has %q, had %q", now, files)
	}
	daemon.Expect(t, c, "put 0 0 100 3\r\nabc\r\n", "INSERTED 11\r\n")
	s.Crash()
	stat(t, startLogged(t, dir), "current-jobs-ready", "11") // the lock ends with the process

	theirs := t.TempDir()
	r := startOther(t, []string{program, "-b", theirs})
	refused := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l", "127.0.0.1", "-p", "0", "-b", theirs)
	if found := segments(t, theirs); refused.Code != 10 || len(found) > 0 {
		t.Errorf("with beanstalkd in the directory: exit code %d and %q, and it left %q", refused.Code, refused.Stderr, found)
	}
	r.Kill()
}

// TestLockedToTheEnd: a signal during a long start ends the server while it reads and writes the
// journal. The directory stays locked until the process has ended.
func TestLockedToTheEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := t.TempDir()
	first := startLogged(t, dir)
	daemon.Expect(t, first.Client(), "put 0 0 100 3\r\nabc\r\n", "INSERTED 1\r\n")
	first.Crash()
	// The first flush of the start is slow, and so is the removal of the socket at the end.
	s := strace(t, []string{
		"-o", os.DevNull, "-e", "trace=fdatasync,unlinkat",
		"-e", "inject=fdatasync:delay_enter=4000000", "-e", "inject=unlinkat:delay_enter=3000000",
	}, dir, []string{"-l", "unix:" + filepath.Join(t.TempDir(), "socket")})
	pid := s.Cmd.Process.Pid
	for end := time.Now().Add(daemon.Hang); lockedBy(t, dir) != pid; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not lock the directory")
		}
	}
	s.Signal(syscall.SIGTERM)
	if s.WaitLog("ending before the start was complete") == nil {
		t.Fatal("the start was not interrupted")
	}
	for lockedBy(t, dir) == pid {
		time.Sleep(time.Millisecond)
	}
	// The kernel releases the lock a moment before it reports the end of the process.
	for end := time.Now().Add(time.Second); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the directory is free while the server goes on")
		}
	}
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// lockedBy returns the process that has the lock of dir, or 0.
func lockedBy(t *testing.T, dir string) int {
	t.Helper()
	l, err := binlog.Lock(dir)
	if locked, ok := errors.AsType[binlog.LockedError](err); ok {
		return locked.PID
	}
	must(t, err)
	l.Unlock()
	return 0
}

// alive reports whether a process runs and is not a zombie.
func alive(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(b), ") ")
	return after != "" && after[0] != 'Z' && after[0] != 'X'
}
