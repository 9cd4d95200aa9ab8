package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"polystalk/shard/slab"
)

// A functionWorld is a world that gives out ids and hears of jobs that end.
type functionWorld struct {
	*world
	ended map[JobID]int
}

func (w *functionWorld) NextID() JobID        { w.last++; return w.last }
func (w *functionWorld) JobFinished(id JobID) { w.ended[id]++ }

func newFunctionWorld(t *testing.T, o SubmitOptions) *functionWorld {
	w := &functionWorld{world: newWorld(t), ended: map[JobID]int{}}
	w.core.ended = w.JobFinished
	w.core.SetSubmitOptions(o)
	return w
}

// A functionPeer is a Gearman session.
type functionPeer struct {
	*functionWorld
	id       ClientID
	mail     Mail
	function FunctionOp
}

func (w *functionWorld) session() *functionPeer {
	p := &functionPeer{functionWorld: w}
	p.function.Mail, p.function.Numbers = &p.mail, w
	return p
}

func (p *functionPeer) op(op Op, want Status) Reply {
	p.t.Helper()
	op.Function = &p.function
	op.Client = p.id
	r := p.do(op, want)
	p.id = r.Client
	return r
}

// submit wants a job with that id.
func (p *functionPeer) submit(function, unique, body string, pri uint32, background bool, want JobID) {
	p.t.Helper()
	p.function.setUnique([]byte(unique))
	p.function.ByBody = unique == "-"
	p.function.Background = background
	r := p.op(Op{Kind: opSubmit, Name: []byte(function), Pri: pri, Body: []byte(body)}, StatusOK)
	if r.ID != want {
		p.t.Fatalf("job %d, want %d", r.ID, want)
	}
	p.function.Due = 0
}

func (p *functionPeer) able(function string, timeout Time) TubeID {
	p.t.Helper()
	p.function.Timeout = timeout
	return p.op(Op{Kind: opRegister, Name: []byte(function)}, StatusOK).Tube
}

// grab wants the jobs with these ids, in this order; zero: none.
func (p *functionPeer) grab(tube TubeID, want ...JobID) {
	p.t.Helper()
	for _, id := range want {
		status := StatusReserved
		if id == 0 {
			status = StatusTimedOut
		}
		if r := p.op(Op{Kind: opGrab, Tube: tube, Bound: MaxKey}, status); r.ID != id {
			p.t.Fatalf("grabbed %d, want %d of %d", r.ID, id, want)
		}
	}
}

func (p *functionPeer) report(id JobID, k RelayKind, body string, want Status) {
	p.t.Helper()
	p.function.Relay = k
	p.op(Op{Kind: opReport, ID: id, Body: []byte(body)}, want)
}

func (p *functionPeer) close() {
	p.t.Helper()
	if p.id != 0 {
		p.op(Op{Kind: OpClose}, StatusOK)
	}
}

// hears wants exactly these relays, and "noop" first if it was told of a job.
func (p *functionPeer) hears(want ...string) {
	p.t.Helper()
	var got []string
	p.core.TakeMail(nil)
	if p.mail.Told() {
		got = append(got, "noop")
	}
	for r := p.mail.Take(); r != nil; r = r.Next {
		got = append(got, fmt.Sprintf("%d*%d:%d:%s", r.Kind, r.Copies, r.Job, r.Large.Append(r.Body)))
	}
	if !slices.Equal(got, want) {
		p.t.Fatalf("heard %q, want %q", got, want)
	}
}

func (w *functionWorld) isOver(ids ...JobID) {
	w.t.Helper()
	for _, id := range ids {
		if i, _, _ := w.core.find(id); i != 0 || w.ended[id] != 1 {
			w.t.Fatalf("job %d: record %d, ended %d times", id, i, w.ended[id])
		}
	}
}

func TestLostJobGoesBehindThoseThatWait(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	p, q := w.session(), w.session()
	f := p.able("f", 0)
	for i := range JobID(3) {
		q.submit("f", "", "x", 1024, true, i+1)
	}
	p.grab(f, 1, 2)
	p.close() // loses 1, then 2
	q.submit("f", "", "x", 1024, true, 4)
	q.able("f", 0)
	q.grab(f, 3, 1, 2, 4, 0)
	q.op(Op{Kind: opUnregister, Tube: f}, StatusOK)
	q.report(1, RelayDone, "", StatusNotFound)
	q.submit("f", "", "x", 0, true, 5)
	q.able("f", 0)
	q.grab(f, 5, 3, 1, 2, 4)
}

func TestLargeBodiesJoin(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	p := w.session()
	p.function.setUnique([]byte("-"))
	p.function.ByBody, p.function.Background = true, true
	whole := strings.Repeat("abc", slab.MaxSize)
	submit := func(want JobID, text string, cuts ...int) {
		t.Helper()
		var l Large
		at := 0
		for _, cut := range append(cuts, len(text)) {
			l = append(l, []byte(text[at:cut]))
			at = cut
		}
		if r := p.op(Op{Kind: opSubmit, Name: []byte("f"), Large: l}, StatusOK); r.ID != want {
			t.Fatalf("job %d, want %d", r.ID, want)
		}
	}
	submit(1, whole)
	submit(1, whole, 1, 1, 70000)
	submit(2, whole[:len(whole)-1]+"x", 500)
	submit(1, whole, 0, 9)
}

func TestBeanstalkdWorkerOfASubmittedJob(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	c := w.session()
	b := w.join("f")
	c.submit("f", "deleted", "x", 1024, false, 1)
	c.submit("f", "buried", "x", 1024, false, 2)
	c.submit("f", "unheld", "x", 1024, false, 3)
	b.reserve(1)
	b.reserve(2)
	if s := w.stats(2); s.TTR != noTTR {
		t.Errorf("ttr %d", s.TTR)
	}
	b.on(OpDelete, 1, StatusOK)
	b.on(OpBury, 2, StatusOK)
	b.on(OpDelete, 3, StatusOK)
	c.hears(fmt.Sprintf("%d*1:1:", RelayDone), fmt.Sprintf("%d*1:2:", RelayFailed), fmt.Sprintf("%d*1:3:", RelayFailed))
	c.submit("f", "buried", "x", 1024, false, 4)
	c.close()
	w.isOver(4)
	w.isIn(2, Buried)
	if n := b.kick(1); n != 1 {
		t.Fatal(n)
	}
	b.reserve(2)
	b.release(2, 1024, 0)
	b.reserve(2)
}

func TestGearmanWorkerOfAPutJob(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{Retries: 1})
	b := w.join("f")
	p := w.session()
	f := p.able("f", 0)
	b.put(1024, 0, 2)
	b.put(1024, 0, 2)
	p.grab(f, 1, 2)
	w.pass(2 * Second)
	w.isIn(1, Ready)
	p.grab(f, 1, 2)
	p.report(1, RelayFailed, "", StatusOK)
	w.isIn(1, Buried)
	p.report(2, RelayDone, "", StatusOK)
	w.isOver(2)
}

func TestFailedBackgroundJobIsKept(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{BuryFailed: true})
	c, p := w.session(), w.session()
	f := p.able("f", 0)
	c.submit("f", "u", "x", 1024, true, 1)
	c.submit("f", "u", "x", 1024, false, 1)
	p.grab(f, 1)
	p.report(1, RelayException, "e", StatusOK)
	c.hears(fmt.Sprintf("%d*1:1:e", RelayException))
	w.isIn(1, Buried)
	c.submit("f", "u", "x", 1024, false, 2)
	p.grab(f, 2)
	p.report(2, RelayFailed, "", StatusOK)
	w.isOver(2)
}

// A job that has lost its worker once too often has failed as well.
func TestJobLostTooOftenIsKept(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{BuryFailed: true, Retries: 1})
	c, p := w.session(), w.session()
	f := p.able("f", 0)
	c.submit("f", "u", "x", 1024, true, 1)
	c.submit("f", "u", "x", 1024, false, 1)
	c.submit("f", "v", "x", 1024, false, 2)
	p.grab(f, 1)
	p.grab(f, 2)
	p.op(Op{Kind: OpClose}, StatusOK)
	c.hears(fmt.Sprintf("%d*1:1:", RelayFailed), fmt.Sprintf("%d*1:2:", RelayFailed))
	w.isIn(1, Buried)
	w.isOver(2)
}

// sleeper returns a session that sleeps until there is a job of the function f.
func (w *functionWorld) sleeper() *functionPeer {
	p := w.session()
	p.able("f", 0)
	p.function.Sleepers.Add(1)
	p.mail.Sleep()
	return p
}

func TestWakeupTellsInTurn(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{Wakeup: 2})
	c := w.session()
	var all []*functionPeer
	join := func() { all = append(all, w.sleeper()) }
	told := func(want ...int) {
		t.Helper()
		c.submit("f", "", "x", 1024, true, w.core.lastID+1)
		for i, p := range all {
			if slices.Contains(want, i) {
				p.hears("noop")
			} else {
				p.hears()
			}
		}
	}
	for range 5 {
		join()
	}
	told(0, 1)
	told(2, 3)
	told(4)
	for _, p := range all {
		p.mail.Wake()
		p.mail.Sleep()
	}
	told(4, 0)
	all[0].mail.Wake()
	all[0].mail.Sleep()
	join() // has its turn last
	told(1, 2)
	all[3].close() // it was next
	all = slices.Delete(all, 3, 4)
	told(0, 4)
}

// With --gearman-wakeup, a worker that was told may leave before it asks: then others are told.
func TestWakeupOfAWorkerThatLeaves(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{Wakeup: 1})
	c := w.session()
	all := []*functionPeer{w.sleeper(), w.sleeper(), w.sleeper()}
	f := w.core.findTube([]byte("f")).id
	c.submit("f", "", "x", 1024, true, 1)
	all[0].hears("noop")
	all[0].close()
	all[1].hears("noop")
	all[1].op(Op{Kind: opUnregister, Tube: f}, StatusOK)
	all[2].hears("noop")
	all[2].grab(f, 1)
}

// A pause holds up many jobs; at its end as many are told as if they came then.
func TestWakeupAfterAPause(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{Wakeup: 1})
	c := w.session()
	all := []*functionPeer{w.sleeper(), w.sleeper(), w.sleeper(), w.sleeper()}
	w.pause("f", 10)
	for id := range JobID(3) {
		c.submit("f", "", "x", 1024, true, id+1)
	}
	w.pass(10 * Second)
	for _, p := range all[:3] {
		p.hears("noop")
	}
	all[3].hears()
}
