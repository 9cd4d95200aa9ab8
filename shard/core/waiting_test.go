package core

import "testing"

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
