package router_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"polystalk/router"
	"polystalk/router/session"
	"polystalk/shard/wal"
)

// callbackMax bounds the work of one callback of the event loop, for any input: both halves of a
// round, the debt of each, and one more turn; in commands, which cost at least a unit.
const callbackMax = 2*(roundUnits/2+debtUnits) + roundUnits

// commands returns how many commands the loop has run.
func (f *fixture) commands() (n int) {
	for _, k := range f.d.Server.Host().Sums().Commands {
		n += int(k)
	}
	return n
}

// bounded calls f, which is one callback, and fails if it runs too many commands.
func (f *fixture) bounded(what string, call func()) {
	f.t.Helper()
	before := f.commands()
	call()
	if n := f.commands() - before; n > callbackMax {
		f.t.Fatalf("%s: %d commands in one callback, want at most %d", what, n, callbackMax)
	}
}

// TestWakingEachOtherHasAnEnd: sessions that wake each other do not block their loop. Deliveries
// count as work of the callback, which is bounded. Another client is served between any two
// callbacks.
func TestWakingEachOtherHasAnEnd(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	const pairs, times = 20, 600
	var conns []*testConn
	for i := range pairs {
		for k := range 2 {
			c := f.open()
			c.says(fmt.Sprintf("use p%d-%d\nwatch p%d-%d\nignore default\n", i, 1-k, i, k),
				fmt.Sprintf("USING p%d-%d\nWATCHING 2\nWATCHING 1\n", i, 1-k))
			conns = append(conns, c)
		}
	}
	other := f.open()
	const put = "put 0 0 60 1\r\nx\r\n"
	for i, c := range conns {
		first, second := "reserve\r\n", put
		if i%2 == 1 {
			first, second = put, "reserve\r\n"
		}
		f.bounded("input", func() { c.send(strings.Repeat(first+second, times)) })
	}
	rounds := 0
	for ; f.asked; rounds++ {
		f.bounded("drain", func() { f.round() })
		other.send("use a\r\nput 0 0 1 1\r\nx\r\npeek-ready\r\n")
		if got := other.take(); strings.Count(got, "\r\n") != 4 {
			t.Fatalf("round %d: the other client got %q", rounds, got)
		}
	}
	for i, c := range conns {
		if got := c.take(); strings.Count(got, "INSERTED") != times || strings.Count(got, "RESERVED") != times {
			t.Errorf("connection %d: %d jobs put, %d reserved, want %d of each",
				i, strings.Count(got, "INSERTED"), strings.Count(got, "RESERVED"), times)
		}
	}
	if least := 2 * 2 * pairs * times / callbackMax; rounds < least {
		t.Errorf("all in %d rounds, want at least %d", rounds, least)
	}
	f.check()
}

// A turnConn records the order of the sessions' turns.
type turnConn struct {
	*testConn
	name  int
	turns *[]int
}

func (c *turnConn) Write(p []byte) {
	if n := len(*c.turns); n == 0 || (*c.turns)[n-1] != c.name {
		*c.turns = append(*c.turns, c.name)
	}
	c.testConn.Write(p)
}

// TestTheQueueIsServedInTurn: between two turns of a session that pipelines without end, each other
// waiting session has one, and one round serves only some of them.
func TestTheQueueIsServedInTurn(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	const floods = 50
	var turns []int
	for i := range floods {
		c := &turnConn{testConn: &testConn{f: f}, name: i, turns: &turns}
		c.s = f.l.Open(c)
		n := 3000 + 10*i // less than behindMax bytes
		f.bounded("input", func() { c.send(strings.Repeat("use default\r\n", n)) })
	}
	queue := f.l.Loop.View().Queued
	if queue != floods {
		t.Fatalf("%d sessions are in the queue, want %d", queue, floods)
	}
	turns = turns[:0]
	for f.asked && f.l.Loop.View().Queued == queue {
		f.bounded("drain", func() { f.round() })
	}
	if len(turns) < 3*floods {
		t.Fatalf("%d turns until the first is done, want several for each of %d", len(turns), floods)
	}
	last := make(map[int]int)
	for at, name := range turns {
		if was, ok := last[name]; ok && at-was != floods {
			t.Fatalf("session %d had a turn after %d others', want %d", name, at-was-1, floods-1)
		}
		last[name] = at
	}
	f.rest()
	f.check()
}

// TestOneCommitForMany: many sessions wait for one commit. Their replies are sent in several
// callbacks, and none is lost.
func TestOneCommitForMany(t *testing.T) {
	f := newFixture(t, router.Config{Loops: 1, Shards: 1})
	j := f.keepOn(wal.Dir(t.TempDir()))
	const n = 2000
	served := 0
	for range n {
		c := f.open()
		c.send("put 0 0 60 1\r\nx\r\n")
		c.onWrite = func() { served++ }
	}
	f.rest()
	if served > 0 {
		t.Fatal("answered before the commit")
	}
	if err := j.Commit(); err != nil {
		t.Fatal(err)
	}
	f.asked = true
	const most = (roundUnits + 3*debtUnits) / session.WriteUnits
	for f.asked {
		was := served
		if f.round(); served-was > most {
			t.Fatalf("%d answers in one callback, want at most %d", served-was, most)
		}
	}
	if served != n {
		t.Errorf("%d of %d answers have left", served, n)
	}
	f.check()
}

// TestInputOfAQueuedSessionIsBounded: a queued session holds at most behindMax bytes and one read,
// because there may be thousands. Reading resumes after all of it was served.
func TestInputOfAQueuedSessionIsBounded(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	c := f.open()
	c.canPause = true
	const reading = 64 << 10
	const line = "use default\r\n"
	chunk := strings.Repeat(line, reading/len(line))
	sent := 0
	for range 100 {
		for !c.paused {
			c.send(chunk)
			if sent++; c.s.Snapshot(0).Held > behindMax+reading {
				t.Fatalf("%d bytes are held", c.s.Snapshot(0).Held)
			}
			if !f.asked {
				t.Fatal("it is not behind")
			}
		}
		for c.paused && f.round() {
		}
		if c.paused || c.s.Snapshot(0).Held > 0 {
			t.Fatalf("paused %v with %d bytes held", c.paused, c.s.Snapshot(0).Held)
		}
	}
	if got, want := strings.Count(c.take(), "\n"), sent*(reading/len(line)); got != want {
		t.Errorf("%d commands answered, want %d", got, want)
	}
	f.check()
}

// TestBusyLoopServesItsSockets: a loop that always finds more to do still serves its sockets. With
// gnet's Execute it would not.
func TestBusyLoopServesItsSockets(t *testing.T) {
	srv := serve(t, router.Config{Loops: 2, Shards: 2})
	stop := make(chan struct{})
	stopped := make(chan int, 2)
	for _, l := range srv.Host().Loops() {
		var again func(*session.Session)
		n := 0
		again = func(s *session.Session) {
			select {
			case <-stop:
				stopped <- n
			default:
				n++
				l.Signal(s, again)
			}
		}
		s := new(session.Session)
		s.Init(l, nil, nil)
		l.Signal(s, again)
	}
	for range 4 {
		c := srv.dial(srv.beans)
		for range 100 {
			c.say("use x\r\n")
			c.hears("USING x\r\n")
		}
	}
	close(stop)
	for range 2 {
		if n := <-stopped; n < 100 {
			t.Errorf("a loop had %d turns of its own besides 200 commands", n)
		}
	}
}

// TestSignalsHaveTheirRounds: writable sockets are work like any other. For any number of signals, a
// callback is bounded, and each signal has its turn, in order.
func TestSignalsHaveTheirRounds(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 1})
	l := f.l.Loop
	c := f.open()
	const signals, units = 500, 100
	var ran []int
	for i := range signals {
		l.Signal(c.s.Session, func(s *session.Session) {
			ran = append(ran, i)
			l.Spend(units)
		})
	}
	for rounds := 0; len(ran) < signals; rounds++ {
		if rounds > signals {
			t.Fatalf("%d of %d had a turn", len(ran), signals)
		}
		before := len(ran)
		f.round()
		if n := (len(ran) - before) * units; n > callbackMax+units {
			t.Fatalf("%d units in one callback, want at most %d", n, callbackMax)
		}
	}
	for i, at := range ran {
		if i != at {
			t.Fatalf("signal %d had turn %d", at, i)
		}
	}
	f.check()
}

// A slowConn blocks in a write until it is released.
type slowConn struct {
	*testConn
	writing chan struct{}
	goOn    <-chan struct{}
}

func (c *slowConn) Write(p []byte) {
	if c.writing != nil {
		close(c.writing)
		<-c.goOn
		c.writing = nil
	}
	c.testConn.Write(p)
}

// TestAnswerBeingDeliveredIsWork: a shutdown waits for a reply that a loop, or its helper, has
// taken from the outbox and not sent.
func TestAnswerBeingDeliveredIsWork(t *testing.T) {
	f := newFixture(t, router.Config{Loops: 1, Shards: 1, MaxJobSize: 1 << 16})
	goOn := make(chan struct{})
	c := &slowConn{testConn: &testConn{f: f}, goOn: goOn}
	c.s = f.l.Open(c)
	release := f.own(0)
	c.send("put 0 0 9 1\r\nx\r\n")
	release()
	l := f.l.Loop
	if !l.HasWork() {
		t.Fatal("nothing is under way")
	}

	writing, drained := make(chan struct{}), make(chan struct{})
	c.writing = writing
	go func() {
		defer close(drained)
		l.Enter()
		defer l.Exit()
		l.GoOn(true)
	}()
	<-writing
	if l.TryEnter() {
		t.Fatal("the loop is not in its turn")
	}
	looked := make(chan bool)
	go func() { looked <- l.HasWork() }()
	select {
	case <-looked:
		t.Error("no work was found while an answer was being sent")
	case <-time.After(50 * time.Millisecond): // it waits for the end of the turn
	}
	if close(goOn); !t.Failed() && <-looked {
		t.Error("work was found after the answer")
	}
	<-drained
	c.wants("INSERTED 1\n")
}
