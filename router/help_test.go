package router_test

import (
	"testing"
	"time"

	"polystalk/router"
)

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
