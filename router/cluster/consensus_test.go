package cluster

import (
	"container/heap"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/journal/fakedisk"
	"polystalk/shard/record"
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

// TestConsensus: whole clusters from one seed. Messages are lost, doubled and late, links fail in
// one direction or both, nodes stop and forget what they had not synced, stand still, have
// clocks that run apart; members come and go, and leaders hand over. At no time do two nodes
// hold a lease, lead in one term, or disagree about what is committed; what was acknowledged
// stays; and once the faults end they all come to the same.
func TestConsensus(t *testing.T) {
	var sum tally
	runSeeds(t, 250, func(seed uint64) error {
		w := newWorld(t, seed, honest)
		defer sum.add(&w.tally)
		return w.run()
	})
	t.Logf("%+v", sum)
	if *seedFlag == 0 && (sum.elections == 0 || sum.acked == 0 || sum.stops == 0 || sum.transfers == 0 || sum.changes == 0 || sum.fetched == 0 || sum.lapses == 0 || sum.forgotten == 0) {
		t.Errorf("something has never happened: %+v", sum)
	}
}

// runSeeds runs f on as many seeds as the flags say, or n.
func runSeeds(t *testing.T, n int, f func(seed uint64) error) {
	t.Helper()
	if *seedFlag != 0 {
		if err := f(*seedFlag); err != nil {
			t.Fatal(err)
		}
		return
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

// A tally is what has happened in a world.
type tally struct {
	elections, acked, stops, forgotten, transfers, changes, fetched, lapses, deposed, events int
}

func (s *tally) add(o *tally) {
	s.elections += o.elections
	s.acked += o.acked
	s.stops += o.stops
	s.forgotten += o.forgotten
	s.transfers += o.transfers
	s.changes += o.changes
	s.fetched += o.fetched
	s.lapses += o.lapses
	s.deposed += o.deposed
	s.events += o.events
}

// A fault is what a world's nodes do wrong: the simulator must see it.
type fault int

const (
	honest           fault = iota
	entriesNotSynced       // likewise entries
	noSilence              // who has just started votes at once
	replyEarly             // a commit is acknowledged once it is on the leader's disk
	ownTwice               // a leader is given its own entries
	commitBeyond           // a log says that more is committed than there was
	longLease              // a lease lasts for twice the timeout
	membersLate            // raft goes by members that are not on the disk
)

// An event happens at a time. Those of a node that has stopped since are for nobody.
type event struct {
	at  time.Duration
	seq int
	run func() error
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// A world is a cluster and all that happens to it.
type world struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	fault fault
	now   time.Duration
	seq   int
	queue events
	calm  bool // no more faults
	still bool // no more clients
	nodes []*simNode
	cut   map[[2]uint64]bool // links that carry nothing, by direction
	loss  int                // one message of so many is lost
	late  int                // one of so many takes long

	leaders map[uint64]uint64 // by term
	history []Entry           // what is committed, behind entry zero
	ops     []uint64          // the operations in it
	ends    []int             // by index less one: how many those are
	op      uint64            // the number of the last operation
	told    []uint64          // operations that were acknowledged
	tally
}

// A simNode is a node with what outlives it: its log and the disk of its State.
type simNode struct {
	w     *world
	id    uint64
	name  string
	disk  *fakedisk.Disk
	log   *memLog
	rate  float64 // of its clock
	life  int
	hand  *Hand // nil: it is down
	away  bool  // it stands still
	gone  bool  // it was removed, or has never begun
	term  uint64
	rep   *simReplica
	was   *Members // as this life has begun
	fetch *Fetch
	held  bool // it held a lease when that was last looked at
}

// newWorld makes a cluster of three, sometimes five, and spares that may join it.
func newWorld(t *testing.T, seed uint64, f fault) *world {
	cryptotest.SetGlobalRandom(t, seed) // raft draws its timeouts there
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 14)), fault: f,
		cut: map[[2]uint64]bool{}, leaders: map[uint64]uint64{},
	}
	w.loss, w.late = 5+w.rng.IntN(60), 3+w.rng.IntN(50)
	n := 3
	if w.rng.IntN(4) == 0 {
		n = 5
	}
	first := &Members{}
	for i := range n + 2 {
		id := uint64(i + 1)
		s := &simNode{
			w: w, id: id, name: fmt.Sprintf("n%d", id), disk: fakedisk.New(seed ^ id<<32), log: &memLog{},
			rate: 0.97 + 0.06*w.rng.Float64(), gone: i >= n,
		}
		w.nodes = append(w.nodes, s)
		if i < n {
			first.List = append(first.List, Member{ID: id, Name: s.name, Addr: "x", Voter: true})
		}
	}
	for _, s := range w.nodes[:n] {
		s.create(first)
		w.in(time.Duration(w.rng.IntN(300)), s.start)
	}
	return w
}

// create makes the node's State.
func (s *simNode) create(m *Members) {
	st, err := CreateState(s.disk, Identity{Cluster: 1, Node: s.id, Name: s.name}, Vote{}, m)
	if err != nil {
		panic(err)
	}
	st.Close()
}

// in has something happen after a while.
func (w *world) in(after time.Duration, run func() error) {
	w.seq++
	heap.Push(&w.queue, event{w.now + after, w.seq, run})
}

// run is the whole story: a time of faults, then one of calm, then what everybody has.
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
	for range 10 { // it takes some elections, hand-overs and journals
		if err := w.until(w.now + 4*timeoutTime); err != nil {
			return err
		}
		if err = w.agree(); err == nil {
			break
		}
	}
	return err
}

// until lets everything happen up to a time.
func (w *world) until(end time.Duration) error {
	for len(w.queue) > 0 && w.queue[0].at <= end {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		w.events++
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

// clock is the node's own. It never goes back, and counts while the node is down.
func (s *simNode) clock() time.Duration { return time.Duration(float64(s.w.now) * s.rate) }

// alive runs f unless the node has stopped since.
func (s *simNode) alive(f func() error) func() error {
	life := s.life
	return func() error {
		if s.life != life || s.hand == nil {
			return nil
		}
		if s.away { // it happens once it goes on
			s.w.in(time.Duration(1+s.w.rng.IntN(30)), s.alive(f))
			return nil
		}
		return f()
	}
}

// start begins a life.
func (s *simNode) start() error {
	if s.hand != nil || s.gone {
		return nil
	}
	st, err := OpenState(s.disk)
	if err != nil {
		return err
	}
	s.life++
	s.term, s.fetch, s.away = 0, nil, false
	for _, e := range s.log.entries {
		if e.Index <= s.log.committed && (e.Index > uint64(len(s.w.history)) || !same(&e, &s.w.history[e.Index-1])) {
			return fmt.Errorf("node %d: its log says that entry %d is committed, which it is not", s.id, e.Index)
		}
	}
	s.rep = &simReplica{s: s, ops: slices.Clone(s.w.ops[:s.w.upTo(s.log.committed)])}
	s.was = st.Members()
	s.hand, err = NewHand(HandOptions{
		Machine: Options{ID: s.id, Log: s.log, Timeout: timeoutTime},
		State:   st, Replica: s.rep, Acknowledge: s.acknowledge, Now: s.clock,
		Send: s.send, Fetch: func(f Fetch) { s.fetch = &f },
	})
	if err != nil {
		return fmt.Errorf("node %d: %w", s.id, err)
	}
	s.sabotage()
	s.w.tell("node %d starts: log %d…%d, committed %d, vote %v", s.id, s.log.first, s.log.Last(), s.log.committed, st.Vote())
	s.w.in(s.tickIn(), s.alive(s.tick))
	return s.busy()
}

// tickIn is the time until the next tick: never less than a tick by the node's own clock.
func (s *simNode) tickIn() time.Duration {
	d := time.Duration(float64(tickTime)/s.rate) + 1
	if s.w.rng.IntN(50) == 0 {
		d += time.Duration(s.w.rng.IntN(300))
	}
	return d
}

func (s *simNode) tick() error {
	s.w.in(s.tickIn(), s.alive(s.tick))
	if err := s.after(s.hand.Tick()); err != nil {
		return err
	}
	return s.busy()
}

// busy has the node's disk and replica go on some time soon.
func (s *simNode) busy() error {
	if s.hand == nil {
		return nil
	}
	if s.hand.Writes() > 0 {
		s.w.in(time.Duration(1+s.w.rng.IntN(20)), s.alive(s.write))
	}
	if s.hand.Applies() > 0 {
		s.w.in(time.Duration(1+s.w.rng.IntN(20)), s.alive(s.apply))
	}
	return nil
}

func (s *simNode) write() error {
	if n := s.hand.Writes(); n > 0 {
		return s.after(s.hand.Write(1 + s.w.rng.IntN(n)))
	}
	return nil
}

func (s *simNode) apply() error {
	if s.hand.Applies() == 0 {
		return nil
	}
	p := s.hand.applies[0]
	before := len(s.w.history)
	if err := s.w.commit(s.id, p.Entries); err != nil {
		return err
	}
	if len(s.w.history) > before {
		s.w.tell("node %d: committed up to %d", s.id, len(s.w.history))
	}
	if s.w.fault == ownTwice && s.rep.leads {
		for _, e := range p.Entries {
			s.rep.ops = append(s.rep.ops, opsOf(e.Data)...)
		}
	}
	err := s.after(s.hand.Apply())
	if err == nil && s.hand != nil {
		err = s.rep.check(p.Entries[len(p.Entries)-1].Index)
	}
	return err
}

// after takes in what has become of a step: a node that was deposed begins anew, one that was
// removed ends. Anything else is wrong.
func (s *simNode) after(err error) error {
	var f *commit.Failure
	switch {
	case err == nil:
		return s.busy()
	case errors.Is(err, ErrRemoved):
		s.w.tell("node %d was removed", s.id)
		s.gone = true
		return s.stop(false)
	case errors.As(err, &f) && f.Cause == commit.Deposed:
		s.w.tell("node %d is deposed", s.id)
		s.w.deposed++
		return s.stop(true)
	}
	return fmt.Errorf("node %d: %w", s.id, err)
}

// stop ends a life, by a power cut. It begins anew some time, if it is to.
func (s *simNode) stop(again bool) error {
	if n := len(s.hand.appends); n > 0 && s.w.rng.IntN(2) == 0 { // in the middle of a write
		s.log.broken = true
		s.disk.CrashAt = s.disk.Ops + 1 + s.w.rng.IntN(6)
		s.hand.engine.disk.do(s.hand.appends[:1+s.w.rng.IntN(n)])
		s.disk.CrashAt = 0
	}
	s.hand = nil
	s.life++
	s.w.stops++
	was := s.log.Last()
	s.log = s.log.stop(s.w.rng)
	if s.log.Last() < was {
		s.w.forgotten++
	}
	s.disk.Cut()
	s.w.tell("node %d stops; its log is %d…%d", s.id, s.log.first, s.log.Last())
	if again {
		// Some come back before anybody has missed them.
		down := time.Duration(1 + s.w.rng.IntN(4*int(timeoutTime)))
		if s.w.rng.IntN(2) == 0 {
			down /= 20
		}
		s.w.in(down, s.start)
	}
	return s.spoil()
}

// send puts a message on its way.
func (s *simNode) send(m Message) {
	w := s.w
	to := w.node(m.To())
	if to == nil || w.cut[[2]uint64{s.id, m.To()}] || !w.calm && w.rng.IntN(w.loss) == 0 {
		if w.rng.IntN(3) == 0 {
			w.in(5, s.alive(func() error {
				return s.after(s.hand.Do(func(mm *Machine) { mm.Unreachable(m.To()) }))
			}))
		}
		return
	}
	b, err := m.Encode()
	if err != nil {
		panic(err)
	}
	copies := 1
	if !w.calm && w.rng.IntN(20) == 0 {
		copies = 2
	}
	for range copies {
		d := time.Duration(1 + w.rng.IntN(30))
		if !w.calm && w.rng.IntN(w.late) == 0 {
			d = time.Duration(w.rng.IntN(4 * int(timeoutTime)))
		}
		w.in(d, func() error { return to.receive(b) })
	}
}

// receive takes a message, unless the node is down: it is not for one life alone.
func (s *simNode) receive(b []byte) error {
	return s.alive(func() error {
		m, err := Decode(b)
		if err != nil {
			return err
		}
		err = s.after(s.hand.Receive(m))
		if err == nil && s.hand != nil && s.fetch != nil {
			s.w.in(time.Duration(10+s.w.rng.IntN(int(timeoutTime))), s.alive(s.take))
		}
		return err
	})()
}

// take fetches the journal of another node, and begins anew with it, if it is no step back.
func (s *simNode) take() error {
	f := s.fetch
	if f == nil {
		return nil
	}
	s.fetch = nil
	from := s.w.node(f.From)
	var members *Members
	ok := from.hand != nil && !s.w.cut[[2]uint64{f.From, s.id}]
	var log *memLog
	if ok {
		log = from.log.copyOf()
		a, _ := log.Term(log.Last())
		b, _ := s.log.Term(s.log.Last())
		ok = a > b || a == b && log.Last() >= s.log.Last()
		members = from.hand.Machine().Members()
		_ = from.after(from.hand.Do(func(m *Machine) { m.Fetched(s.id, ok) }))
	}
	if !ok {
		return nil
	}
	if err := s.stop(true); err != nil {
		return err
	}
	s.w.fetched++
	s.w.tell("node %d takes the journal of %d", s.id, f.From)
	s.log = log
	st, err := OpenState(s.disk)
	if err != nil {
		return err
	}
	defer st.Close()
	if t, _ := log.Term(log.Last()); t > st.Vote().Term {
		if err := st.SaveVote(Vote{Term: t}); err != nil {
			return err
		}
	}
	return st.SaveMembers(members)
}

func (w *world) node(id uint64) *simNode {
	if id == 0 || id > uint64(len(w.nodes)) {
		return nil
	}
	return w.nodes[id-1]
}

// commit takes in what a node says is committed: nobody has said otherwise.
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

// check is what holds after every event.
func (w *world) check() error {
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
			w.elections++
			w.tell("node %d leads in term %d", s.id, t)
		}
		held := s.hand.Leased()
		if held {
			if leased != 0 {
				return fmt.Errorf("nodes %d and %d hold a lease", leased, s.id)
			}
			leased = s.id
		} else if s.held && s.hand.engine.leading.Load() != 0 {
			w.lapses++
		}
		s.held = held
	}
	return w.matchLogs()
}

// matchLogs is Raft's log matching, of two nodes that are drawn.
func (w *world) matchLogs() error {
	if w.events%16 != 0 {
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

// heal ends all faults, and brings back who is still a member.
func (w *world) heal() {
	w.calm = true
	clear(w.cut)
	for _, s := range w.nodes {
		s.away = false
		w.in(1, s.start)
	}
	w.tell("calm")
}

// agree is what holds in the end: there is a leader with a lease, everybody has all of the
// history, and that has all that was acknowledged, in the order of the leaders.
func (w *world) agree() error {
	var leader *simNode
	for _, s := range w.nodes {
		if s.hand != nil && s.hand.Leads() != 0 && s.hand.Leased() {
			leader = s
		}
	}
	if leader == nil {
		return errors.New("nobody leads, though all is well")
	}
	there := map[uint64]int{}
	for _, op := range w.ops {
		if there[op]++; there[op] > 1 {
			return fmt.Errorf("operation %d is there twice", op)
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
			return fmt.Errorf("node %d is down, though all is well", s.id)
		}
		if got := s.hand.Machine().Members(); got.Index != members.Index || !slices.Equal(got.List, members.List) {
			return fmt.Errorf("node %d knows members %+v, the leader %+v", s.id, got, members)
		}
		if applied := s.hand.Machine().store.applied; applied != uint64(len(w.history)) {
			return fmt.Errorf("node %d has applied %d of %d entries, though all is well", s.id, applied, len(w.history))
		}
		if err := s.rep.check(uint64(len(w.history))); err != nil {
			return err
		}
	}
	return nil
}
