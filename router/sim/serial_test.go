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
	"polystalk/shard/commit"
	"polystalk/shard/core"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run only this seed")
	runsFlag = flag.Int("runs", 0, "how many seeds to run; zero: a few seconds' worth")
)

// seeds runs f for the seeds of the flags, else for the first n. Short tests run a part of them. A
// failure prints the command that repeats its seed.
func seeds(t *testing.T, n int, f func(seed uint64) error) {
	t.Helper()
	first, last := uint64(1), uint64(n)
	if testing.Short() {
		last = uint64(n+31) / 32
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

// wantSeen checks that everything has happened in the runs of a test, unless there were few runs.
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

// TestManyShardsAnswerAsOne sends one command at a time, with delays, and compares every output
// byte with a server of one shard without delays.
func TestManyShardsAnswerAsOne(t *testing.T) {
	runs, tied := 0, 0
	seeds(t, 200, func(seed uint64) error {
		s := newSerial(seed)
		err := s.run(150)
		runs++
		if s.tied {
			tied++
		}
		return err
	})
	if runs >= 100 && tied > runs/5 {
		t.Errorf("%d of %d histories ended early, by two events at one moment", tied, runs)
	}
}

// A serial is a history of commands that do not overlap, in two worlds.
type serial struct {
	generator
	worlds    [2]*world // one with many shards and delays, and the plain one
	conns     []*serialConn
	trace     []string
	cmds      map[string]int
	operators []*operator // one for each world; nil: there is none
	polices   bool        // the policies of tubes change
	tied      bool        // two events may have the same time: their order is undefined
}

type serialConn struct {
	k    [2]*sock
	name string
	told map[uint64]bool // ids that were reserved for it
	gone bool
}

func newSerial(seed uint64) *serial {
	rng := rand.New(rand.NewPCG(seed, 2))
	s := &serial{generator: generator{rng: rng, names: []string{"default"}}, cmds: map[string]int{}}
	for i, shards := range []int{[]int{1, 4, 16}[rng.IntN(3)], 1} {
		w, err := New(seed, 1+rng.IntN(3), router.Config{Shards: shards, MaxJobSize: 200_000})
		if err != nil {
			panic(err)
		}
		s.worlds[i] = w
	}
	if rng.IntN(2) == 0 {
		s.worlds[0].D.HoldAtMost(1000 + rng.IntN(2000)) // above four lines, or half a line is never resumed
	}
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
	defer s.worlds[0].Close()
	defer s.worlds[1].Close()
	err := func() error {
		for range n {
			if err := s.step(); err != nil {
				return err
			}
			if s.tied {
				break
			}
		}
		return s.leaveAll()
	}()
	if err != nil {
		return fmt.Errorf("%w\n--- %d shards, until then:\n%s", err, len(s.worlds[0].D.Shards()), strings.Join(s.trace, "\n"))
	}
	return nil
}

func (s *serial) step() error {
	// No two events at the same time: their order between two shards is undefined.
	d := time.Duration(1 + s.rng.IntN(1000))
	switch s.rng.IntN(8) {
	case 0:
		d += time.Duration(s.rng.IntN(4000)) * time.Millisecond
	case 1:
		d += time.Duration(s.rng.IntN(300)) * time.Millisecond
	}
	s.note("+ %v", d)
	if err := s.pass(d); err != nil || s.tied {
		return err
	}
	if s.operators != nil && s.rng.IntN(4) == 0 {
		return s.operate()
	}
	c := s.conn()
	if c == nil {
		return s.settle()
	}
	if c.k[1].waiting() || s.rng.IntN(25) == 0 {
		// It can only disconnect, or continue to wait.
		if s.rng.IntN(4) == 0 {
			s.leave(c)
		}
		return s.settle()
	}
	q := s.command(len(words)-oddWords, s.id(c))
	s.note("%s> %s", c.name, q.line)
	s.cmds[strings.Fields(q.line)[0]]++
	for _, k := range c.k {
		k.Send(q.bytes())
	}
	return s.settle()
}

// pass lets time pass in both worlds. Delays that begin meanwhile end a second later or after that,
// so a check for ties in shorter intervals finds them.
func (s *serial) pass(d time.Duration) error {
	for d > 0 {
		if s.tied = s.ties(); s.tied {
			return nil
		}
		part := min(d, 900*time.Millisecond)
		for _, w := range s.worlds {
			if err := w.pass(part); err != nil {
				return err
			}
		}
		d -= part
	}
	return s.compare()
}

// ties reports whether two jobs are due at the same time, or one a second, the margin of
// DEADLINE_SOON, before another.
func (s *serial) ties() bool {
	due := map[core.Time]bool{}
	for _, j := range s.worlds[1].jobs() {
		if j.Deadline != 0 {
			if due[j.Deadline] || due[j.Deadline-core.Second] || due[j.Deadline+core.Second] {
				return true
			}
			due[j.Deadline] = true
		}
	}
	return false
}

// conn returns one of the connections, nil if there is none.
func (s *serial) conn() *serialConn {
	if len(s.conns) < 5 && s.rng.IntN(12) == 0 || len(s.conns) == 0 {
		c := &serialConn{name: string(rune('a' + s.rng.IntN(26))), told: map[uint64]bool{}}
		for i, w := range s.worlds {
			c.k[i] = w.Open()
		}
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
	c.gone = true
	abort := s.rng.IntN(2) == 0
	s.note("%s leaves, abruptly: %v", c.name, abort)
	for _, k := range c.k {
		if abort {
			k.Abort()
		} else {
			k.halfClose()
		}
	}
}

// spread reports whether c may hold jobs in several shards for which others wait. The order in
// which they become ready then depends on the shards.
func (s *serial) spread(c *serialConn) bool {
	shards := map[int]bool{}
	for id, j := range s.worlds[1].jobs() {
		if c.told[id] && j.State == core.Reserved {
			shards[s.worlds[0].D.ShardOf(j.Tube)] = true
		}
	}
	return len(shards) > 1 && slices.ContainsFunc(s.conns, func(o *serialConn) bool { return o.k[1].waiting() })
}

// settle lets parts of the command be late, comes to rest and compares.
func (s *serial) settle() error {
	for range s.rng.IntN(60) {
		s.worlds[0].late()
	}
	for _, w := range s.worlds {
		if err := w.rest(); err != nil {
			return err
		}
	}
	if err := s.compare(); err != nil {
		return err
	}
	return s.worlds[0].Check()
}

func (s *serial) note(f string, args ...any) { s.trace = append(s.trace, fmt.Sprintf(f, args...)) }

// compare compares the output of the two worlds.
func (s *serial) compare() error {
	for _, c := range s.conns {
		got, want := string(c.k[0].Got), string(c.k[1].Got)
		if stable(got) != stable(want) {
			return fmt.Errorf("%s got  %q\nwant %q", c.name, got, want)
		}
		if got != "" {
			s.note("%s< %q", c.name, got)
		}
		if id, found := uint64(0), strings.HasPrefix(got, "RESERVED"); found {
			fmt.Sscanf(got, "RESERVED %d", &id)
			c.told[id] = true
		}
		for _, k := range c.k {
			k.Got = nil
		}
		if got, want := c.k[0].waiting(), c.k[1].waiting(); got != want {
			return fmt.Errorf("%s waits: %v, want %v", c.name, got, want)
		}
	}
	s.conns = slices.DeleteFunc(s.conns, func(c *serialConn) bool { return c.gone })
	return nil
}

// stable returns a client's output without the process's lines of stats.
func stable(got string) string {
	if !strings.Contains(got, "\nrusage-utime: ") {
		return got
	}
	lines := strings.Split(got, "\n")[1:] // the first has the size
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "rusage-") || strings.HasPrefix(l, "id: ")
	}), "\n")
}

// id returns a job, usually one that c can use.
func (s *serial) id(c *serialConn) uint64 {
	jobs := s.worlds[1].jobs()
	list := slices.Sorted(maps.Keys(jobs))
	switch s.rng.IntN(4) {
	case 0, 1:
		list = slices.DeleteFunc(list, func(id uint64) bool { return !c.told[id] || jobs[id].State != core.Reserved })
	case 2:
	default:
		list = nil
	}
	if len(list) == 0 {
		return uint64(s.rng.IntN(s.puts + 2))
	}
	return list[s.rng.IntN(len(list))]
}

// leaveAll ends all clients at once, in any order; then only jobs keep tubes.
func (s *serial) leaveAll() error {
	for _, c := range s.conns {
		if s.rng.IntN(2) == 0 {
			c.k[0].Abort()
		} else {
			c.k[0].halfClose()
		}
	}
	for range s.rng.IntN(200) {
		s.worlds[0].late()
	}
	if s.polices {
		if err := s.endPolicies(); err != nil {
			return err
		}
	}
	return empty(s.worlds[0])
}

// empty checks that a world without clients has only jobs, and no tubes once they are deleted.
func empty(w *world) error {
	if err := w.rest(); err != nil {
		return err
	}
	for _, sh := range w.D.Shards() {
		if n := sh.Counts().Clients; n != 0 {
			return fmt.Errorf("shard %d has %d clients after all are gone", sh.Index, n)
		}
	}
	if used, inside, waiting := w.D.Server.Host().BodyPlaces(); used != 0 || inside+waiting != 0 {
		return fmt.Errorf("places of bodies after all are gone: %d bytes, %d inside, %d wait", used, inside, waiting)
	}
	if j, ok := w.journal.(*commit.Journal); ok && j.Stats().Promised != 0 {
		return fmt.Errorf("%d bytes are promised after all are gone", j.Stats().Promised)
	}
	kept := w.D.Server.Host().Account.Sum()
	for i, l := range w.loops {
		v := l.View()
		if kept += int64(v.Untold); v.Holders != 0 {
			return fmt.Errorf("loop %d keeps %+v after all are gone", i, v)
		}
	}
	if kept != 0 {
		return fmt.Errorf("%d bytes of connections are counted after all are gone", kept)
	}
	if err := w.Check(); err != nil {
		return err
	}
	ids := slices.Sorted(maps.Keys(w.jobs()))
	w.D.Server.Host().Access = nil // the next client may delete them
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
