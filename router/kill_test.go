package router_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/router/session"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// gone wants the connection to be closed.
func (k *remote) gone() {
	k.t.Helper()
	if b, err := io.ReadAll(k.r); err != nil && !strings.Contains(err.Error(), "reset") || len(b) > 0 {
		k.t.Errorf("hears %q, %v, want the end", b, err)
	}
}

func (w *watched) kill(c *admin.Connection) {
	w.t.Helper()
	if err := w.Operator().KillConnection(w.t.Context(), c.Number); err != nil {
		w.t.Fatal(err)
	}
	w.unknown(c.Number)
}

// ready waits until that many jobs are.
func (w *watched) ready(tube string, want uint64) {
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

// TestKilledInEveryState: its jobs are ready, its client sees the end, and it is unknown.
func TestKilledInEveryState(t *testing.T) {
	w := watch(t, router.Config{Loops: 2, Shards: 4, MaxJobSize: 64 << 20})
	is := func(state string) func(*admin.Connection) bool {
		return func(c *admin.Connection) bool { return c.State() == state }
	}
	t.Run("holding", func(t *testing.T) {
		k := w.dial(w.beans)
		k.say("use a\r\nwatch a\r\nput 0 0 60 1\r\nx\r\nput 0 0 60 1\r\ny\r\nreserve\r\nreserve\r\n")
		c := w.becomes(k, "holding", func(c *admin.Connection) bool { return c.Holds == 2 })
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
		w.ready("b", 1) // no closed connection took it
		other.Close()
	})
	t.Run("in the middle of a large body", func(t *testing.T) {
		k := w.dial(w.beans)
		k.say("put 0 0 60 5000000\r\n" + strings.Repeat("x", 3_000_000))
		c := w.becomes(k, "receiving", func(c *admin.Connection) bool { return c.In > 3_000_000 })
		w.kill(c)
		k.gone()
		if used, inside, waiting := w.Host().BodyPlaces(); used != 0 || inside != 0 || waiting != 0 {
			t.Errorf("the room for bodies has %d bytes of %d, and %d wait", used, inside, waiting)
		}
	})
	t.Run("with replies that it does not read", func(t *testing.T) {
		k := w.dial(w.beans)
		k.say("use big\r\nput 0 0 60 3000000\r\n" + strings.Repeat("x", 3_000_000) + "\r\npeek-ready\r\npeek-ready\r\npeek-ready\r\npeek-ready\r\n")
		w.kill(w.becomes(k, "behind", func(c *admin.Connection) bool { return c.Unsent > 0 && c.Stops&session.Unread != 0 }))
		io.Copy(io.Discard, k.r)
	})
	t.Run("half-closed, with replies that it does not read", func(t *testing.T) {
		k := w.dial(w.beans)
		k.say("use big\r\n" + strings.Repeat("peek-ready\r\n", 8))
		k.Conn.(*net.TCPConn).CloseWrite()
		w.kill(w.becomes(k, "behind", func(c *admin.Connection) bool { return c.Unsent > 0 }))
		eventually(t, func() bool { _, behind := w.Reactor().Connections(); return behind == 0 })
	})
	t.Run("a worker of a function", func(t *testing.T) {
		g, f := w.dial(w.gears), w.dial(w.gears)
		f.say(packet(gearman.SubmitJob, "f", "", "x"))
		w.becomes(f, "awaiting", func(c *admin.Connection) bool { return c.Follows })
		g.say(packet(gearman.CanDo, "f") + packet(gearman.GrabJob))
		w.kill(w.becomes(g, "holding", func(c *admin.Connection) bool { return c.Holds == 1 }))
		io.Copy(io.Discard, g.r)
		again := w.dial(w.gears) // has the job of the lost worker
		again.say(packet(gearman.CanDo, "f") + packet(gearman.GrabJob))
		w.becomes(again, "holding", func(c *admin.Connection) bool { return c.Holds == 1 })
		w.kill(w.of(f))
		w.kill(w.of(again))
	})
	t.Run("a sleeping worker", func(t *testing.T) {
		g := w.dial(w.gears)
		g.say(packet(gearman.CanDo, "sleepy") + packet(gearman.PreSleep))
		w.kill(w.becomes(g, "asleep", is("sleeping")))
		g.gone()
	})
	t.Run("who awaits a result", func(t *testing.T) {
		f := w.dial(w.gears)
		f.say(packet(gearman.SubmitJob, "lonely", "", "x"))
		w.kill(w.becomes(f, "awaiting", func(c *admin.Connection) bool { return c.Follows }))
		if n := w.jobs("lonely"); n != 0 {
			t.Errorf("%d jobs are left that nobody awaits", n)
		}
	})
	awaitNothing(t, w.Server)
	if s := w.Host().Sums(); s.Connections != 0 || s.Waiting != 0 || s.Workers != 0 || s.Producers != 0 || s.Sleeping != 0 {
		t.Errorf("%+v is counted", s)
	}
	for _, l := range w.Host().Loops() {
		l.Enter()
		err := l.CheckAtRest(nil)
		l.Exit()
		if err != nil {
			t.Error(err)
		}
	}
}

// TestKilledWhileItIsBusyOrCloses: the killed connection's command ends first, in a shard
// that is busy, and no caller hears of the end before.
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
		for range 2 { // the second is of no effect
			l.SignalNumber(number, func(s *session.Session) {
				s.WhenGone(func() { told++ })
				s.Kill()
			})
			for f.asked { // the loop alone: nobody does what waits in the shard
				f.asked = false
				f.l.GoOn()
			}
		}
		if life := c.s.Session.View().Life; told != 0 || closing != (life == "closing") {
			t.Errorf("%d are told of the end of one that is %s", told, life)
		}
		release()
		f.rest()
		if told != 2 || !c.s.Gone() || !c.closed {
			t.Errorf("%d are told, it is %s, closed %v", told, c.s.Session.View().Life, c.closed)
		}
		l.SignalNumber(number, func(s *session.Session) {
			if s != nil {
				t.Error("it is found by its number")
			}
			told++
		})
		f.rest()
		if told != 3 {
			t.Error("a signal to nobody is lost")
		}
		want := f.open()
		want.says("watch "+tube+"\nreserve\n", "WATCHING 2\nRESERVED 1 1\nx\n")
		f.check()
	}
}

// jobs is how many a tube has.
func (w *watched) jobs(tube string) (n int) {
	w.t.Helper()
	p, err := w.Operator().Jobs(w.t.Context(), &admin.JobQuery{Tube: tube, Limit: 1000}, nil)
	if err != nil {
		return 0 // there is no such tube
	}
	return len(p.Rows)
}

// TestKilledWhileItWaitsForTheJournal: replies that wait for the disk end with their client.
func TestKilledWhileItWaitsForTheJournal(t *testing.T) {
	w := watch(t, router.Config{Loops: 1, Shards: 2, Journal: &router.Journal{Dir: t.TempDir(), SegmentSize: 1 << 20, Sync: wal.SyncAlways}})
	for range 50 {
		k := w.dial(w.beans)
		k.say("put 0 0 60 1\r\nx\r\nreserve\r\nput 0 0 60 1\r\ny\r\n")
		if c := w.of(k); c != nil {
			w.kill(c)
		}
		k.Close()
	}
	awaitNothing(t, w.Server)
	for _, l := range w.Host().Loops() {
		eventually(t, func() bool {
			l.Enter()
			defer l.Exit()
			return l.CheckAtRest(nil) == nil
		})
	}
}

// TestKilledUnderLoad: several operators at once kill a thousand workers that hold, wait and
// put. An operator may find that another one has already killed a worker. Afterwards no job
// is lost, and every job can be reserved.
func TestKilledUnderLoad(t *testing.T) {
	const clients, jobs = 1000, 3000
	w := watch(t, router.Config{Loops: 2, Shards: 4})
	p := w.dial(w.beans)
	p.say("use q\r\n")
	p.hears("USING q\r\n")
	for i := range jobs {
		p.say("put 0 0 600 1\r\nx\r\n")
		p.hears(fmt.Sprintf("INSERTED %d\r\n", i+1))
	}
	var running sync.WaitGroup
	var cut atomic.Int64
	for i := range clients {
		running.Go(func() {
			c, err := net.Dial("tcp", w.beans.String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			r := bufio.NewReader(c)
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			io.WriteString(c, "watch q\r\nignore default\r\n")
			for {
				io.WriteString(c, "reserve-with-timeout 1\r\n")
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						cut.Add(1)
						return
					}
					var id int
					if n, _ := fmt.Sscanf(line, "RESERVED %d 1\r\n", &id); n == 1 {
						r.ReadString('\n')
						if rng.IntN(2) == 0 {
							io.WriteString(c, "release "+strconv.Itoa(id)+" 0 0\r\n")
							continue
						}
						break
					}
					if strings.HasPrefix(line, "RELEASED") || strings.HasPrefix(line, "TIMED_OUT") || strings.HasPrefix(line, "DEADLINE") {
						break
					}
				}
			}
		})
	}
	eventually(t, func() bool { return w.Host().Sums().Connections == clients+1 })
	mine := w.of(p).Number
	var operators sync.WaitGroup
	var killed atomic.Int64
	for range 4 {
		operators.Go(func() {
			for left := true; left; {
				left = false
				part, err := w.Operator().Connections(t.Context(), &admin.ConnectionQuery{Limit: 100}, 0)
				if err != nil {
					t.Error(err)
					return
				}
				for _, c := range part.Rows {
					if c.Number == mine {
						continue
					}
					left = true
					switch p, _ := w.Operator().KillConnection(t.Context(), c.Number).(*wire.Problem); {
					case p == nil:
						killed.Add(1)
					case p.Status != 404:
						t.Error(p)
						return
					}
				}
			}
		})
	}
	operators.Wait()
	running.Wait()
	if cut.Load() != clients || killed.Load() < clients {
		t.Errorf("%d clients saw the end, %d were killed, of %d", cut.Load(), killed.Load(), clients)
	}
	p.say("stats-tube q\r\n")
	stats := make([]byte, 4000)
	n, _ := p.r.Read(stats)
	for _, line := range []string{fmt.Sprintf("current-jobs-ready: %d\n", jobs), "current-jobs-reserved: 0\n", "current-watching: 0\n", "current-waiting: 0\n"} {
		if !strings.Contains(string(stats[:n]), line) {
			t.Errorf("no %q in %s", line, stats[:n])
		}
	}
}

// TestKillThatWasGivenUpKillsNobody: an operator that is told to try again, because the
// event loops are late, has not closed the connection.
func TestKillThatWasGivenUpKillsNobody(t *testing.T) {
	w := watch(t, router.Config{Loops: 1, Shards: 1})
	k := w.dial(w.beans)
	k.say("use a\r\n")
	k.hears("USING a\r\n")
	c := w.of(k)
	l := w.Host().Loops()[0]
	l.Enter()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := w.Operator().KillConnection(ctx, c.Number)
	l.Exit()
	wantProblem(t, err, wire.Busy)
	k.say("list-tube-used\r\n")
	k.hears("USING a\r\n")
	if c := w.of(k); c == nil || c.State() != "idle" {
		t.Errorf("%+v", c)
	}
}
