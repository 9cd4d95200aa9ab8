package router_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/router/session"
	"polystalk/shard/core"
)

func (w *liveServer) kill(c *wire.Connection) {
	w.t.Helper()
	if err := w.Operator().KillConnection(w.t.Context(), c.ID); err != nil {
		w.t.Fatal(err)
	}
	w.unknown(c.ID)
}

// ready waits until the tube has that many ready jobs.
func (w *liveServer) ready(tube string, want uint64) {
	w.t.Helper()
	var got uint64
	eventually(w.t, func() bool {
		p, err := w.Operator().Jobs(w.t.Context(), &admin.JobQuery{Tube: tube, Filter: core.Filter{States: core.StatesOf(core.Ready)}, Limit: 1000}, nil)
		if err == nil {
			got = uint64(len(p.Rows))
		}
		return got == want
	})
	if got != want {
		w.t.Errorf("%d jobs are ready, want %d", got, want)
	}
}

// TestKilledInEveryState: the jobs of a killed connection are ready again, its client sees the end,
// and its number is unknown.
func TestKilledInEveryState(t *testing.T) {
	w := serve(t, router.Config{Loops: 2, Shards: 4, MaxJobSize: 64 << 20})
	is := func(state string) func(*wire.Connection) bool {
		return func(c *wire.Connection) bool { return c.State == state }
	}
	t.Run("holding", func(t *testing.T) {
		k := w.dial(w.beans)
		k.say("use a\r\nwatch a\r\nput 0 0 60 1\r\nx\r\nput 0 0 60 1\r\ny\r\nreserve\r\nreserve\r\n")
		c := w.becomes(k, "holding", func(c *wire.Connection) bool { return c.Holding == 2 })
		w.kill(c)
		w.ready("a", 2)
		io.Copy(io.Discard, k.r)
	})
	t.Run("waiting", func(t *testing.T) {
		k := w.dial(w.beans)
		k.say("watch b\r\nwatch c\r\nwatch d\r\nwatch e\r\nreserve-with-timeout 1000\r\n")
		k.hears("WATCHING 2\r\nWATCHING 3\r\nWATCHING 4\r\nWATCHING 5\r\n")
		w.kill(w.becomes(k, "waiting", is("waiting")))
		k.gone()
		other := w.dial(w.beans)
		other.say("use b\r\nput 0 0 60 1\r\nx\r\n")
		other.hears("USING b\r\n")
		w.ready("b", 1) // it did not go to a closed connection
		other.Close()
	})
	t.Run("in the middle of a large body", func(t *testing.T) {
		k := w.dial(w.beans)
		k.say("put 0 0 60 5000000\r\n" + strings.Repeat("x", 3_000_000))
		c := w.becomes(k, "receiving", func(c *wire.Connection) bool { return c.ReceivedBytes > 3_000_000 })
		w.kill(c)
		k.gone()
		if used, inside, waiting := w.Host().BodyPlaces(); used != 0 || inside != 0 || waiting != 0 {
			t.Errorf("the room for bodies has %d bytes of %d, and %d wait", used, inside, waiting)
		}
	})
	t.Run("with replies that it does not read", func(t *testing.T) {
		k := w.dial(w.beans)
		k.say("use big\r\nput 0 0 60 3000000\r\n" + strings.Repeat("x", 3_000_000) + "\r\npeek-ready\r\npeek-ready\r\npeek-ready\r\npeek-ready\r\n")
		w.kill(w.becomes(k, "behind", func(c *wire.Connection) bool {
			return c.UnsentBytes > 0 && slices.Contains(c.StoppedBy, "unread_replies")
		}))
		io.Copy(io.Discard, k.r)
	})
	t.Run("a worker of a function", func(t *testing.T) {
		g, f := w.dial(w.gears), w.dial(w.gears)
		f.say(packet(gearman.SubmitJob, "f", "", "x"))
		w.becomes(f, "awaiting", func(c *wire.Connection) bool { return c.Awaits })
		g.say(packet(gearman.CanDo, "f") + packet(gearman.GrabJob))
		w.kill(w.becomes(g, "holding", func(c *wire.Connection) bool { return c.Holding == 1 }))
		io.Copy(io.Discard, g.r)
		again := w.dial(w.gears) // it gets the job of the lost worker
		again.say(packet(gearman.CanDo, "f") + packet(gearman.GrabJob))
		w.becomes(again, "holding", func(c *wire.Connection) bool { return c.Holding == 1 })
		w.kill(w.of(f))
		w.kill(w.of(again))
	})
	t.Run("who awaits a result", func(t *testing.T) {
		f := w.dial(w.gears)
		f.say(packet(gearman.SubmitJob, "lonely", "", "x"))
		w.kill(w.becomes(f, "awaiting", func(c *wire.Connection) bool { return c.Awaits }))
		if n := w.jobs("lonely"); n != 0 {
			t.Errorf("%d jobs are left, and no client waits for them", n)
		}
	})
	awaitNothing(t, w.Server)
	if s := w.Host().Sums(); s.Connections != 0 || s.Waiting != 0 || s.Workers != 0 || s.Producers != 0 || s.Sleeping != 0 {
		t.Errorf("%+v is counted", s)
	}
	for _, l := range w.Host().Loops() {
		l.Enter()
		v := l.View()
		l.Exit()
		if v != (session.LoopView{}) {
			t.Errorf("a loop keeps %+v", v)
		}
	}
}

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

// jobs returns the number of jobs in a tube.
func (w *liveServer) jobs(tube string) (n int) {
	w.t.Helper()
	p, err := w.Operator().Jobs(w.t.Context(), &admin.JobQuery{Tube: tube, Limit: 1000}, nil)
	if err != nil {
		return 0 // there is no such tube
	}
	return len(p.Rows)
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
