package router

import (
	"testing"
	"time"

	"polystalk/shard/core"
)

// Only an idle loop is helped, and never one in the middle of a turn: its
// helper may be in its own callback.
func TestHelp(t *testing.T) {
	now := core.Time(1)
	d, err := NewDriven(Config{Loops: 1, Shards: 1, MaxJobSize: 1 << 16}, func() core.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ran := 0
	l := newLoop(d.srv, func() {})
	s := &session{loop: l}
	add := func() { l.signal(s, func(*session) { ran++ }) }

	l.enter()
	l.batch.Now = now
	add()
	now += 2 * idleAfter
	if l.help() || ran != 0 {
		t.Error("a loop was helped in the middle of its turn")
	}
	l.batch.Now = now
	l.exit()
	if l.help() || ran != 0 {
		t.Error("a loop was helped just after its turn")
	}
	now += idleAfter
	if !l.help() || ran != 1 {
		t.Errorf("an idle loop was not helped: its signal ran %d times", ran)
	}
	add()
	if l.help() {
		t.Error("a loop was helped just after it was helped")
	}
}

// A slowConn is in the middle of writing until it is let go.
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

// A shutdown does not overlook an answer that a loop, or its helper, has taken from
// the outbox and not sent.
func TestAnswerBeingDeliveredIsWork(t *testing.T) {
	f := newFixture(t, Config{Loops: 1, Shards: 1, MaxJobSize: 1 << 16})
	goOn := make(chan struct{})
	c := &slowConn{testConn: &testConn{f: f}, goOn: goOn}
	c.s = f.l.Open(c)
	release := f.own(0)
	c.send("put 0 0 9 1\r\nx\r\n")
	release()
	l := f.l.l
	if !l.hasWork() {
		t.Fatal("nothing is under way")
	}

	writing, drained := make(chan struct{}), make(chan struct{})
	c.writing = writing
	go func() {
		defer close(drained)
		l.enter()
		defer l.exit()
		l.drain(true)
	}()
	<-writing
	if l.own.TryLock() {
		t.Fatal("the loop is not in its turn")
	}
	looked := make(chan bool)
	go func() { looked <- l.hasWork() }()
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
