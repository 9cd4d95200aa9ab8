package cluster

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"polystalk/shard/record"
	"polystalk/shard/wal/fakedisk"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run only this seed, and tell of each event")
	runsFlag = flag.Int("runs", 0, "how many seeds to run; zero: a few seconds' worth")
	fromFlag = flag.Uint64("from", 1, "the first of them")
)

// Times of the simulated world, in its own units: a nanosecond stands for a microsecond.
const (
	tickTime    = 100 * time.Nanosecond
	timeoutTime = electionTicks * tickTime
)

// TestConsensus runs whole clusters from one seed. Messages are lost, duplicated and delayed, links
// fail in one direction or both, nodes stop and lose unsynced data, pause, and have clocks of
// different rates. Members join and leave, and leaders hand over. At no time may two nodes hold a
// lease, lead in one term, or disagree about a committed entry. Acknowledged operations stay, and
// after the faults all nodes agree.
func TestConsensus(t *testing.T) {
	sum := map[string]int{}
	runSeeds(t, 150, func(seed uint64) error {
		w := newWorld(t, seed, honest)
		w.seen = sum
		return w.run()
	})
	t.Log(sum)
	for _, event := range []string{"elections", "acked", "stops", "transfers", "changes", "rejoins", "fetched", "lapses", "forgotten"} {
		if *seedFlag == 0 && !testing.Short() && sum[event] == 0 {
			t.Errorf("this has never happened: %s", event)
		}
	}
}

// runSeeds runs f for the seeds of the flags, else for n seeds. Short tests run a third of them.
func runSeeds(t *testing.T, n int, f func(seed uint64) error) {
	t.Helper()
	if *seedFlag != 0 {
		if err := f(*seedFlag); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		n = (n + 2) / 3
	}
	if *runsFlag > 0 {
		n = *runsFlag
	}
	for i := range uint64(n) {
		if err := f(*fromFlag + i); err != nil {
			t.Fatalf("seed %d (go test ./router/cluster -run '^%s$' -seed %d): %v", *fromFlag+i, t.Name(), *fromFlag+i, err)
		}
	}
}

// A fault is a rule that the nodes of a world break: the simulator must notice.
type fault int

const (
	honest           fault = iota
	entriesNotSynced       // entries are acknowledged before they are synced
	voteNotSynced          // votes are sent before they are synced
	noSilence              // a node votes right after its start
	replyEarly             // a commit is acknowledged once it is on the leader's disk
	ownTwice               // a leader applies its own entries again
	commitBeyond           // a log reports a commit index that is too high
	longLease              // a lease lasts for twice the timeout
	membersLate            // raft uses members that are not on the disk
)

// A simEvent happens at a given time. Events of a node that has stopped meanwhile do nothing.
type simEvent struct {
	at  time.Duration
	run func() error
}

// A world is a simulated cluster.
type world struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	fault fault
	now   time.Duration
	queue []simEvent // the next is the last
	calm  bool       // no more faults
	still bool       // no more clients
	nodes []*simNode
	cut   map[[2]uint64]bool // links that drop all messages, by direction
	loss  int                // one message in this many is lost
	late  int                // one message in this many is late
	pause int                // the longest time between two faults
	pace  int                // the longest time between two operations of clients
	idle  time.Duration      // until then clients do nothing

	leaders map[uint64]uint64 // by term
	ballots map[ballot]uint64 // votes of each node
	broken  error             // the guarantee that was broken
	history []Entry           // committed entries, after entry zero
	ops     []uint64          // the operations in it
	ends    []int             // by index less one: the number of operations up to it
	op      uint64            // the number of the last operation
	told    []uint64          // operations that were acknowledged
	seen    map[string]int    // events
	steps   int
}

// newWorld makes a cluster of three, sometimes five, and spares that may join it.
func newWorld(t *testing.T, seed uint64, f fault) *world {
	cryptotest.SetGlobalRandom(t, seed) // raft draws its timeouts there
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 14)), fault: f,
		cut: map[[2]uint64]bool{}, leaders: map[uint64]uint64{}, ballots: map[ballot]uint64{}, seen: map[string]int{},
	}
	w.loss, w.late = 5+w.rng.IntN(60), 3+w.rng.IntN(50)
	w.pause = int(timeoutTime) * (1 + w.rng.IntN(4)) / 2
	w.pace = []int{300, 300, 1000, 4000}[w.rng.IntN(4)]
	n := 3
	if w.rng.IntN(4) == 0 {
		n = 5
	}
	first := &Members{}
	for i := range n + 2 {
		s := w.spare(fmt.Sprintf("n%d", i+1))
		if i < n {
			s.gone = false
			first.List = append(first.List, Member{ID: s.id, Name: s.name, Addr: "x", Voter: true})
		}
	}
	for _, s := range w.nodes[:n] {
		s.create(first)
		w.in(time.Duration(w.rng.IntN(300)), s.start)
	}
	return w
}

// nodesMax bounds all nodes, including removed ones.
const nodesMax = 12

// spare makes a node that may join.
func (w *world) spare(name string) *simNode {
	id := uint64(len(w.nodes) + 1)
	s := &simNode{
		w: w, id: id, name: name, disk: fakedisk.New(w.seed ^ id<<32), log: &memLog{},
		rate: 0.97 + 0.06*w.rng.Float64(), gone: true,
	}
	w.nodes = append(w.nodes, s)
	return s
}

// in schedules an event.
func (w *world) in(after time.Duration, run func() error) {
	at, _ := slices.BinarySearchFunc(w.queue, w.now+after, func(e simEvent, at time.Duration) int { return cmp.Compare(at, e.at) })
	w.queue = slices.Insert(w.queue, at, simEvent{w.now + after, run})
}

// run runs a time of faults, then a time of calm, and then compares all nodes.
func (w *world) run() error {
	end := time.Duration(15+w.rng.IntN(30)) * timeoutTime
	w.in(20*tickTime+time.Duration(w.rng.IntN(int(timeoutTime))), w.mischief)
	w.in(10*tickTime, w.client)
	if err := w.until(end); err != nil {
		return err
	}
	w.heal()
	if err := w.until(w.now + 12*timeoutTime); err != nil {
		return err
	}
	w.still = true
	var err error
	for range 10 { // it takes some elections, hand-overs and fetches
		if err := w.until(w.now + 4*timeoutTime); err != nil {
			return err
		}
		if err = w.agree(); err == nil {
			break
		}
	}
	return err
}

// until runs all events up to a time.
func (w *world) until(end time.Duration) error {
	for n := len(w.queue) - 1; n >= 0 && w.queue[n].at <= end; n = len(w.queue) - 1 {
		e := w.queue[n]
		w.queue = w.queue[:n]
		w.now = e.at
		w.steps++
		if err := e.run(); err != nil {
			return fmt.Errorf("at %d: %w", w.now, err)
		}
		if err := w.check(); err != nil {
			return fmt.Errorf("at %d: %w", w.now, err)
		}
	}
	w.now = end
	return nil
}

func (w *world) tell(format string, args ...any) {
	if *seedFlag != 0 {
		w.t.Logf("%7d "+format, append([]any{w.now}, args...)...)
	}
}

func (w *world) node(id uint64) *simNode {
	if id == 0 || id > uint64(len(w.nodes)) {
		return nil
	}
	return w.nodes[id-1]
}

// commit records the entries that a node reports as committed, and checks earlier reports.
func (w *world) commit(id uint64, list []Entry) error {
	for _, e := range list {
		switch n := uint64(len(w.history)); {
		case e.Index > n+1:
			return fmt.Errorf("node %d: entry %d is committed, when there are %d", id, e.Index, n)
		case e.Index == n+1:
			w.history = append(w.history, e)
			if e.Kind == record.Normal {
				w.ops = append(w.ops, opsOf(e.Data)...)
			}
			w.ends = append(w.ends, len(w.ops))
		case !same(&e, &w.history[e.Index-1]):
			return fmt.Errorf("node %d: entry %d is of term %d, and was of term %d", id, e.Index, e.Term, w.history[e.Index-1].Term)
		}
	}
	return nil
}

func same(a, b *Entry) bool {
	return a.Term == b.Term && a.Kind == b.Kind && slices.Equal(a.Data, b.Data)
}

// check checks the rules that hold after every event.
func (w *world) check() error {
	if w.broken != nil {
		return w.broken
	}
	leased := uint64(0)
	for _, s := range w.nodes {
		if s.hand == nil {
			s.held = false
			continue
		}
		if t := s.hand.engine.leading.Load(); t != 0 && t != s.term {
			if other := w.leaders[t]; other != 0 && other != s.id {
				return fmt.Errorf("nodes %d and %d lead in term %d", other, s.id, t)
			}
			w.leaders[t] = s.id
			s.term = t
			w.seen["elections"]++
			w.tell("node %d leads in term %d", s.id, t)
		}
		held := s.hand.Leased()
		if held {
			if leased != 0 {
				return fmt.Errorf("nodes %d and %d hold a lease", leased, s.id)
			}
			leased = s.id
		} else if s.held && s.hand.engine.leading.Load() != 0 {
			w.seen["lapses"]++
		}
		s.held = held
	}
	return w.matchLogs()
}

// matchLogs checks raft's log matching for two random nodes.
func (w *world) matchLogs() error {
	if w.steps%16 != 0 {
		return nil
	}
	a, b := w.nodes[w.rng.IntN(len(w.nodes))].log, w.nodes[w.rng.IntN(len(w.nodes))].log
	matched := false
	for i := min(a.Last(), b.Last()); i > max(a.first, b.first); i-- {
		x, y := &a.entries[i-a.first-1], &b.entries[i-b.first-1]
		matched = matched || x.Term == y.Term
		if matched && !same(x, y) {
			return fmt.Errorf("two logs have entry %d of terms %d and %d below one of the same term", i, x.Term, y.Term)
		}
	}
	return nil
}

// heal ends all faults, and restarts all members.
func (w *world) heal() {
	w.calm = true
	clear(w.cut)
	for _, s := range w.nodes {
		s.away = false
		w.in(1, s.start)
	}
	w.tell("calm")
}

// agree checks the end: there is a leader with a lease, all nodes have the whole history, and the
// history has every acknowledged operation once.
func (w *world) agree() error {
	var leader *simNode
	for _, s := range w.nodes {
		if s.hand != nil && s.hand.Leads() != 0 && s.hand.Leased() {
			leader = s
		}
	}
	if leader == nil {
		return errors.New("no node leads without faults")
	}
	there := map[uint64]int{}
	for _, op := range w.ops {
		if there[op]++; there[op] > 1 {
			return fmt.Errorf("operation %d is in the history twice", op)
		}
	}
	for _, op := range w.told {
		if there[op] == 0 {
			return fmt.Errorf("operation %d was acknowledged, and is lost", op)
		}
	}
	members := leader.hand.Machine().Members()
	for _, s := range w.nodes {
		if s.gone || members.Find(s.id) == nil {
			continue
		}
		if s.hand == nil {
			return fmt.Errorf("node %d is down without faults", s.id)
		}
		if got := s.hand.Machine().Members(); got.Index != members.Index || !slices.Equal(got.List, members.List) {
			return fmt.Errorf("node %d knows members %+v, the leader %+v", s.id, got, members)
		}
		if applied := s.hand.Machine().store.applied; applied != uint64(len(w.history)) {
			return fmt.Errorf("node %d has applied %d of %d entries without faults", s.id, applied, len(w.history))
		}
		if err := s.rep.check(uint64(len(w.history))); err != nil {
			return err
		}
	}
	return nil
}
