package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/record"
	"polystalk/shard/wal/fakedisk"
)

// A simNode is a node with the parts that survive a stop: its log and the disk of its State.
type simNode struct {
	w     *world
	id    uint64
	name  string
	disk  *fakedisk.Disk
	log   *memLog
	rate  float64 // of its clock
	life  int
	hand  *Stepper // nil: it is down
	away  bool     // it is paused
	gone  bool     // it was removed, or has never started
	next  bool     // it will come back under another ID
	back  bool     // it has come back under another ID
	term  uint64
	rep   *simReplica
	props *Proposals
	was   *Members // at the start of this life
	fetch *Fetch
	held  bool // it held a lease at the last check

	slow     time.Duration // until then all its messages are late
	missed   uint64        // it loses all messages of this node
	missing  time.Duration // until then
	doomed   bool          // it stops in its next write
	voted    uint64        // the node to which it has just sent its vote; zero: none
	promised uint64        // the highest term in which it has reported synced data
}

// create makes the node's State.
func (s *simNode) create(m *Members) {
	st, err := CreateState(s.disk, Identity{Cluster: 1, Node: s.id, Name: s.name}, Vote{}, m)
	if err != nil {
		panic(err)
	}
	st.Close()
}

// clock returns the node's own time. It never goes back, and runs while the node is down.
func (s *simNode) clock() time.Duration { return time.Duration(float64(s.w.now) * s.rate) }

// alive runs f unless the node has stopped since.
func (s *simNode) alive(f func() error) func() error {
	life := s.life
	return func() error {
		if s.life != life || s.hand == nil {
			return nil
		}
		if s.away { // f runs when the pause ends
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
	// The entries that it finds committed are so, although perhaps no node has applied them.
	if err := s.w.commit(s.id, s.log.entries[:s.log.committed-s.log.first]); err != nil {
		return err
	}
	s.rep = &simReplica{s: s, ops: slices.Clone(s.w.ops[:s.w.upTo(s.log.committed)])}
	s.was = st.Members()
	s.props = NewProposals()
	s.hand, err = NewStepper(StepperOptions{
		NodeOptions: NodeOptions{
			State: st, Log: s.log, Replica: s.rep, Proposals: s.props, Acknowledge: s.acknowledge, Timeout: timeoutTime,
			Fetch: func(f Fetch) { s.fetch = &f },
		},
		Send: s.send, Now: s.clock,
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

// busy schedules work of the node's disk and replica.
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
	n := s.hand.Writes()
	if n == 0 {
		return nil
	}
	if s.doomed {
		return s.stop(true)
	}
	s.voted = 0
	err := s.after(s.hand.Write(1 + s.w.rng.IntN(n)))
	if err == nil && s.hand != nil && s.voted != 0 && !s.w.calm && s.w.rng.IntN(4) == 0 {
		err = s.w.forget(s)
	}
	return err
}

func (s *simNode) apply() error {
	if s.hand.Applies() == 0 {
		return nil
	}
	p := s.hand.engine.applies[0]
	before := len(s.w.history)
	if err := s.w.commit(s.id, p.Entries); err != nil {
		return err
	}
	if len(s.w.history) > before {
		s.w.tell("node %d: committed up to %d", s.id, len(s.w.history))
	}
	if s.w.fault == ownTwice && s.rep.leads {
		for _, e := range p.Entries {
			if e.Kind == record.Normal {
				s.rep.ops = append(s.rep.ops, opsOf(e.Data)...)
			}
		}
	}
	err := s.after(s.hand.Apply())
	if err == nil && s.hand != nil {
		err = s.rep.check(p.Entries[len(p.Entries)-1].Index)
	}
	return err
}

// after handles the result of a step: a deposed node restarts, a removed one ends. Else it is wrong.
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
		s.w.seen["deposed"]++
		return s.stop(true)
	}
	return fmt.Errorf("node %d: %w", s.id, err)
}

// stop ends a life by a power cut, and may schedule a restart.
func (s *simNode) stop(again bool) error {
	if n := len(s.hand.engine.appends); n > 0 && s.w.rng.IntN(2) == 0 { // in the middle of a write
		s.log.broken = true
		s.disk.CrashAt = s.disk.Ops + 1 + s.w.rng.IntN(6)
		s.hand.engine.disk.do(s.hand.engine.appends[:1+s.w.rng.IntN(n)])
		s.disk.CrashAt = 0
	}
	s.hand, s.doomed = nil, false
	s.life++
	s.w.seen["stops"]++
	was := s.log.Last()
	s.log = s.log.stop(s.w.rng)
	if s.log.Last() < was {
		s.w.seen["forgotten"]++
	}
	s.disk.Cut()
	s.w.tell("node %d stops; its log is %d…%d", s.id, s.log.first, s.log.Last())
	if again {
		// Some come back before another node has noticed.
		down := time.Duration(1 + s.w.rng.IntN(4*int(timeoutTime)))
		if s.w.rng.IntN(2) == 0 {
			down /= 20
		}
		s.w.in(down, s.start)
	}
	return s.spoil()
}

// send schedules the delivery of a message.
func (s *simNode) send(m Message) {
	w := s.w
	if err := w.heed(s, m); err != nil && w.broken == nil {
		w.broken = err
	}
	to := w.node(m.To())
	if to == nil || to.misses(s.id) || w.cut[[2]uint64{s.id, m.To()}] || !w.calm && w.rng.IntN(w.loss) == 0 {
		if w.rng.IntN(3) == 0 {
			w.in(5, s.alive(func() error {
				return s.after(s.hand.Do(func(mm *Machine) { mm.unreachable(m.To()) }))
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
		if !w.calm && (w.now < s.slow || w.rng.IntN(w.late) == 0) {
			d = time.Duration(w.rng.IntN(4 * int(timeoutTime)))
		}
		w.in(d, func() error { return to.receive(b) })
	}
}

// misses reports whether it loses the messages of a node now.
func (s *simNode) misses(id uint64) bool {
	return s.missed == id && s.w.now < s.missing && !s.w.calm
}

// receive handles a message, unless the node is down. It may have been sent to an earlier life.
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

// take fetches the journal of another node, and restarts with it unless it is older.
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
	s.w.seen["fetched"]++
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
