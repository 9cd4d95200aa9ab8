package router_test

import (
	"context"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router"
	"polystalk/router/session"
)

// TestKilledWhileItIsBusyOrCloses: the command of the killed connection ends first, in a busy
// shard, and no caller gets a result before that.
func TestKilledWhileItIsBusyOrCloses(t *testing.T) {
	for _, closing := range []bool{false, true} {
		f := newFixture(t, router.Config{Shards: 2})
		c := f.open()
		tube := f.tubeIn(1, 0)
		c.says("use "+tube+"\nwatch "+tube+"\nput 0 0 60 1\nx\nreserve\n", "USING "+tube+"\nWATCHING 2\nINSERTED 1\nRESERVED 1 1\nx\n")
		release := f.own(1)
		if closing {
			c.s.Abort()
		} else {
			c.send("release 1 5 0\r\n")
		}
		told := 0
		l, number := c.s.Session.Loop(), c.s.Number()
		for range 2 { // the second has no effect
			l.SignalNumber(number, func(s *session.Session) {
				s.WhenGone(func() { told++ })
				s.Kill()
			})
			for f.asked { // only the loop: the operation in the shard still waits
				f.asked = false
				f.l.GoOn()
			}
		}
		if life := c.s.Snapshot(0).Life; told != 0 || closing != (life == "closing") {
			t.Errorf("%d are told of the end of one that is %s", told, life)
		}
		release()
		f.rest()
		if told != 2 || !c.s.Gone() || !c.closed {
			t.Errorf("%d are told, it is %s, closed %v", told, c.s.Snapshot(0).Life, c.closed)
		}
		l.SignalNumber(number, func(s *session.Session) {
			if s != nil {
				t.Error("it is found by its number")
			}
			told++
		})
		f.rest()
		if told != 3 {
			t.Error("a signal without a session is lost")
		}
		want := f.open()
		want.says("watch "+tube+"\nreserve\n", "WATCHING 2\nRESERVED 1 1\nx\n")
		f.check()
	}
}

// TestAbandonedKillClosesNoConnection: if an operator is told to try again, because the event loops
// are late, the connection stays open.
func TestAbandonedKillClosesNoConnection(t *testing.T) {
	w := serve(t, router.Config{Loops: 1, Shards: 1})
	k := w.dial(w.beans)
	k.say("use a\r\n")
	k.hears("USING a\r\n")
	c := w.of(k)
	l := w.Host().Loops()[0]
	l.Enter()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := w.Operator().KillConnection(ctx, c.ID)
	l.Exit()
	wantProblem(t, err, wire.Busy)
	k.say("list-tube-used\r\n")
	k.hears("USING a\r\n")
	if c := w.of(k); c == nil || c.State != "idle" {
		t.Errorf("%+v", c)
	}
}
