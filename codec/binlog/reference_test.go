package binlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// A reference is the installed beanstalkd, running on a directory.
type reference struct {
	*conversation.Server
	*conversation.Client
	t *testing.T
}

func referenceProgram(t *testing.T) string {
	t.Helper()
	program, _, err := conversation.Beanstalk.Reference()
	if err != nil {
		t.Skip(err)
	}
	return program
}

// startReference runs it until the test's end at the latest.
func startReference(t *testing.T, program, dir string, args ...string) *reference {
	t.Helper()
	s, err := conversation.StartServer(program, append([]string{"-b", dir, "-F"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c, err := conversation.Dial("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &reference{s, c, t}
}

// kill ends it as a crash would.
func (r *reference) kill() {
	r.t.Helper()
	if err := r.Cmd.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	<-r.Exited()
}

func (r *reference) ask(format string, args ...any) string {
	r.t.Helper()
	reply, err := r.Ask(fmt.Sprintf(format, args...))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(reply)
}

func (r *reference) put(tube string, pri, delay, ttr int, body string) string {
	r.t.Helper()
	r.ask("use %s\r\n", tube)
	return r.ask("put %d %d %d %d\r\n%s\r\n", pri, delay, ttr, len(body), body)
}

// stats is a reply in YAML, without the quotes of newer releases.
func (r *reference) stats(format string, args ...any) map[string]string {
	r.t.Helper()
	values := make(map[string]string)
	for line := range strings.SplitSeq(r.ask(format, args...), "\n") {
		if key, value, ok := strings.Cut(line, ": "); ok {
			values[key] = strings.Trim(value, `"`)
		}
	}
	return values
}

// A sighting is a job as a server shows it.
type sighting struct {
	stats         map[string]string
	body          string
	before, after int64 // Unix ns, around the question
}

// see asks about a job, which may be gone.
func (r *reference) see(id uint64) (s sighting, ok bool) {
	r.t.Helper()
	s.before = time.Now().UnixNano()
	s.stats = r.stats("stats-job %d\r\n", id)
	s.after = time.Now().UnixNano()
	if s.stats["id"] == "" {
		return s, false
	}
	_, s.body, _ = strings.Cut(r.ask("peek %d\r\n", id), "\r\n")
	s.body = strings.TrimSuffix(s.body, "\r\n")
	return s, true
}

// check compares j with the job of a server that has read the log.
func (r *reference) check(j Job) {
	r.t.Helper()
	s, ok := r.see(j.ID)
	if !ok {
		r.t.Errorf("the reference has no job %d", j.ID)
		return
	}
	state, buries := j.State, uint64(j.Buries)
	switch {
	case state == Delayed && j.Deadline <= s.before:
		state = Ready
	case state == Buried:
		buries++ // by reading it
	}
	seconds := func(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }
	number := func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
	for key, want := range map[string]string{
		"tube": j.Tube, "state": state.String(), "pri": number(j.Pri), "delay": seconds(j.Delay), "ttr": seconds(j.TTR),
		"reserves": number(j.Reserves), "timeouts": number(j.Timeouts), "releases": number(j.Releases),
		"buries": strconv.FormatUint(buries, 10), "kicks": number(j.Kicks),
	} {
		if s.stats[key] != want {
			r.t.Errorf("job %d: %s is %s, want %s", j.ID, key, s.stats[key], want)
		}
	}
	if s.body != string(j.Body) {
		r.t.Errorf("job %d: a body of %d bytes, want %d, or other ones", j.ID, len(s.body), len(j.Body))
	}
	between := func(key string, low, high int64) {
		if n, err := strconv.ParseInt(s.stats[key], 10, 64); err != nil || n < low/1e9 || n > high/1e9 {
			r.t.Errorf("job %d: %s is %s, want %d to %d", j.ID, key, s.stats[key], low/1e9, high/1e9)
		}
	}
	between("age", s.before-j.Created, s.after-j.Created)
	if state == Delayed {
		between("time-left", j.Deadline-s.after, j.Deadline-s.before)
	}
}

// checkAll compares all jobs, their number and the order of the buried ones,
// which are kicked for that.
func (r *reference) checkAll(jobs []Job) {
	r.t.Helper()
	buried := make(map[string][]uint64)
	for _, j := range jobs {
		r.check(j)
		if j.State == Buried {
			buried[j.Tube] = append(buried[j.Tube], j.ID)
		}
	}
	total, all := 0, r.stats("stats\r\n")
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		n, err := strconv.Atoi(all["current-jobs-"+state])
		if err != nil {
			r.t.Fatal(err)
		}
		total += n
	}
	if total != len(jobs) {
		r.t.Errorf("the reference has %d jobs, want %d", total, len(jobs))
	}
	for tube, ids := range buried {
		r.ask("use %s\r\n", tube)
		for _, id := range ids {
			if got := r.ask("peek-buried\r\n"); !strings.HasPrefix(got, fmt.Sprintf("FOUND %d ", id)) {
				r.t.Errorf("first buried job of %s: %q, want %d", tube, got, id)
			}
			r.ask("kick 1\r\n")
		}
	}
}

// copyDir copies a log for a server that will alter it.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// busy gives the server work of every kind, and jobs that stay reserved while
// the log is compacted.
func (r *reference) busy(rng *rand.Rand, operations int) (highest uint64) {
	r.t.Helper()
	tubes := []string{"a", "b.second", "c"}
	r.ask("watch a\r\n")
	r.ask("watch b.second\r\n")
	r.ask("watch c\r\n")
	var alive, reserved []uint64
	take := func(ids *[]uint64, i int) uint64 {
		id := (*ids)[i]
		*ids = append((*ids)[:i], (*ids)[i+1:]...)
		return id
	}
	for range operations {
		switch n := rng.IntN(40); {
		case n < 15 || len(alive) < 20:
			delay := 0
			if rng.IntN(3) == 0 {
				delay = 3000 + rng.IntN(1000)
			}
			body := strings.Repeat(strconv.Itoa(int(highest)), rng.IntN(100))
			reply := r.put(tubes[rng.IntN(3)], rng.IntN(1000), delay, 5000, body)
			if _, err := fmt.Sscanf(reply, "INSERTED %d", &highest); err != nil {
				r.t.Fatalf("put: %q", reply)
			}
			alive = append(alive, highest)
		case n < 21:
			var id uint64
			if _, err := fmt.Sscanf(r.ask("reserve-with-timeout 0\r\n"), "RESERVED %d", &id); err == nil {
				reserved = append(reserved, id)
			}
		case n < 26 && len(reserved) > 10: // the first ones are kept
			id := take(&reserved, len(reserved)-1)
			r.ask([]string{"release %d 5 0\r\n", "release %d 6 4000\r\n", "bury %d 7\r\n", "bury %d 8\r\n", "delete %d\r\n"}[rng.IntN(5)], id)
		case n == 26:
			r.ask("kick 1\r\n")
		case n == 27:
			r.ask("kick-job %d\r\n", alive[rng.IntN(len(alive))])
		default:
			r.ask("delete %d\r\n", take(&alive, rng.IntN(len(alive))))
		}
	}
	return highest
}

// The log of a killed server, with many files and moved jobs, holds what the
// server said, and a server that is started on it agrees in everything.
func TestReferenceLogIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program := referenceProgram(t)
	for seed, size := range []string{"5000", "20000", "10485760"} {
		t.Run(size, func(t *testing.T) {
			dir := t.TempDir()
			r := startReference(t, program, dir, "-s", size)
			highest := r.busy(rand.New(rand.NewPCG(uint64(seed), 0)), 3000)
			said := make(map[uint64]sighting)
			for id := range highest + 1 {
				if s, ok := r.see(id); ok {
					said[id] = s
				}
			}
			migrated := r.stats("stats\r\n")["binlog-records-migrated"]
			r.kill()

			c, jobs := mustJobs(t, dir)
			if len(jobs) != len(said) || len(jobs) < 60 || c.HighestID != highest {
				t.Fatalf("%d jobs, highest id %d; the server had %d and %d", len(jobs), c.HighestID, len(said), highest)
			}
			if size != "10485760" && (migrated == "0" || c.Files < 5 || !hasReserved(t, dir)) {
				t.Errorf("no proper test: %s records moved, %d files", migrated, c.Files)
			}
			states := map[State]int{}
			for _, j := range jobs {
				states[j.State]++
				s := said[j.ID]
				state := s.stats["state"]
				if state == "reserved" {
					state = "ready"
				}
				if j.State.String() != state || j.Tube != s.stats["tube"] || string(j.Body) != s.body || s.stats["ttr"] != "5000" || j.TTR != 5000*time.Second {
					t.Errorf("job %d: %+v; the server said %v, %q", j.ID, j, s.stats, s.body)
				}
			}
			if states[Ready] < 20 || states[Delayed] < 10 || states[Buried] < 3 {
				t.Errorf("no proper test: %v", states)
			}
			startReference(t, program, copyDir(t, dir), "-s", size).checkAll(jobs)
		})
	}
}

// hasReserved reports whether some job was moved while it was reserved.
func hasReserved(t *testing.T, dir string) bool {
	t.Helper()
	files, err := Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		src, err := openSource(f.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &scanner{source: src}
		bad := s.header()
		for off := int64(headerSize); bad == ""; {
			var rec record
			if rec, bad = s.parse(off); bad == "" && rec.state == stateReserved {
				s.close()
				return true
			}
			off = rec.next
		}
		s.close()
	}
	return false
}

// Both versions by hand: the reference makes the same of them.
func TestReferenceAgreesOnHandmadeLogs(t *testing.T) {
	program := referenceProgram(t)
	for _, version := range []uint32{5, 7} {
		one, two, three, four := full(1, 1, "one"), full(20, 4, "two\r\nlines"), full(3, 3, ""), full(4, 3, "four")
		two.job.Deadline = time.Now().Add(2*time.Hour).UnixMicro() * 1000
		changed := short(one, 3)
		changed.job.Pri, changed.job.Kicks = 1, 100
		dir := dirOf(t,
			append(log(version, one, full(2, 1, "gone"), four, two), make([]byte, 4096)...),
			log(version, short(full(2, 1, "gone"), 0), three, short(full(9, 1, "x"), 3), changed, full(5, 4, "overdue"), full(6, 2, "reserved")))
		c, jobs := mustJobs(t, dir)
		if len(jobs) != 6 {
			t.Fatalf("%d jobs", len(jobs))
		}
		r := startReference(t, program, copyDir(t, dir))
		r.checkAll(jobs)
		if got := r.put("a", 0, 0, 1, ""); got != fmt.Sprintf("INSERTED %d\r\n", c.HighestID+1) {
			t.Errorf("next id: %q, want %d", got, c.HighestID+1)
		}
	}
}

// A record half written is the end of the file for the reference too.
func TestReferenceAgreesOnHalfRecords(t *testing.T) {
	program := referenceProgram(t)
	begin := log(7, full(1, 1, "one"))
	whole := full(2, 1, "two").append(bytes.Clone(begin), 7)
	var files [][]byte
	for _, written := range []int{4, 8} { // the length, and the name
		b := make([]byte, len(whole)+500)
		copy(b, whole[:len(begin)+written])
		files = append(files, b)
	}
	dir := dirOf(t, append(files, make([]byte, 4096), log(7, full(3, 1, "three")))...)
	c, jobs, err := jobsOf(dir, Options{})
	if err != nil || len(c.Damages) != 3 {
		t.Fatalf("%v, %+v", err, c)
	}
	startReference(t, program, copyDir(t, dir)).checkAll(jobs)
}

func TestReferenceReadsWhatIsWritten(t *testing.T) {
	program := referenceProgram(t)
	named := func(j Job, tube string) Job { j.Tube = tube; return j }
	future := job(7, Delayed, "later")
	future.Deadline = time.Now().Add(time.Hour).UnixNano()
	future.Delay, future.TTR, future.Pri = time.Duration(askedMax), time.Duration(askedMax), 1<<32-1
	jobs := []Job{job(40, Buried, "first"), job(5, Buried, "second"), job(41, Buried, strings.Repeat("\x00\r\n", 1000)),
		job(6, Ready, strings.Repeat("x", readableBody)), future, job(8, Delayed, "overdue"),
		named(job(1<<40, Ready, ""), strings.Repeat("+", 200)), named(job(9, Buried, "b"), "other")}
	dir := t.TempDir()
	if w, err := WriteDir(dir, each(nil, jobs...)); err != nil || len(w.Warnings) > 0 {
		t.Fatal(err, w)
	}
	r := startReference(t, program, dir)
	r.checkAll(jobs)
	if got := r.put("a", 0, 0, 1, ""); got != fmt.Sprintf("INSERTED %d\r\n", 1<<40+1) {
		t.Errorf("next id: %q", got)
	}
}

// The warnings of WriteDir are true.
func TestReferenceNeedsTheJobSize(t *testing.T) {
	program := referenceProgram(t)
	jobs := []Job{job(1, Ready, "one"), job(2, Ready, strings.Repeat("x", readableBody+1)), job(3, Ready, "three")}
	dir := t.TempDir()
	w, err := WriteDir(dir, each(nil, jobs...))
	if err != nil {
		t.Fatal(err)
	}
	startReference(t, program, copyDir(t, dir)).checkAll(jobs[:1])
	startReference(t, program, copyDir(t, dir), "-z", strconv.Itoa(w.MaxJobSize-1)).checkAll(jobs[:1])
	startReference(t, program, copyDir(t, dir), "-z", strconv.Itoa(w.MaxJobSize)).checkAll(jobs)
}

// Each keeps the other out.
func TestReferenceKnowsTheLock(t *testing.T) {
	program := referenceProgram(t)
	dir := t.TempDir()
	r := startReference(t, program, dir)
	_, err := Lock(dir)
	if e, ok := errors.AsType[LockedError](err); !ok || e.PID != r.Cmd.Process.Pid || e.Path != filepath.Join(dir, "lock") {
		t.Errorf("while beanstalkd %d runs: %v", r.Cmd.Process.Pid, err)
	}
	r.kill()
	l, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	port, err := conversation.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), conversation.Patience)
	defer cancel()
	err = exec.CommandContext(ctx, program, "-l", "127.0.0.1", "-p", strconv.Itoa(port), "-b", dir).Run()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != 10 {
		t.Errorf("beanstalkd in a locked directory: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	startReference(t, program, dir)
}
