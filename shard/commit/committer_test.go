package commit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"polystalk/shard/wal/space"
)

// A memory is a sink that keeps the records of each Log, one letter each, and the calls.
type memory struct {
	c      *committer
	kept   string
	calls  []string
	grown  space.Growth
	counts int64
	fail   error        // of the next Sync
	later  bool         // it is not safe yet when Sync returns
	during func(string) // called in every call, with what it is
}

func (m *memory) note(what string) {
	m.calls = append(m.calls, what)
	if m.during != nil {
		m.during(what)
	}
}

func (m *memory) Write(e *entry) error {
	m.kept += string(e.data)
	for _, r := range e.refs {
		m.kept += string(r.Piece)
	}
	m.counts += e.counted
	m.grown.Live += e.grown.Live
	m.grown.Records += e.grown.Records
	m.grown.HighID = max(m.grown.HighID, e.grown.HighID)
	m.note(fmt.Sprintf("write %d", e.commit))
	return nil
}

func (m *memory) Sync(n uint64) (safe bool, err error) {
	m.note(fmt.Sprintf("sync %d", n))
	return !m.later, m.fail
}

// newMemory makes a committer with a number of Logs. Its commits go into memory.
func newMemory(logs int, change func(*committerOptions)) (*committer, *memory) {
	m := &memory{}
	o := committerOptions{
		sink: m, logs: logs, step: 10,
		prompt: func() bool { return true }, appended: func(int64) {}, acked: func() {}, failed: func(*Failure) {},
	}
	if change != nil {
		change(&o)
	}
	m.c = newCommitter(o)
	return m.c, m
}

// add appends letters to a Log, and returns the number they are waited for under.
func add(l *Log, letters string) uint64 {
	l.Begin()
	defer l.End()
	l.Buffer.Data = append(l.Buffer.Data, letters...)
	l.Buffer.Records += uint64(len(letters))
	return l.Buffer.Commit
}

func (m *memory) expect(t *testing.T, kept string, calls ...string) {
	t.Helper()
	if m.kept != kept || !slices.Equal(m.calls, calls) {
		t.Errorf("kept %q by %q, want %q by %q", m.kept, m.calls, kept, calls)
	}
	m.calls = nil
}

// A commit takes what all Logs hold, and is acknowledged once that is safe; one without
// any record is a commit too.
func TestCommit(t *testing.T) {
	c, m := newMemory(2, nil)
	c.resume(41)
	if n := add(c.logs[0], "a"); n != 42 {
		t.Errorf("waited for under %d", n)
	}
	add(c.logs[0], "b")
	m.during = func(what string) {
		if c.Acked() != 41 {
			t.Errorf("%d is acknowledged in %s", c.Acked(), what)
		}
	}
	if err := c.Commit(); err != nil || c.Acked() != 42 || c.Begun() != 42 {
		t.Errorf("%v, %d is acknowledged of %d", err, c.Acked(), c.Begun())
	}
	m.expect(t, "ab", "write 42", "sync 42")
	m.during = nil
	c.Commit()
	m.expect(t, "ab", "sync 43")
	add(c.logs[1], "c")
	add(c.logs[0], "d")
	c.Commit()
	m.expect(t, "abdc", "write 44", "write 44", "sync 44")
	if m.grown.Records != 4 || c.Acked() != 44 {
		t.Errorf("%+v, %d", m.grown, c.Acked())
	}
}

// What is appended while a commit is under way goes with it or with the next, and is
// acknowledged no sooner than it is safe, and by no number that nobody commits.
func TestAppendDuringACommit(t *testing.T) {
	c, m := newMemory(2, nil)
	add(c.logs[0], "a")
	var number uint64
	m.during = func(what string) {
		if number == 0 {
			number = add(c.logs[0], "b") // was taken already
		}
	}
	c.Commit()
	m.expect(t, "a", "write 1", "sync 1")
	if number != 2 {
		t.Errorf("waited for under %d", number)
	}
	if c.queue.Load() == nil {
		t.Error("nothing is to be committed")
	}
	c.Commit()
	m.expect(t, "ab", "write 2", "sync 2")
	if c.queue.Load() != nil || c.Acked() != 2 {
		t.Errorf("idle %v, %d is acknowledged", c.queue.Load() == nil, c.Acked())
	}
}

// Records that go with commit n although they are waited for under n+1 have another commit made.
func TestLateNumberIsAcknowledged(t *testing.T) {
	c, m := newMemory(2, nil)
	add(c.logs[0], "a")
	late := uint64(0)
	// The other Log is on the list before the commit begins, and its number is read after.
	l := c.logs[1]
	l.mu.Lock()
	l.queued = true
	c.enqueue(l)
	l.mu.Unlock()
	c.begun.Add(1)
	l.mu.Lock()
	l.Buffer.Commit = c.begun.Load() + 1
	l.Buffer.Data = append(l.Buffer.Data, 'b')
	late = l.Buffer.Commit
	l.mu.Unlock()
	c.begun.Add(^uint64(0)) // which is the commit that takes it
	c.Commit()
	m.expect(t, "ba", "write 1", "write 1", "sync 1")
	if late != 2 || !c.Requested() || len(c.wake) != 1 {
		t.Fatalf("waited for under %d, and requested is %v", late, c.Requested())
	}
	c.Commit()
	if c.Acked() != late {
		t.Errorf("%d is acknowledged", c.Acked())
	}
}

// An error ends it: nothing is acknowledged after that, and it is told once.
func TestError(t *testing.T) {
	var told []*Failure
	c, m := newMemory(1, func(o *committerOptions) { o.failed = func(f *Failure) { told = append(told, f) } })
	add(c.logs[0], "a")
	c.Commit()
	broken := errors.New("broken")
	m.fail = broken
	add(c.logs[0], "b")
	if err := c.Commit(); err != broken {
		t.Error(err)
	}
	m.fail = nil
	m.calls = nil
	if err := c.Commit(); !errors.Is(err, broken) {
		t.Error(err)
	}
	m.expect(t, "ab")
	c.Fail(errors.New("another"))
	if c.Acked() != 1 || !errors.Is(c.Err(), broken) || len(told) != 1 || *told[0] != (Failure{Disk, broken}) || c.Pressure() != Wait {
		t.Errorf("%d is acknowledged, error %v, told %v, pressure %d", c.Acked(), c.Err(), told, c.Pressure())
	}
}

// The cause of an end is the disk, unless the caller of Fail says another.
func TestCause(t *testing.T) {
	broken := errors.New("broken")
	deposed := &Failure{Deposed, broken}
	for _, test := range []struct {
		err  error
		want Failure
	}{
		{broken, Failure{Disk, broken}},
		{deposed, *deposed},
		{fmt.Errorf("commit 7: %w", deposed), Failure{Deposed, fmt.Errorf("commit 7: %w", deposed)}},
	} {
		var told []*Failure
		hears := func(o *committerOptions) { o.failed = func(f *Failure) { told = append(told, f) } }
		c, m := newMemory(1, hears)
		m.fail = test.err // of the sink
		add(c.logs[0], "a")
		c.Commit()
		c, _ = newMemory(1, hears)
		c.Fail(test.err) // of anyone
		c.Fail(&Failure{1 - test.want.Cause, errors.New("later")})
		if len(told) != 2 {
			t.Fatalf("told %v", told)
		}
		for _, f := range append(told, c.Err().(*Failure)) {
			if f.Cause != test.want.Cause || f.Error() != test.want.Error() || !errors.Is(f, broken) {
				t.Errorf("%v: cause %d, error %v; want cause %d, error %v", test.err, f.Cause, f, test.want.Cause, test.want.Err)
			}
		}
	}
}

// A sink may have several commits under way: each is acknowledged when the sink says so, with
// those before it, and the next ones are made meanwhile.
func TestCommittedLater(t *testing.T) {
	acked := 0
	c, m := newMemory(1, func(o *committerOptions) { o.acked = func() { acked++ } })
	m.later = true
	expect := func(number uint64, told int) {
		t.Helper()
		if c.Acked() != number || acked != told {
			t.Errorf("%d is acknowledged, told %d times, want %d, %d", c.Acked(), acked, number, told)
		}
	}
	for i, letter := range []string{"a", "b", "c", "d"} {
		if n := add(c.logs[0], letter); n != uint64(i+1) {
			t.Errorf("waited for under %d, want %d", n, i+1)
		}
		if err := c.Commit(); err != nil {
			t.Error(err)
		}
		expect(0, 0)
	}
	m.expect(t, "abcd", "write 1", "sync 1", "write 2", "sync 2", "write 3", "sync 3", "write 4", "sync 4")
	if err := c.Committed(2); err != nil {
		t.Error(err)
	}
	expect(2, 1)
	if n := add(c.logs[0], "e"); n != 5 {
		t.Errorf("waited for under %d", n)
	}
	m.later = false // as if it had waited for all before
	if err := c.Commit(); err != nil {
		t.Error(err)
	}
	expect(5, 2)
}

// What a sink says is safe after the storage has failed is not acknowledged any more, and
// numbers that cannot be are its mistake.
func TestCommittedTooLate(t *testing.T) {
	c, m := newMemory(1, nil)
	m.later = true
	c.Commit()
	c.Commit()
	panics := func(n uint64) (did bool) {
		defer func() { did = recover() != nil }()
		c.Committed(n)
		return false
	}
	if !panics(3) {
		t.Error("a commit is acknowledged that has not begun")
	}
	if err := c.Committed(1); err != nil {
		t.Error(err)
	}
	if !panics(1) || c.Acked() != 1 {
		t.Error("a commit is acknowledged twice")
	}
	broken := errors.New("broken")
	c.Fail(broken)
	if err := c.Committed(2); !errors.Is(err, broken) || c.Acked() != 1 {
		t.Errorf("%v, %d is acknowledged", err, c.Acked())
	}
}

// To be stopped is no failure, and what fails elsewhere during a commit keeps it from being
// acknowledged.
func TestStoppedAndFailedMeanwhile(t *testing.T) {
	told := 0
	c, m := newMemory(1, func(o *committerOptions) { o.failed = func(*Failure) { told++ } })
	m.fail = fmt.Errorf("waiting: %w", ErrStopped)
	if err := c.Commit(); !errors.Is(err, ErrStopped) || told != 0 || c.Err() != nil {
		t.Errorf("%v, told %d times, %v", err, told, c.Err())
	}
	m.fail = nil
	elsewhere := errors.New("elsewhere")
	m.during = func(string) { c.Fail(elsewhere) }
	if err := c.Commit(); !errors.Is(err, elsewhere) || c.Acked() != 0 || told != 1 {
		t.Errorf("%v, %d is acknowledged, told %d times", err, c.Acked(), told)
	}
}

// CommitHere commits what was requested, and leaves to the goroutine what would wait.
func TestCommitHere(t *testing.T) {
	prompt := true
	c, m := newMemory(1, func(o *committerOptions) { o.here = true; o.prompt = func() bool { return prompt } })
	add(c.logs[0], "a")
	c.CommitHere()
	m.expect(t, "") // nobody has requested it
	c.request()
	if len(c.wake) != 0 {
		t.Error("the goroutine is woken for what is to be done here")
	}
	c.CommitHere()
	m.expect(t, "a", "write 1", "sync 1")
	add(c.logs[0], "b")
	c.request()
	prompt = false
	c.CommitHere()
	m.expect(t, "a")
	if len(c.wake) != 1 || !c.Requested() {
		t.Error("nobody commits")
	}
	prompt = true
	c.exclude(func() {
		<-c.wake
		c.CommitHere()
		m.expect(t, "a")
		if len(c.wake) != 1 {
			t.Error("nobody commits what somebody else was about to")
		}
	})
}

// Sums come as differences, and bytes that wait are told in steps, with pieces at once.
func TestWhatLogsTell(t *testing.T) {
	var appended int64
	c, m := newMemory(1, func(o *committerOptions) { o.appended = func(n int64) { appended += n } })
	l := c.logs[0]
	l.Buffer.Live, l.Buffer.HighID = 100, 7
	if g := l.grown(); g.Live != 100 || g.HighID != 7 {
		t.Errorf("%+v", g)
	}
	add(l, "123456789")
	if appended != 0 {
		t.Errorf("%d bytes are told of 9", appended)
	}
	l.Buffer.Live, l.Buffer.HighID = 90, 8
	add(l, "a")
	add(l, "b")
	if appended != 10 {
		t.Errorf("%d bytes are told of 11", appended)
	}
	c.Commit()
	if m.counts != 10 || m.grown.Live != -10 || m.grown.HighID != 8 || m.grown.Records != 11 {
		t.Errorf("%d bytes counted, %+v", m.counts, m.grown)
	}
	add(l, strings.Repeat("x", 25))
	if appended != 35 {
		t.Errorf("%d bytes are told of 36", appended)
	}
}

// A busy committer allocates nothing for a commit.
func TestCommitAllocatesNothing(t *testing.T) {
	c := newCommitter(committerOptions{
		sink: &discard{}, logs: 2, step: 1 << 20,
		prompt: func() bool { return true }, appended: func(int64) {}, acked: func() {}, failed: func(*Failure) {},
	})
	if n := testing.AllocsPerRun(100, func() {
		add(c.logs[0], "some records of a shard")
		add(c.logs[1], "and some of another")
		c.Commit()
	}); n > 0 {
		t.Errorf("%v allocations a commit", n)
	}
}

type discard struct{ bytes int }

func (d *discard) Write(e *entry) error      { d.bytes += len(e.data); return nil }
func (d *discard) Sync(uint64) (bool, error) { return true, nil }

// Once it has ended, changes wait for ever, whatever the space is that somebody was just
// about to tell of.
func TestPressureAfterTheEnd(t *testing.T) {
	c, _ := newMemory(1, nil)
	if !c.setPressure(Full, true) || c.setPressure(Full, true) || !c.setPressure(Open, false) || c.Pressure() != Open {
		t.Errorf("pressure %d", c.Pressure())
	}
	c.Fail(errors.New("broken"))
	for p := range Pressure(3) {
		if c.setPressure(p, false); c.Pressure() != Wait {
			t.Errorf("pressure %d after the end", c.Pressure())
		}
	}
}
