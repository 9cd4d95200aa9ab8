package shard

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"polystalk/shard/core"
)

// A testHome is an event loop's side: what is posted to it.
type testHome struct{ posted chan *core.Message }

func newTestHome() *testHome { return &testHome{make(chan *core.Message, 4*inboxSize)} }

func (h *testHome) Post(m *core.Message) { h.posted <- m }

// put is an operation that adds a job to the tube "default", which is pinned.
func put(id core.JobID, delay, ttr uint32) core.Op {
	return core.Op{Kind: core.OpPut, Tube: 1, ID: id, Delay: delay, TTR: ttr, Body: []byte("x")}
}

func newTestShard(t testing.TB, clock func() core.Time) *Shard {
	core := core.New(nil)
	core.Pin("default")
	t.Cleanup(core.Close)
	return New(3, core, func(b *Batch) { b.Now = clock() })
}

// TestBusyShardAnswersThroughTheInbox: a message sent to an owned shard is run
// by its owner, once, in order, and posted to its home.
func TestBusyShardAnswersThroughTheInbox(t *testing.T) {
	s := newTestShard(t, nil)
	home := newTestHome()
	owner, sender := &Batch{Now: 1, Home: newTestHome()}, &Batch{Now: 1, Home: home}
	if !s.Own(owner) || s.Own(sender) {
		t.Fatal("ownership is not exclusive")
	}
	for i := range 5 {
		op := put(core.JobID(i+1), 0, 1)
		s.Send(sender, &core.Message{Op: op, Home: home})
	}
	if len(home.posted) != 0 || len(sender.Local) != 0 {
		t.Fatal("answered while owned")
	}
	s.Release(owner)
	for i := range 5 {
		m := <-home.posted
		if m.Op.ID != core.JobID(i+1) || m.Reply.Status != core.StatusOK || m.From != 3 {
			t.Errorf("message %d: job %d, status %d, from %d", i, m.Op.ID, m.Reply.Status, m.From)
		}
	}
	if owner.Helped != 5 || sender.Busy != 6 {
		t.Errorf("helped %d, found busy %d times", owner.Helped, sender.Busy)
	}
	if n := s.Counts().Ready; n != 5 {
		t.Errorf("%d jobs", n)
	}
}

// TestOwnMessagesStayLocal: an owner that runs its own message takes it home.
func TestOwnMessagesStayLocal(t *testing.T) {
	s := newTestShard(t, nil)
	home := newTestHome()
	b := &Batch{Now: 1, Home: home}
	s.Send(b, &core.Message{Op: put(1, 0, 1), Home: home})
	if len(b.Local) != 1 || b.Local[0].Op.ID != 1 || len(home.posted) != 0 {
		t.Fatalf("%d local, %d posted", len(b.Local), len(home.posted))
	}
	if s.own.Load() != 0 {
		t.Error("still owned")
	}
}

// TestUseWithoutOwningPanics: so does a second release, unless somebody else owns the shard
// by then.
func TestUseWithoutOwningPanics(t *testing.T) {
	s := newTestShard(t, nil)
	b := &Batch{Now: 1, Home: newTestHome()}
	op := put(1, 0, 1)
	for what, use := range map[string]func(){
		"an operation": func() { s.Apply(b, &op, new(core.Reply)) },
		"a release":    func() { s.Release(b) },
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "shard: shard 3 ") {
					t.Errorf("%s without owning the shard: %v", what, r)
				}
			}()
			use()
		}()
	}
}

// A pushingHome leaves a message in an inbox when it hears of another, at the
// moment when a sender that found the shard owned may.
type pushingHome struct {
	*testHome
	s    *Shard
	late *core.Message
}

func (h *pushingHome) Post(m *core.Message) {
	if h.late != nil {
		late := h.late
		h.late = nil
		h.s.inbox.Push(late)
	}
	h.testHome.Post(m)
}

// TestOwnerLooksOnceMore: a message that came after the owner's drain, from a sender that found
// the shard owned, is not left behind.
func TestOwnerLooksOnceMore(t *testing.T) {
	s := newTestShard(t, nil)
	home := &pushingHome{newTestHome(), s, nil}
	home.late = &core.Message{Op: put(2, 0, 1), Home: home}
	owner, sender := &Batch{Now: 1, Home: newTestHome()}, &Batch{Now: 1, Home: home}
	s.Own(owner)
	s.Send(sender, &core.Message{Op: put(1, 0, 1), Home: home})
	s.Release(owner)
	if n := len(home.posted); n != 2 || s.Counts().Ready != 2 || s.own.Load() != 0 {
		t.Errorf("%d messages answered of 2", n)
	}
}

// TestVisitIsBounded: an owner leaves a long inbox to the goroutine.
func TestVisitIsBounded(t *testing.T) {
	s := newTestShard(t, nil)
	home := newTestHome()
	owner, sender := &Batch{Now: 1, Home: newTestHome()}, &Batch{Now: 1, Home: home}
	s.Own(owner)
	for i := range 2*visitMax + 1 {
		s.Send(sender, &core.Message{Op: put(core.JobID(i+1), 0, 1), Home: home})
	}
	s.Release(owner)
	if n := len(home.posted); n != visitMax {
		t.Errorf("%d messages in one visit, want %d", n, visitMax)
	}
	for s.Due() == 0 {
		if !s.Tick(owner) {
			t.Fatal("owned")
		}
	}
	if n := len(home.posted); n != 2*visitMax+1 {
		t.Errorf("%d messages run in the end", n)
	}
}

// run applies op for b, which waits for the shard.
func run(s *Shard, b *Batch, op core.Op) (r core.Reply) {
	s.OwnPatiently(b)
	s.Apply(b, &op, &r)
	s.Release(b)
	return r
}

// TestDueFollowsTheEarliestTimer: an earlier one nudges the goroutine, a later one does not.
func TestDueFollowsTheEarliestTimer(t *testing.T) {
	s := newTestShard(t, nil)
	b := &Batch{Now: 10 * core.Second, Home: newTestHome()}
	for _, step := range []struct {
		what  string
		do    func()
		due   core.Time
		ready uint64
	}{
		{"an empty shard", func() {}, core.Never, 0},
		{"a delay of 5 s", func() { run(s, b, put(1, 5, 1)) }, 0, 0},
		{"a round", func() { s.Tick(b) }, 15 * core.Second, 0},
		{"a later one", func() { b.Now += core.Second; run(s, b, put(2, 7, 1)) }, 15 * core.Second, 0},
		{"an earlier one", func() { b.Now += core.Second; run(s, b, put(3, 1, 1)) }, 0, 0},
		{"another round", func() { s.Tick(b) }, 13 * core.Second, 0},
		{"a late round", func() { b.Now = 20 * core.Second; s.Tick(b) }, core.Never, 3},
	} {
		if step.do(); s.Due() != step.due || s.Counts().Ready != step.ready {
			t.Errorf("after %s it is due at %d, with %d jobs ready", step.what, s.Due(), s.Counts().Ready)
		}
	}
	if s.Own(b); s.Tick(b) {
		t.Error("Tick took an owned shard")
	}
}

// TestGoroutineRunsTimers exactly when they are due, or once the shard is free; and Stop ends it.
func TestGoroutineRunsTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble fails if a goroutine is left
		start := time.Now()
		clock := func() core.Time { return core.Second + core.Time(time.Since(start)) }
		s := newTestShard(t, clock)
		s.Start()
		b, home := &Batch{Home: newTestHome()}, newTestHome()
		w := &core.Waiter{}
		w.Msg.Home = home
		b.Now = clock()
		cl := run(s, b, core.Op{Kind: core.OpJoin, Name: []byte("default"), Waiter: w}).Client
		run(s, b, core.Op{Kind: core.OpReserve, Client: cl, Bound: core.MaxKey, Wait: true, Until: core.Never, Seq: w.Arm()})
		run(s, b, put(1, 3, 2))
		m := <-home.posted
		if at := clock(); at != 4*core.Second || m.Reply.Status != core.StatusReserved || m.Reply.ID != 1 {
			t.Errorf("at %d: status %d, job %d", at, m.Reply.Status, m.Reply.ID)
		}
		synctest.Wait()
		if !s.Own(b) {
			t.Fatal("owned by a goroutine with nothing to do")
		}
		time.Sleep(4 * time.Second) // the owner is slow
		if n := s.Counts(); n.Reserved != 1 {
			t.Errorf("the goroutine touched an owned shard: %+v", n)
		}
		s.Release(b)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		s.Own(b)
		if n := s.Counts(); n.Ready != 1 || n.Timeouts != 1 {
			t.Errorf("the time to run did not end: %+v", n)
		}
		s.Release(b)
		s.Nudge()
		s.Stop()
	})
}

// TestNoMessageIsLost hammers few shards from many goroutines, with inboxes that overflow, and
// checks that each message comes home exactly once and that each operation ran exactly once.
func TestNoMessageIsLost(t *testing.T) {
	const shards, loops = 2, 8
	const rounds = 60
	start := time.Now()
	clock := func() core.Time { return core.Time(time.Since(start)) }
	var all []*Shard
	for range shards {
		s := newTestShard(t, clock)
		s.Start()
		all = append(all, s)
	}
	var last atomic.Uint64
	var wg sync.WaitGroup
	var inPlace, byMail atomic.Int64
	for g := range loops {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			home := newTestHome()
			b := &Batch{Home: home}
			var idle []*core.Message
			for range inboxSize {
				idle = append(idle, &core.Message{Home: home, Owner: home})
			}
			for range rounds {
				out := make(map[*core.Message]core.JobID)
				for range 1 + rng.IntN(inboxSize-1) {
					s := all[rng.IntN(shards)]
					id := core.JobID(last.Add(1))
					b.Now = clock()
					op := put(id, uint32(rng.IntN(2)*100), 1)
					if rng.IntN(2) == 0 && s.Own(b) {
						var r core.Reply
						s.Apply(b, &op, &r)
						op = core.Op{Kind: core.OpPeek, ID: id}
						s.Apply(b, &op, &r)
						if r.Status != core.StatusFound || r.ID != id {
							t.Errorf("job %d put and not found: status %d, job %d", id, r.Status, r.ID)
						}
						s.Release(b)
						inPlace.Add(1)
						continue
					}
					m := idle[len(idle)-1]
					idle = idle[:len(idle)-1]
					m.Op = op
					m.Op.Body = fmt.Appendf(nil, "body %d", id)
					out[m] = id
					s.Send(b, m)
				}
				byMail.Add(int64(len(out)))
				take := func(m *core.Message) {
					if id, sent := out[m]; !sent || m.Op.ID != id || m.Reply.Status != core.StatusOK {
						t.Errorf("a message for job %d came: sent as %d (%v), status %d", m.Op.ID, id, sent, m.Reply.Status)
					}
					delete(out, m)
					m.Done()
					idle = append(idle, m)
				}
				for len(out) > 0 {
					for _, m := range b.Local {
						take(m)
					}
					b.Local = b.Local[:0]
					if len(out) == 0 {
						break
					}
					take(<-home.posted)
				}
			}
		})
	}
	wg.Wait()
	jobs := uint64(0)
	for _, s := range all {
		s.Stop()
		if s.own.Load() != 0 || !s.inbox.Empty() {
			t.Error("a shard is owned or its inbox is not empty at the end")
		}
		jobs += s.Counts().Total
	}
	if jobs != last.Load() {
		t.Errorf("%d jobs of %d puts", jobs, last.Load())
	}
	if inPlace.Load() == 0 || byMail.Load() == 0 {
		t.Errorf("%d operations in place, %d by message: one way was not tried", inPlace.Load(), byMail.Load())
	}
}

// TestFullInboxMakesSendersHelp: senders that meet a full inbox go on once the
// shard is free, and empty it themselves. There is no goroutine here to do it.
func TestFullInboxMakesSendersHelp(t *testing.T) {
	s := newTestShard(t, nil)
	owner := &Batch{Now: 1, Home: newTestHome()}
	s.Own(owner)
	const senders = inboxSize + 8
	var wg sync.WaitGroup
	var done atomic.Int64
	for i := range senders {
		wg.Go(func() {
			home := newTestHome()
			b := &Batch{Now: 1, Home: home}
			s.Send(b, &core.Message{Op: put(core.JobID(i+1), 0, 1), Home: home})
			done.Add(1)
		})
	}
	for done.Load() < inboxSize {
		yield()
	}
	if n := s.inbox.Len(); n != inboxSize {
		t.Errorf("%d messages in the inbox, want %d", n, inboxSize)
	}
	s.Release(owner)
	wg.Wait()
	for s.Due() == 0 {
		s.Tick(owner)
	}
	if n := s.Counts().Total; n != senders || !s.inbox.Empty() {
		t.Errorf("%d of %d messages run", n, senders)
	}
}
