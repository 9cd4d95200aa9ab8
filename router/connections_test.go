package router

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/codec/gearman"
	"polystalk/router/admin"
	"polystalk/router/session"
	"polystalk/shard/core"
	"polystalk/shard/journal"
)

// A watched server is one whose connections an operator looks at.
type watched struct {
	*Server
	t            *testing.T
	beans, gears net.Addr
}

func watch(t *testing.T, cfg Config) *watched {
	t.Helper()
	w := &watched{Server: operated(t, cfg), t: t}
	for _, at := range []struct {
		addr  *net.Addr
		serve func(net.Listener) error
	}{{&w.beans, w.Serve}, {&w.gears, w.ServeGearman}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go at.serve(l)
		*at.addr = l.Addr()
	}
	return w
}

// A remote is a client that blocks.
type remote struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (w *watched) dial(addr net.Addr) *remote {
	w.t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute)) // patience, not a measurement
	return &remote{c, w.t, bufio.NewReader(c)}
}

func (k *remote) say(text string) {
	k.t.Helper()
	if _, err := io.WriteString(k, text); err != nil {
		k.t.Fatal(err)
	}
}

// hears wants text to come next.
func (k *remote) hears(text string) {
	k.t.Helper()
	b := make([]byte, len(text))
	if n, err := io.ReadFull(k.r, b); err != nil || string(b) != text {
		k.t.Fatalf("hears %q, %v, want %q", b[:n], err, text)
	}
}

// gone wants the connection to be closed.
func (k *remote) gone() {
	k.t.Helper()
	if b, err := io.ReadAll(k.r); err != nil && !strings.Contains(err.Error(), "reset") || len(b) > 0 {
		k.t.Errorf("hears %q, %v, want the end", b, err)
	}
}

// of is the connection of a client, as the operator sees it; nil: it is not listed.
func (w *watched) of(k *remote) *admin.Connection {
	w.t.Helper()
	for _, c := range w.list(&admin.ConnectionQuery{Limit: 1000}) {
		if session.PeerName(c.Peer) == k.LocalAddr().String() {
			return &c
		}
	}
	return nil
}

// list is all that are wanted.
func (w *watched) list(q *admin.ConnectionQuery) (all []admin.Connection) {
	w.t.Helper()
	for above := uint64(0); ; {
		p, err := w.Operator().Connections(w.t.Context(), q, above)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, p.Rows...)
		if above = p.Next; above == 0 {
			return all
		}
	}
}

// becomes waits for a client's connection to be as ok says.
func (w *watched) becomes(k *remote, what string, ok func(c *admin.Connection) bool) *admin.Connection {
	w.t.Helper()
	var c *admin.Connection
	eventually(w.t, func() bool {
		c = w.of(k)
		return c != nil && ok(c)
	})
	if c == nil || !ok(c) {
		w.t.Fatalf("it never is %s: %+v", what, c)
	}
	return c
}

func (w *watched) kill(c *admin.Connection) {
	w.t.Helper()
	if err := w.Operator().KillConnection(w.t.Context(), c.Number); err != nil {
		w.t.Fatal(err)
	}
	w.unknown(c.Number)
}

// unknown wants a number to be that of no connection.
func (w *watched) unknown(number uint64) {
	w.t.Helper()
	_, _, err := w.Operator().Connection(w.t.Context(), number)
	for _, err := range []error{err, w.Operator().KillConnection(w.t.Context(), number)} {
		if p, ok := err.(*wire.Problem); !ok || p.Status != 404 {
			w.t.Errorf("connection %d: %v, want it to be unknown", number, err)
		}
	}
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

func TestConnectionsTellWhatTheyAre(t *testing.T) {
	w := watch(t, Config{Loops: 2, Shards: 4})
	start := time.Now()
	put := "use mail\r\nput 0 0 60 5\r\nhello\r\nput 0 0 60 5\r\nhello\r\n"
	p := w.dial(w.beans)
	p.say(put)
	said := "USING mail\r\nINSERTED 1\r\nINSERTED 2\r\n"
	p.hears(said)
	c := w.of(p)
	if c.Front.Name() != "beanstalkd" || c.State() != "idle" || c.Command != "put" || c.Client.Used != "mail" || c.Roles != session.Producer ||
		!slices.Equal(c.Client.Watched, []string{"default"}) || c.Client.Watching != 1 || c.In != uint64(len(put)) || c.Out != uint64(len(said)) ||
		c.Holds != 0 || c.Open > core.Time(time.Since(start)) || c.Idle > c.Open {
		t.Errorf("a producer is %+v", c)
	}

	k := w.dial(w.beans)
	k.say("watch mail\r\nreserve\r\n")
	k.hears("WATCHING 2\r\nRESERVED 1 5\r\nhello\r\n")
	time.Sleep(30 * time.Millisecond)
	c = w.of(k)
	if c.State() != "idle" || c.Command != "reserve" || c.Roles != session.Worker || c.Client.Watching != 2 || c.Holds != 1 ||
		c.HeldFor < 30e6 || c.HeldFor > core.Time(time.Since(start)) {
		t.Errorf("a worker is %+v", c)
	}
	one, held, err := w.Operator().Connection(t.Context(), c.Number)
	if err != nil || one.Number != c.Number || len(held) != 1 || held[0].ID != 1 || held[0].Peer != k.LocalAddr().String() || held[0].Conn != c.Number {
		t.Errorf("%+v holds %+v, %v", one, held, err)
	}
	if j, _, err := w.Operator().Job(t.Context(), 1, 0); err != nil || j.Conn != c.Number || j.Peer != k.LocalAddr().String() {
		t.Errorf("job 1 is held by %d at %q, %v", j.Conn, j.Peer, err)
	}
	if j, _, err := w.Operator().Job(t.Context(), 2, 0); err != nil || j.Conn != 0 || j.Peer != "" {
		t.Errorf("job 2 is held by %d at %q, %v", j.Conn, j.Peer, err)
	}
	k.say("reserve-job 2\r\nwatch idle\r\nignore mail\r\nignore default\r\nreserve\r\n")
	k.hears("RESERVED 2 5\r\nhello\r\nWATCHING 3\r\nWATCHING 2\r\nWATCHING 1\r\n")
	c = w.becomes(k, "waiting", func(c *admin.Connection) bool { return c.State() == "waiting" })
	if !c.Waits() || c.Holds != 2 {
		t.Errorf("who waits is %+v", c)
	}

	g := w.dial(w.gears)
	g.say(packet(gearman.SetClientID, "worker-7") + packet(gearman.CanDo, "mail") + packet(gearman.CanDo, "other") + packet(gearman.PreSleep))
	c = w.becomes(g, "asleep", func(c *admin.Connection) bool { return c.State() == "sleeping" })
	if c.Front.Name() != "Gearman" || c.Client.ID != "worker-7" || c.Client.Watching != 2 || c.Client.Used != "" || c.Command != "pre-sleep" || !c.Waits() {
		t.Errorf("who sleeps is %+v", c)
	}
	h := w.dial(w.beans) // holds jobs in several shards
	for i := range 8 {
		h.say(fmt.Sprintf("use many%d\r\nput 0 0 60 1\r\nx\r\nreserve-job %d\r\n", i, i+3))
		h.hears(fmt.Sprintf("USING many%d\r\nINSERTED %d\r\nRESERVED %d 1\r\nx\r\n", i, i+3, i+3))
		if i == 0 {
			time.Sleep(30 * time.Millisecond)
		}
	}
	if c = w.of(h); c.Holds != 8 || c.HeldFor < 30e6 || len(c.Client.Places) < 2 {
		t.Errorf("who holds jobs in several shards is %+v", c)
	}
	if _, held, err := w.Operator().Connection(t.Context(), c.Number); err != nil || len(held) != 8 || held[0].ID != 3 ||
		!slices.IsSortedFunc(held, func(a, b admin.JobRow) int { return int(b.InState - a.InState) }) {
		t.Errorf("%d jobs are held, %v, the first is %+v", len(held), err, held)
	}

	f := w.dial(w.gears)
	f.say(packet(gearman.SubmitJob, "nobody", "", "x"))
	c = w.becomes(f, "awaiting", func(c *admin.Connection) bool { return c.Follows })
	if c.Roles != session.Producer || c.State() != "idle" || c.Client.ID != "" || c.Command != "submit-job" {
		t.Errorf("who awaits is %+v", c)
	}

	for _, tt := range []struct {
		q    admin.ConnectionQuery
		want []*remote
	}{
		{admin.ConnectionQuery{}, []*remote{p, k, g, h, f}},
		{admin.ConnectionQuery{Protocol: "beanstalkd"}, []*remote{p, k, h}},
		{admin.ConnectionQuery{Protocol: "Gearman"}, []*remote{g, f}},
		{admin.ConnectionQuery{Tube: []byte("mail")}, []*remote{p, g}},
		{admin.ConnectionQuery{Tube: []byte("idle")}, []*remote{k}},
		{admin.ConnectionQuery{Tube: []byte("")}, nil},
		{admin.ConnectionQuery{Holding: true}, []*remote{k, h}},
		{admin.ConnectionQuery{Holding: true, Protocol: "Gearman"}, nil},
	} {
		for _, tt.q.Limit = range []int{1, 3, 100} {
			var got, want []string
			for _, c := range w.list(&tt.q) {
				got = append(got, session.PeerName(c.Peer))
			}
			for _, r := range tt.want {
				want = append(want, r.LocalAddr().String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: %v, want %v", tt.q, got, want)
			}
		}
	}
	if p, err := w.Operator().Connections(t.Context(), &admin.ConnectionQuery{Limit: 5}, 0); err != nil || p.Next != 0 || p.Looked != 5 {
		t.Errorf("a part with all that there are goes on above %d, of %d, %v", p.Next, p.Looked, err)
	}
}

// TestJobsThatRanOutAreNotHeld: though nobody has told the connection.
func TestJobsThatRanOutAreNotHeld(t *testing.T) {
	w := watch(t, Config{Loops: 1, Shards: 2})
	k := w.dial(w.beans)
	k.say("put 0 0 1 1\r\nx\r\nreserve\r\n")
	k.hears("INSERTED 1\r\nRESERVED 1 1\r\nx\r\n")
	if n := len(w.list(&admin.ConnectionQuery{Holding: true, Limit: 10})); n != 1 {
		t.Fatalf("%d hold jobs", n)
	}
	w.ready("default", 1)
	if n := len(w.list(&admin.ConnectionQuery{Holding: true, Limit: 10})); n != 0 {
		t.Errorf("%d hold jobs", n)
	}
	if c := w.of(k); c.Holds != 0 || c.HeldFor != 0 {
		t.Errorf("%+v", c)
	}
}

// TestKilledInEveryState: its jobs are ready, its client sees the end, and it is unknown.
func TestKilledInEveryState(t *testing.T) {
	w := watch(t, Config{Loops: 2, Shards: 4, MaxJobSize: 64 << 20})
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
		w.ready("b", 1) // nobody has taken it who is gone
		other.Close()
	})
	t.Run("in the middle of a large body", func(t *testing.T) {
		k := w.dial(w.beans)
		k.say("put 0 0 60 5000000\r\n" + strings.Repeat("x", 3_000_000))
		c := w.becomes(k, "receiving", func(c *admin.Connection) bool { return c.In > 3_000_000 })
		w.kill(c)
		k.gone()
		if used, inside, waiting := w.host.BodyRoom(); used != 0 || inside != 0 || waiting != 0 {
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
		eventually(t, func() bool { _, behind := w.reactor.Connections(); return behind == 0 })
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
	if s := w.host.Sums(); s.Connections != 0 || s.Waiting != 0 || s.Workers != 0 || s.Producers != 0 || s.Sleeping != 0 {
		t.Errorf("%+v is counted", s)
	}
	for _, l := range w.host.Loops() {
		l.Enter()
		err := l.CheckAtRest(nil)
		l.Exit()
		if err != nil {
			t.Error(err)
		}
	}
}

// TestKilledWhileItIsBusyOrCloses: that comes to its end first, in a shard that somebody has,
// and nobody who wants to hear of the end hears of it before.
func TestKilledWhileItIsBusyOrCloses(t *testing.T) {
	for _, closing := range []bool{false, true} {
		f := newFixture(t, Config{Shards: 2})
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
		l, number := c.s.s.Loop(), c.s.Number()
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
		if life := c.s.s.View().Life; told != 0 || closing != (life == "closing") {
			t.Errorf("%d are told of the end of one that is %s", told, life)
		}
		release()
		f.rest()
		if told != 2 || !c.s.Gone() || !c.closed {
			t.Errorf("%d are told, it is %s, closed %v", told, c.s.s.View().Life, c.closed)
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
	w := watch(t, Config{Loops: 1, Shards: 2, Journal: &Journal{Dir: t.TempDir(), SegmentSize: 1 << 20, Sync: journal.SyncAlways}})
	for range 50 {
		k := w.dial(w.beans)
		k.say("put 0 0 60 1\r\nx\r\nreserve\r\nput 0 0 60 1\r\ny\r\n")
		if c := w.of(k); c != nil {
			w.kill(c)
		}
		k.Close()
	}
	awaitNothing(t, w.Server)
	for _, l := range w.host.Loops() {
		eventually(t, func() bool {
			l.Enter()
			defer l.Exit()
			return l.CheckAtRest(nil) == nil
		})
	}
}

// TestKilledUnderLoad: a thousand workers that hold, wait and put, by several operators at
// once, each of whom may find another's already gone. Afterwards no job is lost, and all are
// there to be had.
func TestKilledUnderLoad(t *testing.T) {
	const clients, jobs = 1000, 3000
	w := watch(t, Config{Loops: 2, Shards: 4})
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
	eventually(t, func() bool { return w.host.Sums().Connections == clients+1 })
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

// TestListShowsWhoStaysOnce: each connection that is there throughout is in exactly one part
// of every list, in the order in which they came, while others come and go.
func TestListShowsWhoStaysOnce(t *testing.T) {
	w := watch(t, Config{Loops: 3, Shards: 2})
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for i := range 8 {
		others.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			var open []net.Conn
			for ctx.Err() == nil {
				if k := rng.IntN(60); k < len(open) {
					open[k].Close()
					open = slices.Delete(open, k, k+1)
				} else if c, err := net.Dial("tcp", []net.Addr{w.beans, w.gears}[rng.IntN(2)].String()); err == nil {
					open = append(open, c)
				}
			}
			for _, c := range open {
				c.Close()
			}
		})
	}
	var stay []*remote
	for range 300 {
		k := w.dial(w.beans)
		k.say("use staying\r\n")
		k.hears("USING staying\r\n")
		stay = append(stay, k)
	}
	for _, q := range []admin.ConnectionQuery{{Limit: 7}, {Limit: 1000}, {Limit: 1, Tube: []byte("staying")}, {Limit: 50, Protocol: "beanstalkd"}} {
		seen := make(map[string]int)
		last := uint64(0)
		for _, c := range w.list(&q) {
			if c.Number <= last {
				t.Errorf("%d is behind %d", c.Number, last)
			}
			last = c.Number
			if c.Front == w.beanstalkd { // the other's clients may have the same ports
				seen[session.PeerName(c.Peer)]++
			}
		}
		for _, k := range stay {
			if n := seen[k.LocalAddr().String()]; n != 1 {
				t.Errorf("%+v: one that stays is shown %d times", q, n)
			}
		}
	}
	stop()
	others.Wait()
}

// TestRefusedConnectionsAreCounted: by why.
func TestRefusedConnectionsAreCounted(t *testing.T) {
	w := watch(t, Config{Loops: 1, Shards: 1, MaxConnections: 2})
	w.dial(w.gears).say("GET / HTTP/1.1\r\n\r\n")
	eventually(t, func() bool { return w.host.Sums().Rejected[session.RejectedForeign] == 1 && connections(w.Server) == 0 })
	for range 2 {
		k := w.dial(w.beans)
		k.say("use a\r\n")
		k.hears("USING a\r\n")
	}
	w.dial(w.beans).gone()
	s := w.host.Sums()
	if s.Rejected != [session.NumRejections]uint64{session.RejectedForeign: 1, session.RejectedLimit: 1} {
		t.Errorf("rejected: %v", s.Rejected)
	}
	for _, f := range s.Fronts {
		want := session.FrontSums{Front: w.gearmand, Accepted: 1}
		if f.Front == w.beanstalkd {
			want = session.FrontSums{Front: w.beanstalkd, Open: 2, Accepted: 2}
		}
		if f != want {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
}
