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

// TestDue: the moment for Tick follows the earliest timer, and a nudge makes
// it now.
func TestDue(t *testing.T) {
	s := newTestShard(t, nil)
	b := &Batch{Now: 10 * core.Second, Home: newTestHome()}
	if s.Due() != core.Never {
		t.Errorf("an empty shard is due at %d", s.Due())
	}
	apply := func(op core.Op) {
		var r core.Reply
		s.Own(b)
		s.Apply(b, &op, &r)
		s.Release(b)
	}
	apply(put(1, 5, 1))
	if s.Due() != 0 {
		t.Errorf("due at %d, want a nudge", s.Due())
	}
	s.Tick(b)
	if s.Due() != 15*core.Second {
		t.Errorf("due at %d, want 15 s", s.Due())
	}
	b.Now += core.Second
	apply(put(2, 7, 1)) // later: no nudge
	if s.Due() != 15*core.Second {
		t.Errorf("due at %d, want 15 s still", s.Due())
	}
	b.Now += core.Second
	apply(put(3, 1, 1)) // earlier
	s.Tick(b)
	if s.Due() != 13*core.Second {
		t.Errorf("due at %d, want 13 s", s.Due())
	}
	b.Now = 20 * core.Second
	s.Tick(b)
	if n := s.Counts(); s.Due() != core.Never || n.Ready != 3 {
		t.Errorf("due at %d with %d jobs ready", s.Due(), n.Ready)
	}
	s.Own(b)
	if s.Tick(b) {
		t.Error("Tick took an owned shard")
	}
}

// TestGoroutineRunsTimers lets a delay, a time to run and a wait end by
// themselves, exactly when they are due.
func TestGoroutineRunsTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() core.Time { return core.Second + core.Time(time.Since(start)) }
		s := newTestShard(t, clock)
		s.Start()
		defer s.Stop()
		home := newTestHome()
		b := &Batch{Home: home}
		apply := func(op core.Op) (r core.Reply) {
			for !s.Own(b) {
				synctest.Wait()
			}
			b.Now = clock()
			s.Apply(b, &op, &r)
			s.Release(b)
			return r
		}
		w := &core.Waiter{}
		w.Msg.Home = newTestHome()
		woken := w.Msg.Home.(*testHome).posted
		cl := apply(core.Op{Kind: core.OpJoin, Name: []byte("default"), Waiter: w}).Client
		if st := apply(core.Op{Kind: core.OpReserve, Client: cl, Bound: core.MaxKey, Wait: true, Until: 11 * core.Second, Seq: w.Arm()}).Status; st != core.StatusWaiting {
			t.Fatalf("status %d", st)
		}
		apply(put(1, 3, 2))
		m := <-woken
		if at := clock(); at != 4*core.Second || m.Reply.Status != core.StatusReserved || m.Reply.ID != 1 {
			t.Errorf("at %d: status %d, job %d", at, m.Reply.Status, m.Reply.ID)
		}
		// The job runs out at 6 s; a wait hears of it a second before.
		apply(core.Op{Kind: core.OpReserve, Client: cl, Bound: core.MaxKey, Wait: true, Until: 11 * core.Second, Seq: w.Arm()})
		m = <-woken
		if at := clock(); at != 5*core.Second || m.Reply.Status != core.StatusDeadlineSoon {
			t.Errorf("at %d: status %d", at, m.Reply.Status)
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		var st core.JobStats
		apply(core.Op{Kind: core.OpStatsJob, ID: 1, Figures: core.Figures{JobStats: &st}})
		if st.State != core.Ready || st.Timeouts != 1 {
			t.Errorf("after its time to run: %v, %d timeouts", st.State, st.Timeouts)
		}
		apply(core.Op{Kind: core.OpDelete, ID: 1})
		apply(core.Op{Kind: core.OpReserve, Client: cl, Bound: core.MaxKey, Wait: true, Until: 11 * core.Second, Seq: w.Arm()})
		m = <-woken
		if at := clock(); at != 11*core.Second || m.Reply.Status != core.StatusTimedOut {
			t.Errorf("at %d: status %d", at, m.Reply.Status)
		}
	})
}

// TestGoroutineWaitsForTheOwner: a timer that comes due while the shard is
// owned runs once it is free.
func TestGoroutineWaitsForTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() core.Time { return core.Time(time.Since(start)) }
		s := newTestShard(t, clock)
		s.Start()
		b := &Batch{Home: newTestHome()}
		op, r := put(1, 1, 1), core.Reply{}
		synctest.Wait()
		s.Own(b)
		s.Apply(b, &op, &r)
		s.Release(b)
		synctest.Wait()
		if !s.Own(b) {
			t.Fatal("owned by a goroutine with nothing to do")
		}
		time.Sleep(3 * time.Second) // the owner is slow
		if n := s.Counts(); n.Delayed != 1 {
			t.Errorf("the goroutine touched an owned shard: %+v", n)
		}
		s.Release(b)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		s.Own(b)
		if n := s.Counts(); n.Ready != 1 {
			t.Errorf("the timer did not run: %+v", n)
		}
		s.Release(b)
		s.Stop()
	})
}

// TestNoMessageIsLost hammers few shards from many goroutines, with inboxes
// that overflow, and checks that each message comes home exactly once and
// that each operation ran exactly once.
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

// TestWakeUpsAcrossShards lets clients wait in two shards at once while
// producers feed both: each job is received once, and nobody waits at the end
// while there is a job.
func TestWakeUpsAcrossShards(t *testing.T) {
	const jobs, clients = 4000, 4
	start := time.Now()
	clock := func() core.Time { return core.Time(time.Since(start)) }
	all := []*Shard{newTestShard(t, clock), newTestShard(t, clock)}
	for _, s := range all {
		s.Start()
	}
	visit := func(s *Shard, b *Batch, op core.Op) (r core.Reply) {
		for !s.Own(b) {
			yield()
		}
		b.Now = clock()
		s.Apply(b, &op, &r)
		s.Release(b)
		return r
	}
	var got sync.Map
	var count atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			home := newTestHome()
			b := &Batch{Home: nobody{}}
			w := &core.Waiter{}
			w.Msg.Home = home
			ids := make([]core.ClientID, len(all))
			for i, s := range all {
				ids[i] = visit(s, b, core.Op{Kind: core.OpJoin, Name: []byte("default"), Waiter: w}).Client
			}
			take := func(id core.JobID) {
				if _, twice := got.LoadOrStore(id, true); twice {
					t.Errorf("job %d was given twice", id)
				}
				count.Add(1)
			}
			for {
				seq := w.ArmClosed()
				served := false
			round:
				for i, s := range all {
					r := visit(s, b, core.Op{Kind: core.OpReserve, Client: ids[i], Bound: core.MaxKey, Wait: true, Multi: true, Until: core.Never, Seq: seq})
					if r.Status == core.StatusReserved {
						take(r.ID)
						served = true
					}
					if r.Status != core.StatusWaiting {
						break
					}
				}
				if !served && !w.Open(seq) {
					w.Reset(seq)
					goto round
				}
				if !served {
					m := <-home.posted
					if m.Reply.Status != core.StatusReserved {
						t.Errorf("woken with status %d", m.Reply.Status)
					}
					take(m.Reply.ID)
					m.Done()
				}
				for i, s := range all {
					visit(s, b, core.Op{Kind: core.OpCancel, Client: ids[i]})
				}
				if count.Load() > jobs-clients {
					return // each client may be the last to get one
				}
			}
		})
	}
	for g := range 2 {
		wg.Go(func() {
			b := &Batch{Home: nobody{}}
			for i := g; i < jobs; i += 2 {
				visit(all[i/2%2], b, put(core.JobID(i+1), 0, 1000))
			}
		})
	}
	wg.Wait()
	left := uint64(0)
	for _, s := range all {
		s.Stop()
		left += s.Counts().Ready
	}
	if int64(left)+count.Load() != jobs {
		t.Errorf("%d jobs given, %d left, of %d", count.Load(), left, jobs)
	}
}

func TestStopEndsTheGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestShard(t, func() core.Time { return 0 })
		s.Start()
		s.Nudge()
		s.Stop() // the bubble fails if a goroutine is left
	})
}
