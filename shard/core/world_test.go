package core

import (
	"fmt"
	"slices"
	"testing"
)

// world is a core under test; Check runs after what it does.
type world struct {
	t         *testing.T
	core      *Core
	now       Time
	last      JobID
	dir       []string
	unchecked int // operations since the last Check
}

// peer is a connection.
type peer struct {
	*world
	id     ClientID
	tube   TubeID
	waiter *Waiter
}

func (w *world) TubeAdded(name string)      { w.dir = append(w.dir, "+"+name) }
func (w *world) ClassOf(name string) uint16 { return testClass(name) }
func (w *world) TubeRemoved(name string)    { w.dir = append(w.dir, "-"+name) }

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: 1_700_000_000 * Second}
	w.core = New(w)
	w.core.Pin("default")
	t.Cleanup(w.core.Close)
	return w
}

// join makes a connection that uses and watches a tube.
func (w *world) join(name string) *peer {
	w.t.Helper()
	p := &peer{world: w, waiter: new(Waiter)}
	r := w.do(Op{Kind: OpJoin, Name: []byte(name), Waiter: p.waiter}, StatusOK)
	p.id, p.tube = r.Client, r.Tube
	return p
}

func (w *world) do(op Op, want Status) Reply {
	w.t.Helper()
	var r Reply
	w.core.Apply(w.now, made(&op), &r)
	if r.Status != want {
		w.t.Fatalf("operation %d: status %d, want %d", op.Kind, r.Status, want)
	}
	// With thousands of jobs now and then is often enough.
	if w.unchecked++; w.unchecked >= max(len(w.core.tubes), w.core.jobs.Len())/4 {
		w.unchecked = 0
		w.check()
	}
	return r
}

func (w *world) check() {
	w.t.Helper()
	if err := w.core.Check(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pass(d Time) {
	w.t.Helper()
	w.now += d
	w.core.Expire(w.now)
	w.check()
}

// fill puts n jobs without a Check after each.
func (p *peer) fill(n int, pri, delay uint32) {
	p.t.Helper()
	for range n {
		p.last++
		var r Reply
		p.core.Apply(p.now, &Op{Kind: OpPut, Client: p.id, Tube: p.tube, ID: p.last, Pri: pri, Delay: delay, TTR: 10}, &r)
	}
	p.check()
}

func (p *peer) put(pri, delay, ttr uint32) JobID {
	p.t.Helper()
	p.last++
	body := fmt.Appendf(nil, "job %d", p.last)
	p.do(Op{Kind: OpPut, Client: p.id, Tube: p.tube, ID: p.last, Pri: pri, Delay: delay, TTR: ttr, Body: body}, StatusOK)
	return p.last
}

func (p *peer) reserve(want JobID) Reply {
	p.t.Helper()
	r := p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, StatusReserved)
	if r.ID != want {
		p.t.Fatalf("reserved job %d, want %d", r.ID, want)
	}
	return r
}

func (p *peer) nothing() {
	p.t.Helper()
	p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, StatusTimedOut)
}

// wait begins a wait that has to wait.
func (p *peer) wait(until Time) uint64 {
	p.t.Helper()
	seq := p.waiter.Arm()
	p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey, Wait: true, Until: until, Seq: seq}, StatusWaiting)
	return seq
}

func (p *peer) on(kind opKind, id JobID, want Status) {
	p.t.Helper()
	p.do(Op{Kind: kind, Client: p.id, ID: id}, want)
}

func (p *peer) release(id JobID, pri, delay uint32) {
	p.t.Helper()
	p.do(Op{Kind: OpRelease, Client: p.id, ID: id, Pri: pri, Delay: delay}, StatusOK)
}

func (p *peer) kick(n uint32) uint32 {
	p.t.Helper()
	return p.do(Op{Kind: OpKick, Tube: p.tube, N: n}, StatusOK).N
}

func (w *world) pause(name string, seconds uint32) {
	w.t.Helper()
	w.do(Op{Kind: OpPause, Name: []byte(name), Delay: seconds}, StatusOK)
}

func (w *world) stats(id JobID) JobStats {
	w.t.Helper()
	var s JobStats
	w.do(Op{Kind: OpStatsJob, ID: id, Figures: Figures{JobStats: &s}}, StatusOK)
	return s
}

func (w *world) isIn(id JobID, want State) {
	w.t.Helper()
	if s := w.stats(id); s.State != want {
		w.t.Fatalf("job %d is %s, want %s", id, s.State, want)
	}
}

// wakes takes the wake-ups and wants exactly these, in order.
func (w *world) wakes(want ...string) {
	w.t.Helper()
	var got []string
	for _, x := range w.core.TakeWoken(nil) {
		r := x.Msg.Reply
		got = append(got, fmt.Sprintf("%d: status %d job %d %q", r.Client, r.Status, r.ID, r.Body))
		x.Msg.Done()
	}
	if !slices.Equal(got, want) {
		w.t.Fatalf("woken: %q, want %q", got, want)
	}
}
