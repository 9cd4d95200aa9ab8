package shard

import (
	"fmt"
	"iter"
	"sync/atomic"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
)

const (
	// inboxSize is the maximum number of messages that wait for a busy shard. A sender that finds
	// the inbox full helps to empty it, so the size is a trade-off between memory (8 KiB a shard)
	// and help; a client has at most one message in flight.
	inboxSize = 512

	// visitMax is how many messages run in one visit; the goroutine runs the rest.
	visitMax = 128
)

// A Shard is a Core with an ownership word and an inbox. The goroutine that changes the word from 0
// to 1 owns the core until Release; others leave messages. The methods that need ownership say so.
type Shard struct {
	own atomic.Uint32
	_   [124]byte // many CPUs write the word; nothing else is on its cache lines

	// Index is the shard's number; it marks the messages it answers.
	Index int

	core  *core.Core
	inbox *ring[*core.Message]
	clock func(*Batch)

	log         *commit.Log // nil: no journal
	wantsCommit bool        // a commit is to be requested; owner only

	readied *core.ReadyLog // the core's

	// due is the core's Next as of the last release, for routers.
	due atomic.Int64

	// wakeAt is when the goroutine will wake up by itself; for the owner only.
	wakeAt core.Time
	wake   chan struct{}
	quit   chan struct{}
	done   chan struct{}

	// Owners write deepest, only when it grows; only the goroutine writes rounds and left.
	// Counters reads all three.
	deepest      atomic.Uint32
	rounds, left atomic.Uint64

	_ [8]byte // to whole cache lines
}

// New makes shard number index around core. clock sets the time of a Batch. Only the shard's
// goroutine calls it: an event loop sets the time of its Batch itself.
func New(index int, machine *core.Core, clock func(*Batch)) *Shard {
	s := &Shard{
		Index:   index,
		core:    machine,
		inbox:   newRing[*core.Message](inboxSize),
		clock:   clock,
		readied: machine.Readied(),
		wakeAt:  core.Never,
		wake:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	s.due.Store(int64(core.Never))
	return s
}

// Own takes the shard if it is free. It never waits.
func (s *Shard) Own(b *Batch) bool {
	if s.own.Load() != 0 || !s.own.CompareAndSwap(0, 1) {
		b.Busy++
		return false
	}
	b.Visits++
	return true
}

// Apply runs op in place; the shard must be owned. r.Body is valid until Release.
func (s *Shard) Apply(b *Batch, op *core.Op, r *core.Reply) {
	s.mustBeOwned()
	if b.Slept > s.core.SleptFor() {
		s.core.Slept(b.Slept)
	}
	if s.log == nil || !op.Kind.Records() && !s.core.RecordsTimers() {
		s.core.Apply(b.Now, op, r)
		return
	}
	s.begin(b)
	s.core.Apply(b.Now, op, r)
	s.wantsCommit = s.log.End() || s.wantsCommit
}

// mustBeOwned panics if the shard is free: then the caller does not own it.
func (s *Shard) mustBeOwned() {
	if s.own.Load() == 0 {
		s.isFree()
	}
}

//go:noinline
func (s *Shard) isFree() {
	panic(fmt.Sprintf("shard: shard %d is used or released by a caller that does not own it", s.Index))
}

// begin opens the log for records of the moment of b; the shard must be owned.
func (s *Shard) begin(b *Batch) {
	s.log.Begin()
	s.log.Buffer.Ahead = int64(b.Ahead)
}

// Record makes the shard record its changes to l. Call it before anything else, or right after a
// replay.
func (s *Shard) Record(l *commit.Log) {
	s.log = l
	s.core.RecordTo(&l.Buffer)
}

// Replay starts a replay into the shard, which is new.
func (s *Shard) Replay() *core.Replay { return s.core.Replay() }

// EachID calls f for every job's id; the shard must be owned or not shared.
func (s *Shard) EachID(f func(core.JobID)) { s.core.EachID(f) }

// Recopy records jobs again, and what other describes unless it is nil; see core.CopyJob and
// core.CopyOther. It waits for the shard and must not be called by an event loop.
func (s *Shard) Recopy(b *Batch, ids []uint64, after uint64, other *record.Record) {
	s.OwnPatiently(b)
	s.begin(b)
	for _, id := range ids {
		s.core.CopyJob(core.JobID(id), after)
	}
	if other != nil {
		s.core.CopyOther(other)
	}
	s.wantsCommit = s.log.End() || s.wantsCommit
	s.Release(b)
}

// NeedsCopy reports whether Recopy would record a job again; it waits as Recopy does.
func (s *Shard) NeedsCopy(b *Batch, id, after uint64) bool {
	s.OwnPatiently(b)
	defer s.Release(b)
	return s.core.NeedsCopy(core.JobID(id), after)
}

// Release runs the messages in the inbox, frees the shard, and delivers. It checks the inbox once
// more after the word is free, so no message stays unnoticed.
func (s *Shard) Release(b *Batch) {
	s.mustBeOwned()
	for first := true; ; first = false {
		ran := s.runInbox(b)
		if s.core.HasWoken() {
			old := len(b.woken)
			b.woken = s.core.TakeWoken(b.woken)
			for _, w := range b.woken[old:] {
				w.Msg.From = s.Index
			}
		}
		if s.core.HasMail() {
			b.mail = s.core.TakeMail(b.mail)
		}
		nudge := false
		next := s.core.Next()
		if next < s.wakeAt {
			s.wakeAt = next
			nudge = true
		}
		if int64(next) != s.due.Load() {
			s.due.Store(int64(next))
		}
		wake := s.wantsCommit
		s.wantsCommit = false
		s.own.Store(0)
		if wake {
			s.log.Request()
		}
		if !b.Defer {
			b.Deliver()
		}
		if ran == visitMax {
			nudge = true // the goroutine runs the rest
		}
		if nudge {
			s.Nudge()
		}
		// A message that was pushed while the word was ours is still there: its sender found the
		// shard owned and relies on this check. A sender that has not finished its push checks
		// the word afterwards.
		if ran == visitMax || !first && ran == 0 || s.inbox.Empty() || !s.Own(b) {
			return
		}
	}
}

// Send leaves m for the shard, which the caller found busy. If the shard has become free, Send
// runs the inbox itself. m comes back to its Home.
func (s *Shard) Send(b *Batch, m *core.Message) {
	b.Sent++
	for !s.inbox.Push(m) {
		// Full: the owner is emptying it, or we do.
		if s.Own(b) {
			s.Release(b)
		} else {
			yield()
		}
	}
	if s.Own(b) {
		s.Release(b)
	}
}

// expire runs due timers; the shard must be owned.
func (s *Shard) expire(b *Batch) {
	s.core.Slept(b.Slept)
	if s.log == nil || !s.core.RecordsTimers() {
		s.core.Expire(b.Now)
		return
	}
	s.begin(b)
	s.core.Expire(b.Now)
	s.wantsCommit = s.log.End() || s.wantsCommit
}

// SetSubmitOptions sets the options for submitted jobs; the shard must be owned, or not be shared
// yet.
func (s *Shard) SetSubmitOptions(o core.SubmitOptions) { s.core.SetSubmitOptions(o) }

// Used returns the jobs of a class of tubes, and the bytes of their bodies. Any goroutine may call it.
func (s *Shard) Used(class uint16) (jobs, bytes int64) { return s.core.Used(class) }

// InstallPolicies sets the policies of a shard that has no clients yet.
func (s *Shard) InstallPolicies(set *core.Policies) { s.core.InstallPolicies(set) }

// RecordedPolicies returns the set in the shard's records; nil: there is none. The shard must be
// owned.
func (s *Shard) RecordedPolicies() *core.Policies { return s.core.RecordedPolicies() }

// Classify gives tubes their classes and policies again, some at a time; the shard must be owned.
func (s *Shard) Classify(from int) (next int) { return s.core.Classify(from) }

// Catchup runs due timers that the goroutine has not run yet, so that the Mirrors are up to date.
// If nothing is due, it costs one atomic load. If the shard is busy, the owner runs the timers.
func (s *Shard) Catchup(b *Batch) {
	if core.Time(s.due.Load()) <= b.Now && s.Own(b) {
		s.expire(b)
		s.Release(b)
	}
}

// Readied returns the log of tubes that got a better ready job. Any goroutine may read it.
func (s *Shard) Readied() *core.ReadyLog { return s.readied }

// runInbox runs up to visitMax messages; the shard must be owned.
func (s *Shard) runInbox(b *Batch) (n int) {
	if s.inbox.Empty() {
		return 0
	}
	if depth := uint32(s.inbox.Len()); depth > s.deepest.Load() {
		s.deepest.Store(depth)
	}
	for n < visitMax && !s.inbox.Empty() {
		m, ok := s.inbox.Pop()
		if !ok {
			break
		}
		s.Apply(b, &m.Op, &m.Reply)
		m.From = s.Index
		m.KeepBody()
		b.out = append(b.out, m)
		n++
	}
	b.Helped += uint64(n)
	return n
}

// Counters are a shard's counters about itself. Visitors have further counters in their Batch.
type Counters struct {
	Deepest uint64 // maximum number of messages in the inbox
	Rounds  uint64 // turns of the goroutine
	Left    uint64 // messages that an owner left to the goroutine
}

// Counters returns the counters. Any goroutine may call it at any time.
func (s *Shard) Counters() Counters {
	return Counters{
		Deepest: uint64(s.deepest.Load()),
		Rounds:  s.rounds.Load(),
		Left:    s.left.Load(),
	}
}

// Counts returns the core's sums; the shard must be owned.
func (s *Shard) Counts() core.Counts { return s.core.Counts() }

// Close unmaps the core's memory. The shard must be stopped or never started, and must not be used
// afterwards.
func (s *Shard) Close() { s.core.Close() }

// Jobs walks all jobs, in no order; the shard must be owned or not shared.
func (s *Shard) Jobs() iter.Seq[core.JobView] { return s.core.Jobs() }

// Tubes walks all tubes; the shard must be owned or not shared.
func (s *Shard) Tubes() iter.Seq[core.TubeView] { return s.core.Tubes() }

// Clients walks all clients; the shard must be owned or not shared.
func (s *Shard) Clients() iter.Seq[core.ClientView] { return s.core.Clients() }

// Digest returns the core's Digest at the moment of b; the shard must be owned or not shared.
func (s *Shard) Digest(b *Batch) uint64 { return s.core.Digest(b.Now, b.Ahead) }
