package core

import "testing"

func TestReleaseWithDelayWaits(t *testing.T) {
	p := newWorld(t).join("default")
	id := p.put(5, 0, 10)
	p.reserve(id)
	p.release(id, 3, 4)
	p.nothing()
	if s := p.stats(id); s.State != Delayed || s.Pri != 3 || s.Delay != 4 || s.TimeLeft != 4*Second || s.Releases != 1 {
		t.Errorf("%+v", s)
	}
	p.pass(4*Second - 1)
	p.isIn(id, Delayed)
	p.pass(1)
	p.isIn(id, Ready)
	p.reserve(id)
}

func TestTTRRunsOut(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("default")
	id := p.put(5, 0, 3)
	p.reserve(id)
	q.wait(Never)
	w.pass(3*Second - 1)
	w.wakes()
	w.pass(1)
	w.wakes(q.gets(id))
	if s := w.stats(id); s.Timeouts != 1 || s.Reserves != 2 || s.Pri != 5 || w.core.Counts().Timeouts != 1 {
		t.Errorf("%+v", s)
	}
	p.on(OpDelete, id, StatusNotFound)
	q.on(OpDelete, id, StatusOK)
}

func TestTouchRestartsTTR(t *testing.T) {
	p := newWorld(t).join("default")
	id := p.put(5, 0, 3)
	p.reserve(id)
	for range 5 {
		p.pass(2 * Second)
		p.on(OpTouch, id, StatusOK)
	}
	p.isIn(id, Reserved)
	p.pass(3 * Second)
	p.isIn(id, Ready)
	p.on(OpTouch, id, StatusNotFound)
}

func TestDeadlineSoonWakesWaiter(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	id := p.put(5, 0, 5)
	p.reserve(id)
	p.wait(Never)
	w.pass(4*Second - 1)
	w.wakes()
	w.pass(1)
	w.wakes(p.hears(StatusDeadlineSoon))
	p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, StatusDeadlineSoon)
	p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey, Wait: true, Until: Never, Seq: p.waiter.Arm()}, StatusDeadlineSoon)
	other := p.put(9, 0, 5)
	p.reserve(other) // a ready job comes before the warning
	p.on(OpTouch, id, StatusOK)
	p.wait(w.now + Second)
	w.pass(Second)
	w.wakes(p.hears(StatusTimedOut))
}

// A wait and a margin in the past come in the order of their times, however
// late Expire runs.
func TestLateExpireKeepsTheOrderOfTime(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("a"), w.join("b")
	// An early timer that has lost its reason must not let the wait go first.
	gone := q.put(0, 1, 10)
	p.wait(w.now + 5*Second)
	q.on(OpDelete, gone, StatusOK)
	r := w.join("a")
	id := r.put(0, 4, 10)
	s := w.join("c")
	s.wait(w.now + 3*Second)
	w.pass(60 * Second)
	w.wakes(s.hears(StatusTimedOut), p.gets(id))
	// At the same moment the job comes before the end of the wait.
	id = r.put(0, 2, 10)
	p.on(OpReturn, 0, StatusOK)
	p.reserve(id - 1)
	p.on(OpDelete, id-1, StatusOK)
	p.wait(w.now + 2*Second)
	w.pass(2 * Second)
	w.wakes(p.gets(id))
}

func TestWaitersAreServedFirstComeFirstServed(t *testing.T) {
	w := newWorld(t)
	var queue []*peer
	for range 5 {
		p := w.join("default")
		p.wait(Never)
		queue = append(queue, p)
	}
	queue[1].on(OpCancel, 0, StatusOK)
	queue[3].on(OpClose, 0, StatusOK)
	q := w.join("default")
	q.put(9, 0, 10)
	q.put(1, 0, 10)
	q.put(5, 0, 10)
	w.wakes(queue[0].gets(1), queue[2].gets(2), queue[4].gets(3))
	q.put(0, 0, 10)
	w.wakes()
}

func TestWaitServedElsewhereIsSkipped(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("default")
	p.do(Op{Kind: OpWatch, Client: p.id, Name: []byte("other")}, StatusOK)
	seq := p.wait(Never)
	q.wait(Never)
	p.waiter.Claim(seq)
	id := q.put(5, 0, 10)
	w.wakes(q.gets(id))
	// The session of p goes on before its cancel has come.
	seq = p.wait(Never)
	p.waiter.Claim(seq)
	p.do(Op{Kind: OpWatch, Client: p.id, Name: []byte("third")}, StatusOK)
	p.wait(Never)
	id = q.put(5, 0, 10)
	w.wakes(p.gets(id))
}

func TestPauseHoldsBackReserveOnly(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("default")
	id := p.put(5, 0, 10)
	w.pause("default", 3)
	p.nothing()
	p.do(Op{Kind: OpReserveJob, Client: p.id, ID: id}, StatusReserved)
	p.release(id, 5, 0)
	q.wait(Never)
	w.pass(3*Second - 1)
	w.wakes()
	w.pass(1)
	w.wakes(q.gets(id))
	w.do(Op{Kind: OpPause, Name: []byte("no such"), Delay: 1}, StatusNotFound)
}

func TestPauseZeroServesWaiters(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	w.pause("default", 1000)
	id := p.put(5, 0, 10)
	p.wait(Never)
	w.wakes()
	w.pause("default", 0)
	w.wakes(p.gets(id))
	var s TubeStats
	w.do(Op{Kind: OpStatsTube, Name: []byte("default"), Figures: Figures{TubeStats: &s}}, StatusOK)
	if s.Pauses != 2 || s.Pause != 0 || s.PauseLeft != 0 {
		t.Errorf("%+v", s)
	}
}

func TestLongerPauseReplacesShorterOne(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	id := p.put(5, 0, 10)
	w.pause("default", 1)
	w.pause("default", 5)
	w.pass(4 * Second)
	p.nothing()
	w.pass(Second)
	p.reserve(id)
}

func TestExpireIsBounded(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("held")
	p.fill(expireMax+500, 5, 9)
	q.fill(expireMax, 5, 0) // TTR 10 s
	w.now -= Second         // their deadlines are before the delays' ends
	for range expireMax {
		var r Reply
		w.core.Apply(w.now, &Op{Kind: OpReserve, Client: q.id, Bound: MaxKey}, &r)
	}
	w.pass(100 * Second)
	visits := 1
	for ; w.core.Next() <= w.now; visits++ {
		before := w.core.Counts().Ready
		w.pass(0)
		if n := w.core.Counts().Ready - before; n > expireMax {
			t.Fatalf("%d jobs in one visit", n)
		}
		if visits > 10 {
			t.Fatal("Expire makes no progress")
		}
	}
	if n := w.core.Counts(); n.Ready != 2*expireMax+500 || n.Reserved+n.Delayed != 0 || n.Timeouts != expireMax || visits < 3 {
		t.Errorf("%+v after %d visits", n, visits)
	}
}

// While Expire is behind, no figure is negative.
func TestTimeLeftIsNeverNegative(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	p.fill(2*expireMax, 5, 1)
	w.pause("default", 2)
	w.now += 5 * Second
	if s := w.stats(p.last); s.State != Delayed || s.TimeLeft != 0 {
		t.Errorf("%+v", s)
	}
	q := w.join("late")
	q.fill(2*expireMax, 5, 1)
	w.pause("late", 2)
	w.now += 5 * Second
	var s TubeStats
	w.do(Op{Kind: OpStatsTube, Name: []byte("late"), Figures: Figures{TubeStats: &s}}, StatusOK)
	if s.PauseLeft < 0 {
		t.Errorf("%+v", s)
	}
}

func TestClockSteppingBackStandsStill(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	id := p.put(5, 5, 10)
	w.now -= 1000 * Second
	if s := w.stats(id); s.Age != 0 || s.TimeLeft != 5*Second {
		t.Errorf("%+v", s)
	}
	held := p.put(0, 0, 3)
	p.reserve(held)
	w.pass(1000 * Second)
	w.isIn(held, Reserved)
	w.pass(3 * Second)
	w.isIn(held, Ready)
	w.pass(2 * Second)
	w.isIn(id, Ready)
}

func TestWokenBodyOutlivesTheJob(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	p.wait(Never)
	id := p.put(5, 0, 10)
	woken := w.core.TakeWoken(nil)
	p.on(OpDelete, id, StatusOK)
	p.last += 10
	p.put(5, 0, 10) // takes the slot
	if got := string(woken[0].Msg.Reply.Body); got != "job 1" {
		t.Errorf("body %q", got)
	}
	woken[0].Msg.Done()
}

func TestDelaysOfOneMomentKeepTheirOrder(t *testing.T) {
	p := newWorld(t).join("default")
	older := p.put(5, 0, 10)
	p.reserve(older)
	first := p.put(5, 7, 10)
	p.release(older, 5, 7)
	r := p.do(Op{Kind: OpPeekDelayed, Tube: p.tube}, StatusFound)
	if r.ID != first {
		t.Errorf("job %d is due first, want %d, whose delay was set first", r.ID, first)
	}
}
