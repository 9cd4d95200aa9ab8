package binlog

import (
	"fmt"
	"math/rand/v2"
	"os"
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

// check compares j with the job of a server that has read the log.
func (r *reference) check(j Job) {
	r.t.Helper()
	before := time.Now().UnixNano()
	stats := r.stats("stats-job %d\r\n", j.ID)
	after := time.Now().UnixNano()
	state, buries := j.State, uint64(j.Buries)
	switch {
	case state == Delayed && j.Deadline <= before:
		state = Ready
	case state == Buried:
		buries++ // by reading it
	}
	for key, want := range map[string]any{
		"id": j.ID, "tube": j.Tube, "state": state, "pri": j.Pri, "delay": int64(j.Delay / time.Second), "ttr": int64(j.TTR / time.Second),
		"reserves": j.Reserves, "timeouts": j.Timeouts, "releases": j.Releases, "buries": buries, "kicks": j.Kicks,
	} {
		if stats[key] != fmt.Sprint(want) {
			r.t.Errorf("job %d: %s is %s, want %v", j.ID, key, stats[key], want)
		}
	}
	if _, body, _ := strings.Cut(r.ask("peek %d\r\n", j.ID), "\r\n"); body != string(j.Body)+"\r\n" {
		r.t.Errorf("job %d: a body of %d bytes, want %d, or other ones", j.ID, len(body)-2, len(j.Body))
	}
	between := func(key string, low, high int64) {
		if n, err := strconv.ParseInt(stats[key], 10, 64); err != nil || n < low/1e9 || n > high/1e9 {
			r.t.Errorf("job %d: %s is %s, want %d to %d", j.ID, key, stats[key], low/1e9, high/1e9)
		}
	}
	between("age", before-j.Created, after-j.Created)
	if state == Delayed {
		between("time-left", j.Deadline-after, j.Deadline-before)
	}
}

// checkAll compares all jobs, their number and the order of the buried ones, which it kicks.
func (r *reference) checkAll(jobs []Job) {
	r.t.Helper()
	for _, j := range jobs {
		r.check(j)
	}
	total, all := 0, r.stats("stats\r\n")
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		n, _ := strconv.Atoi(all["current-jobs-"+state])
		total += n
	}
	if total != len(jobs) {
		r.t.Errorf("the reference has %d jobs, want %d", total, len(jobs))
	}
	for _, j := range jobs {
		if j.State != Buried {
			continue
		}
		r.ask("use %s\r\n", j.Tube)
		if got := r.ask("peek-buried\r\n"); !strings.HasPrefix(got, fmt.Sprintf("FOUND %d ", j.ID)) {
			r.t.Errorf("first buried job of %s: %q, want %d", j.Tube, got, j.ID)
		}
		r.ask("kick 1\r\n")
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

// busy gives the server work of every kind, and jobs that stay reserved while the log is compacted.
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

// TestReferenceLogIsRead: a server that is started on the log of a killed one, with many files
// and moved jobs, agrees in everything with what is read here.
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
			migrated := r.stats("stats\r\n")["binlog-records-migrated"]
			r.kill()
			c, jobs := mustJobs(t, dir)
			if c.HighestID != highest || size != "10485760" && (migrated == "0" || c.Files < 5) {
				t.Errorf("highest id %d, want %d; %s records moved, %d files", c.HighestID, highest, migrated, c.Files)
			}
			states := map[State]int{}
			for _, j := range jobs {
				states[j.State]++
			}
			if states[Ready] < 20 || states[Delayed] < 10 || states[Buried] < 3 {
				t.Errorf("no proper test: %v", states)
			}
			startReference(t, program, copyDir(t, dir), "-s", size).checkAll(jobs)
		})
	}
}

// TestReferenceAgreesOnHandmadeLogs: the reference reads both versions as this package does, and a
// record half written is the end of the file for it too.
func TestReferenceAgreesOnHandmadeLogs(t *testing.T) {
	program := referenceProgram(t)
	for _, version := range []uint32{5, 7} {
		one, two, three, four := full(1, 1, "one"), full(20, 4, "two\r\nlines"), full(3, 3, ""), full(4, 3, "four")
		two.job.Deadline = time.Now().Add(2*time.Hour).UnixMicro() * 1000
		changed := short(one, 3)
		changed.job.Pri, changed.job.Kicks = 1, 100
		half := log(version, full(7, 1, "torn"))[:8]
		if version == 7 {
			half = log(version, full(7, 1, "torn"))[:12] // with the name
		}
		dir := dirOf(t,
			append(log(version, one, full(2, 1, "gone"), four, two), make([]byte, 4096)...),
			append(half, make([]byte, 500)...), make([]byte, 4096),
			log(version, short(full(2, 1, "gone"), 0), three, short(full(9, 1, "x"), 3), changed, full(5, 4, "overdue"), full(6, 2, "reserved")))
		c, jobs, err := jobsOf(dir, Options{})
		if err != nil || len(jobs) != 6 || len(c.Damages) != 2 {
			t.Fatalf("%d jobs, %+v, %v", len(jobs), c, err)
		}
		r := startReference(t, program, copyDir(t, dir))
		r.checkAll(jobs)
		if got := r.put("a", 0, 0, 1, ""); got != fmt.Sprintf("INSERTED %d\r\n", c.HighestID+1) {
			t.Errorf("next id: %q, want %d", got, c.HighestID+1)
		}
	}
}

// TestReferenceReadsWhatIsWritten: the reference reads what WriteDir writes. It needs the -z that
// WriteDir names, and with a smaller one skips the first job that is too large and what follows.
func TestReferenceReadsWhatIsWritten(t *testing.T) {
	program := referenceProgram(t)
	named := func(j Job, tube string) Job { j.Tube = tube; return j }
	future := job(7, Delayed, "later")
	future.Deadline = time.Now().Add(time.Hour).UnixNano()
	future.Delay, future.TTR, future.Pri = time.Duration(askedMax), time.Duration(askedMax), 1<<32-1
	jobs := []Job{job(40, Buried, "first"), job(5, Buried, "second"), job(41, Buried, strings.Repeat("\x00\r\n", 1000)),
		job(6, Ready, strings.Repeat("x", readableBody)), future, job(8, Delayed, "overdue"),
		named(job(1<<40, Ready, ""), strings.Repeat("+", 200)), named(job(9, Buried, "b"), "other")}
	all := append(jobs[:len(jobs):len(jobs)], job(50, Ready, strings.Repeat("x", readableBody+1)), job(51, Ready, "behind"))
	dir := t.TempDir()
	w, err := WriteDir(dir, each(nil, all...))
	if err != nil || len(w.Warnings) != 1 {
		t.Fatal(err, w)
	}
	r := startReference(t, program, copyDir(t, dir))
	r.checkAll(jobs)
	if got := r.put("a", 0, 0, 1, ""); got != fmt.Sprintf("INSERTED %d\r\n", 1<<40+1) {
		t.Errorf("next id: %q", got)
	}
	startReference(t, program, copyDir(t, dir), "-z", strconv.Itoa(w.MaxJobSize-1)).checkAll(jobs)
	startReference(t, program, copyDir(t, dir), "-z", strconv.Itoa(w.MaxJobSize)).checkAll(all)
}
