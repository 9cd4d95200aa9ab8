package sim

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/router"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run only this seed")
	runsFlag = flag.Int("runs", 0, "how many seeds to run; zero: a few seconds' worth")
)

// seeds runs f for the seeds that the flags name, else for the first n. Short tests run a
// sixteenth of them. A failure names the command that runs its seed again.
func seeds(t *testing.T, n int, f func(seed uint64) error) {
	t.Helper()
	first, last := uint64(1), uint64(n)
	if testing.Short() {
		last = uint64(n+15) / 16
	}
	if *runsFlag > 0 {
		last = uint64(*runsFlag)
	}
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag+uint64(max(1, *runsFlag))-1
	}
	for seed := first; seed <= last; seed++ {
		err := func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("panic: %v\n%s", r, string(debug.Stack()))
				}
			}()
			return f(seed)
		}()
		if err != nil {
			t.Fatalf("%v\nrun it again: go test ./router/sim -run '^%s$' -seed=%d", err, t.Name(), seed)
		}
	}
}

// wantSeen wants everything to have happened in the runs of a test, unless they were few.
func wantSeen(t *testing.T, seen map[string]int, what ...string) {
	t.Helper()
	t.Log(seen)
	if *seedFlag != 0 || *runsFlag > 0 || testing.Short() {
		return
	}
	for _, w := range what {
		if seen[w] == 0 {
			t.Errorf("%s was never seen", w)
		}
	}
}

// TestSerialHistoriesMatchTheTwin sends one command at a time, however late
// its parts are, and compares every byte that any client gets with what one
// big queue would have said.
func TestSerialHistoriesMatchTheTwin(t *testing.T) {
	runs, tied := 0, 0
	seeds(t, 300, func(seed uint64) error {
		s := newSerial(seed)
		err := s.run(150)
		runs++
		if s.twin.Tied {
			tied++
		}
		return err
	})
	if runs >= 100 && tied > runs/5 {
		t.Errorf("%d of %d histories ended early, by two events at one moment", tied, runs)
	}
}

// A serial is a history of commands that do not overlap.
type serial struct {
	generator
	w              *world
	twin           *twin
	conns          []*serialConn
	trace          []string
	cmds           map[string]int
	operatorClient *operator // nil: there is none
}

type serialConn struct {
	k    *sock
	twin *twinClient
	name string
}

func newSerial(seed uint64) *serial {
	rng := rand.New(rand.NewPCG(seed, 2))
	cfg := router.Config{Shards: []int{1, 4, 16}[rng.IntN(3)], MaxJobSize: 200_000}
	w, err := New(seed, 1+rng.IntN(3), cfg)
	if err != nil {
		panic(err)
	}
	if rng.IntN(2) == 0 {
		w.D.HoldAtMost(1000 + rng.IntN(2000)) // above four lines, or half a line is never resumed
	}
	s := &serial{w: w, twin: newTwin(), generator: generator{rng: rng, names: []string{"default"}}, cmds: map[string]int{}}
	for i := range rng.IntN(6) {
		s.names = append(s.names, fmt.Sprintf("tube-%d", i))
	}
	if rng.IntN(10) == 0 {
		for i := range 20 {
			s.names = append(s.names, fmt.Sprintf("wide-%d", i))
		}
	}
	return s
}

func (s *serial) run(n int) error {
	defer s.w.Close()
	err := func() error {
		for range n {
			err := s.step()
			if s.twin.Tied {
				break
			}
			if err != nil {
				return err
			}
		}
		return s.leaveAll()
	}()
	if err != nil {
		return fmt.Errorf("%w\n--- %d shards, until then:\n%s", err, len(s.w.D.Shards()), strings.Join(s.trace, "\n"))
	}
	return nil
}

func (s *serial) step() error {
	// No two events at the same moment: which of two shards is first then is
	// nobody's promise.
	d := time.Duration(1 + s.rng.IntN(1000))
	switch s.rng.IntN(8) {
	case 0:
		d += time.Duration(s.rng.IntN(4000)) * time.Millisecond
	case 1:
		d += time.Duration(s.rng.IntN(300)) * time.Millisecond
	}
	s.note("+ %v", d)
	if err := s.w.pass(d); err != nil {
		return err
	}
	s.twin.pass(s.w.Now())
	if err := s.compare(); err != nil {
		return err
	}
	if s.operatorClient != nil && s.rng.IntN(4) == 0 {
		return s.operate()
	}
	c := s.conn()
	if c == nil {
		return s.settle()
	}
	if c.k.waiting() || s.rng.IntN(25) == 0 {
		// It can only go, or wait on.
		if s.rng.IntN(4) == 0 {
			s.leave(c)
		}
		return s.settle()
	}
	q := s.command(len(words)-oddWords, s.id(c))
	s.note("%s> %s", c.name, q.line)
	s.cmds[strings.Fields(q.line)[0]]++
	if q.line == "stats" {
		return s.stats(c)
	}
	c.k.Send(q.bytes())
	s.twin.Do(c.twin, q.line, q.body)
	return s.settle()
}

// conn is one of the connections, nil when there is none.
func (s *serial) conn() *serialConn {
	if len(s.conns) < 5 && s.rng.IntN(12) == 0 || len(s.conns) == 0 {
		c := &serialConn{k: s.w.Open(), twin: s.twin.join(), name: string(rune('a' + s.rng.IntN(26)))}
		s.note("%s opens", c.name)
		s.conns = append(s.conns, c)
		return nil
	}
	return s.conns[s.rng.IntN(len(s.conns))]
}

func (s *serial) leave(c *serialConn) {
	if s.spread(c) {
		return
	}
	if s.rng.IntN(2) == 0 {
		s.note("%s aborts", c.name)
		c.k.Abort()
	} else {
		s.note("%s half-closes", c.name)
		c.k.halfClose()
		if slices.Contains(s.twin.waiting, c.twin) {
			c.twin.told += "TIMED_OUT\r\n"
		}
	}
	s.twin.leave(c.twin)
}

// spread reports that c holds jobs in several shards for which others wait. In
// which order they come back then depends on the shards.
func (s *serial) spread(c *serialConn) bool {
	at := -1
	for _, j := range s.twin.jobs {
		if j.holder != c.twin {
			continue
		}
		if sh := s.w.D.ShardOf(j.tube.name); at >= 0 && at != sh {
			return len(s.twin.waiting) > 0
		} else {
			at = sh
		}
	}
	return false
}

// settle lets the command's parts be late, comes to rest and compares.
func (s *serial) settle() error {
	for range s.rng.IntN(60) {
		s.w.late()
	}
	if err := s.w.rest(); err != nil {
		return err
	}
	if err := s.compare(); err != nil {
		return err
	}
	return s.w.Check()
}

func (s *serial) note(f string, args ...any) { s.trace = append(s.trace, fmt.Sprintf(f, args...)) }

// compare compares what the clients got.
func (s *serial) compare() error {
	for _, c := range s.conns {
		if string(c.k.Got) != c.twin.told {
			return fmt.Errorf("%s got  %q\nwant %q", c.name, c.k.Got, c.twin.told)
		}
		if len(c.k.Got) > 0 {
			s.note("%s< %q", c.name, c.k.Got)
		}
		c.k.Got, c.twin.told = c.k.Got[:0], ""
		if got, want := c.k.waiting(), slices.Contains(s.twin.waiting, c.twin); got != want {
			return fmt.Errorf("%s waits: %v, want %v", c.name, got, want)
		}
	}
	s.conns = slices.DeleteFunc(s.conns, func(c *serialConn) bool { return c.twin.gone })
	return nil
}

// stats compares the lines of stats that say how things stand.
func (s *serial) stats(c *serialConn) error {
	want := s.twin.gauges()
	c.k.Send([]byte("stats\r\n"))
	for range s.rng.IntN(60) {
		s.w.late()
	}
	if err := s.w.rest(); err != nil {
		return err
	}
	got := strings.Split(string(c.k.Got), "\n")
	c.k.Got = nil
	for _, line := range want {
		if !slices.Contains(got, line) {
			return fmt.Errorf("stats says\n%s\nwant %q", strings.Join(got, "\n"), line)
		}
	}
	return s.settle()
}

// id is mostly one that c may do something with.
func (s *serial) id(c *serialConn) uint64 {
	var list []*twinJob
	switch s.rng.IntN(4) {
	case 0, 1:
		list = s.twin.where(func(j *twinJob) bool { return j.holder == c.twin })
	case 2:
		list = s.twin.jobs
	}
	if len(list) == 0 {
		return uint64(s.rng.IntN(int(s.twin.last) + 2))
	}
	return list[s.rng.IntN(len(list))].id
}

// leaveAll ends every client at once, in any order; then only jobs keep tubes.
func (s *serial) leaveAll() error {
	for _, c := range s.conns {
		if s.rng.IntN(2) == 0 {
			c.k.Abort()
		} else {
			c.k.halfClose()
		}
	}
	for range s.rng.IntN(200) {
		s.w.late()
	}
	return empty(s.w)
}

// empty checks that a world without clients keeps jobs and nothing else, and
// not even tubes once they are deleted.
func empty(w *world) error {
	if err := w.rest(); err != nil {
		return err
	}
	for _, sh := range w.D.Shards() {
		if n := sh.Counts().Clients; n != 0 {
			return fmt.Errorf("shard %d has %d clients when all are gone", sh.Index, n)
		}
	}
	if err := w.Check(); err != nil {
		return err
	}
	ids := slices.Sorted(maps.Keys(w.jobs()))
	k := w.Open()
	for _, id := range ids {
		k.Send(fmt.Appendf(nil, "delete %d\r\n", id))
	}
	k.halfClose()
	if err := w.rest(); err != nil {
		return err
	}
	if want := strings.Repeat("DELETED\r\n", len(ids)); string(k.Got) != want || !k.Ended {
		return fmt.Errorf("deleting %d jobs: got %q, closed %v", len(ids), k.Got, k.Ended)
	}
	for _, sh := range w.D.Shards() {
		if n := sh.Counts(); n.Clients != 0 || n.Ready+n.Delayed+n.Reserved+n.Buried != 0 {
			return fmt.Errorf("shard %d is not empty: %+v", sh.Index, n)
		}
		for v := range sh.Tubes() {
			if !v.Pinned && !v.Function {
				return fmt.Errorf("tube %q is left", v.Name)
			}
		}
	}
	return w.Check()
}
