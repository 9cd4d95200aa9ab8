package router_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

var eventRuns = flag.Int("event-runs", 60, "how many seeds TestAnyEventAtAnyTime runs")

// An eventWorld is a fixture in which any event may happen to any connection, in any order.
type eventWorld struct {
	*fixture
	rng      *rand.Rand
	conns    []*eventConn
	journal  *commit.Journal // nil: there is none
	disk     *fillingDisk
	released [4]func() // by shard: releases it; nil: no other owner has it
	uncork   core.Time // when the loop must check its corked replies; zero: never
}

// An eventConn is a client that sends its script in pieces.
type eventConn struct {
	*testConn
	gear    bool
	script  string
	sent    int  // bytes of the script
	half    bool // it has half-closed
	broken  bool // the client has broken the connection
	dropped bool // the server has dropped it: replies do not matter any more
}

// Drop implements session.Conn.
func (c *eventConn) Drop() {
	c.dropped = true
	c.Close()
}

// question returns command number n from the commands with a known reply. The reply begins with mark.
func (c *eventConn) question(n int) string {
	if c.gear {
		return packet(gearman.EchoReq, fmt.Sprintf("mark-%d.", n))
	}
	return fmt.Sprintf("use mark-%d.\r\n", n)
}

func (c *eventConn) mark() string {
	if c.gear {
		return "mark-"
	}
	return "USING mark-"
}

// TestAnyEventAtAnyTime runs all events of a session in all reached states: shards are busy, input
// comes in pieces, clients half-close, disconnect or read slowly, commits are late, the disk is
// sometimes full, other large bodies arrive, and memory is short. No session hangs, replies keep
// their order, a session that runs to its end gets every reply, and nothing is left.
func TestAnyEventAtAnyTime(t *testing.T) {
	runs := *eventRuns
	if testing.Short() {
		runs = (runs + 5) / 6
	}
	for seed := range runs {
		if t.Failed() {
			return
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newEventWorld(t, uint64(seed))
			for range 400 {
				w.step()
			}
			w.end()
		})
	}
}

func newEventWorld(t *testing.T, seed uint64) *eventWorld {
	w := &eventWorld{rng: rand.New(rand.NewPCG(seed, 1))}
	cfg := router.Config{Loops: 1, Shards: 4, MaxJobSize: 1 << 18, Gearman: router.GearmanConfig{Prefix: "H:x", Retries: 3, BuryFailed: w.rng.IntN(2) == 0}}
	if w.rng.IntN(3) == 0 {
		cfg.ConnectionMemory = 200_000 << w.rng.IntN(4)
	}
	w.fixture = newFixture(t, cfg)
	w.d.Server.Host().LimitBodies(int64(100_000 << w.rng.IntN(4)))
	w.d.HoldAtMost(4096 << w.rng.IntN(5))
	w.d.LookAtMost(1 + w.rng.IntN(8))
	if w.rng.IntN(2) == 0 {
		w.l.RunAfter(func(d time.Duration) { w.uncork = w.now + core.Time(d) })
	}
	if w.rng.IntN(4) > 0 {
		w.disk = &fillingDisk{Disk: wal.Dir(t.TempDir())}
		w.keepAll()
	}
	return w
}

// keepAll gives the world a journal that frees old segments.
func (w *eventWorld) keepAll() {
	b := &shard.Batch{Home: stranger{}}
	at := func(slot uint16) *shard.Shard {
		i := w.d.Server.Host().Map.OfSlot(slot)
		w.giveBack(i) // else the journal would wait for it
		w.d.Stamp(b)
		return w.d.Shards()[i]
	}
	w.journal = w.keepWith(commit.Options{
		Options: wal.Options{
			Disk:      w.disk,
			Copy:      func(slot uint16, ids []uint64, after uint64) { at(slot).Recopy(b, ids, after, nil) },
			CopyPause: func(slot uint16, tube []byte) { at(slot).Recopy(b, nil, 0, tube) },
			Lives:     func(slot uint16, id, after uint64) bool { return at(slot).NeedsCopy(b, id, after) },
		},
	})
}

// giveBack releases shard i, if it was taken.
func (w *eventWorld) giveBack(i int) {
	if w.released[i] != nil {
		w.released[i]()
		w.released[i] = nil
	}
}

// begin opens a connection.
func (w *eventWorld) begin() {
	c := &eventConn{testConn: &testConn{f: w.fixture, canPause: w.rng.IntN(5) > 0}, gear: w.rng.IntN(3) == 0}
	if c.gear {
		c.s = w.l.OpenGearman(c)
	} else {
		c.s = w.l.Open(c)
	}
	say := w.commands
	switch {
	case c.gear:
		say = w.packets
	case w.rng.IntN(2) == 0:
		say = w.handsOver
	}
	var b strings.Builder
	for n := range 5 + w.rng.IntN(30) {
		b.WriteString(c.question(n + 1))
		b.WriteString(say())
	}
	if !c.gear && w.rng.IntN(8) == 0 {
		b.WriteString("quit\r\nlist-tubes\r\n")
	}
	c.script = b.String()
	w.conns = append(w.conns, c)
}

// size returns the size of a body.
func (w *eventWorld) size() int {
	switch w.rng.IntN(8) {
	case 0:
		return 66_000 + w.rng.IntN(200_000)
	case 1, 2:
		return w.rng.IntN(20_000)
	}
	return w.rng.IntN(200)
}

// handsOver returns the commands of two clients: one waits for the job that the other puts.
func (w *eventWorld) handsOver() string {
	if w.rng.IntN(2) == 0 {
		return fmt.Sprintf("use default\r\nput 1 0 1 1\r\nx\r\ndelete %d\r\n", 1+w.rng.IntN(30))
	}
	return fmt.Sprintf("reserve-with-timeout %d\r\n", 1+w.rng.IntN(3))
}

// commands returns some beanstalkd commands, packets some Gearman packets.
func (w *eventWorld) commands() string {
	id, tube, n := 1+w.rng.IntN(120), "default", w.size()
	if w.rng.IntN(3) > 0 {
		tube = fmt.Sprintf("f%d", w.rng.IntN(4))
	}
	switch w.rng.IntN(30) {
	case 0, 1, 2, 3:
		return fmt.Sprintf("use %s\r\nput %d %d 2 %d\r\n%s\r\n", tube, w.rng.IntN(3), 100*min(1, w.rng.IntN(4)), n, strings.Repeat("p", n))
	case 4:
		return fmt.Sprintf("put 1 0 100 %d\r\n%s##", n, strings.Repeat("p", n)) // without \r\n
	case 5:
		return fmt.Sprintf("put 1 0 100 %d\r\n%s\r\n", 1<<18+1, strings.Repeat("t", 1<<18+1))
	case 6, 7:
		return "watch " + tube + "\r\n"
	case 9:
		return "ignore " + tube + "\r\n"
	case 10, 11, 12:
		return fmt.Sprintf("reserve-with-timeout %d\r\n", w.rng.IntN(3))
	case 13, 27, 28:
		return "reserve\r\n"
	case 14:
		var b strings.Builder
		for i := range 20 {
			fmt.Fprintf(&b, "reserve-job %d\r\nbury %d 3\r\n", id+i, id+i)
		}
		return b.String()
	case 15:
		return fmt.Sprintf("reserve-job %d\r\nrelease %d 3 %d\r\ntouch %d\r\n", id, id, w.rng.IntN(2), id)
	case 16:
		return fmt.Sprintf("use %s\r\nkick %d\r\nkick-job %d\r\n", tube, 1+w.rng.IntN(20), id)
	case 17:
		return strings.Repeat("put 1 100 100 1\r\nk\r\n", 1500) + "kick 5000\r\n"
	case 18:
		return fmt.Sprintf("pause-tube %s 1\r\npeek %d\r\npeek-ready\r\n", tube, id)
	case 19:
		return "stats\r\nlist-tubes\r\nlist-tubes-watched\r\n"
	case 20:
		return "no-such-command\r\nput x\r\n" + strings.Repeat("l", 300) + "\r\n"
	case 21:
		var b strings.Builder
		for i := range []int{40, 40, 600, 1100}[w.rng.IntN(4)] {
			fmt.Fprintf(&b, "watch n%d\r\n", i)
		}
		return b.String() + "list-tubes\r\nlist-tubes-watched\r\nreserve-with-timeout 1\r\n"
	case 22:
		return "put 1 0 100 1 x\r\n"
	case 23:
		return fmt.Sprintf("stats-job %d\r\nstats-tube %s\r\n", id, tube)
	}
	return fmt.Sprintf("delete %d\r\ndelete %d\r\n", id, id+1)
}

func (w *eventWorld) packets() string {
	f, u, body := fmt.Sprintf("f%d", w.rng.IntN(6)), fmt.Sprintf("u%d", w.rng.IntN(4)), strings.Repeat("g", w.size())
	switch w.rng.IntN(10) {
	case 0, 1:
		return packet(gearman.SubmitJob, f, u, body)
	case 2:
		return packet(gearman.SubmitJobBG, f, u, body)
	case 3:
		return packet(gearman.SubmitJob, f, u, strings.Repeat("g", 70_000)) + packet(gearman.SubmitJobBG, f, u, body)
	case 4, 5:
		return packet(gearman.CanDo, f)
	case 6:
		return packet(gearman.CantDo, f)
	case 7:
		return packet(gearman.PreSleep)
	case 8:
		h := fmt.Sprintf("H:x:%d", 1+w.rng.IntN(120))
		return packet(gearman.WorkData, h, body) + packet(gearman.WorkComplete, h, body)
	}
	return packet(gearman.GrabJob)
}

// step runs one event.
func (w *eventWorld) step() {
	if len(w.conns) < 6 && w.rng.IntN(8) == 0 {
		w.begin()
	}
	if w.rng.IntN(3) == 0 {
		w.happens()
		return
	}
	if len(w.conns) == 0 {
		return
	}
	i := w.rng.IntN(len(w.conns))
	c := w.conns[i]
	if c.closed || c.broken {
		if c.s.Gone() {
			w.over(c)
			w.conns = append(w.conns[:i], w.conns[i+1:]...)
		}
		return
	}
	switch p := w.rng.IntN(40); {
	case p == 0:
		c.broken = true
		c.s.Abort()
	case p == 1 && !c.paused && !c.half:
		c.half = true
		c.s.HalfClose()
	case p == 2 && c.paused:
		c.s.HangUp()
	case p == 3:
		c.unsent = []int{1, unsentMax + 1}[w.rng.IntN(2)]
	case p < 8 && c.unsent > 0:
		w.reads(c)
	default:
		w.send(c, 1<<w.rng.IntN(18))
	}
}

// send sends some of the script.
func (w *eventWorld) send(c *eventConn, most int) {
	n := min(len(c.script)-c.sent, 1+w.rng.IntN(most))
	if c.paused || c.half || n == 0 {
		return
	}
	c.sent += n
	c.send(c.script[c.sent-n : c.sent])
}

// reads makes the client read its output.
func (w *eventWorld) reads(c *eventConn) {
	c.unsent = 0
	c.s.AllSent()
}

// happens runs one event of the server.
func (w *eventWorld) happens() {
	i := w.rng.IntN(4)
	if w.rng.IntN(2) == 0 {
		i = w.d.ShardOf("default")
	}
	switch w.rng.IntN(12) {
	case 0, 1, 2:
		w.round()
	case 3:
		w.rest()
	case 4, 10, 11:
		if w.released[i] == nil {
			w.released[i] = w.own(i)
		}
	case 5, 6:
		w.giveBack(i)
	case 7:
		w.now += core.Time(w.rng.Int64N(1 << w.rng.IntN(31)))
		w.looksAtCorks()
	case 8:
		w.diskHappens()
	case 9:
		w.d.Server.Host().EvictLate()
		w.d.Server.Host().Evict()
	}
}

// looksAtCorks does the work of the cork timer.
func (w *eventWorld) looksAtCorks() {
	if w.uncork != 0 && w.now >= w.uncork {
		w.uncork, w.asked = 0, true
	}
}

// diskHappens runs one event of the journal or its disk, if there is one.
func (w *eventWorld) diskHappens() {
	if w.journal == nil {
		return
	}
	var err error
	switch w.rng.IntN(6) {
	case 4:
		w.fill()
	case 0:
		w.disk.full.Store(w.rng.IntN(2) == 0)
	case 1:
		err = w.journal.Tend()
	default:
		err = w.journal.Commit()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// fill lets a client put and leave until the disk is full, if nothing prevents that.
func (w *eventWorld) fill() {
	c := w.open()
	for range 40 {
		if w.journal.Pressure() != commit.Open {
			break
		}
		c.send("put 1 100 1 30000\r\n" + strings.Repeat("x", 30000) + "\r\n")
		if err := w.journal.Commit(); err != nil {
			w.t.Fatal(err)
		}
	}
	c.s.Abort()
}

// end ends all clients, and checks that nothing is left.
func (w *eventWorld) end() {
	w.t.Helper()
	for i := range w.released {
		w.giveBack(i)
	}
	if w.disk != nil {
		w.disk.full.Store(false)
	}
	for _, c := range w.conns {
		w.reads(c)
	}
	for range 30 {
		w.settle()
		for _, c := range w.conns {
			switch {
			case c.closed || c.broken || c.paused || c.half:
			case c.sent < len(c.script):
				w.send(c, 1<<17)
			case w.rng.IntN(2) == 0:
				c.half = true
				c.s.HalfClose()
			}
		}
	}
	for range 200 {
		all := true
		for _, c := range w.conns {
			if c.closed || c.broken || c.half {
				continue
			}
			all = false
			if c.paused {
				c.s.HangUp()
			} else if c.sent < len(c.script) {
				w.send(c, 1<<17)
			} else {
				c.half = true
				c.s.HalfClose()
			}
		}
		w.settle()
		if all {
			break
		}
	}
	w.left()
}

// left checks that nothing is left after all clients have ended.
func (w *eventWorld) left() {
	w.t.Helper()
	for _, c := range w.conns {
		w.over(c)
		if !c.s.Gone() {
			w.t.Errorf("a session hangs: %+v, half-closed %v, aborted %v, script sent %v", c.s.Snapshot(0), c.half, c.broken, c.sent == len(c.script))
		}
	}
	w.check()
	h := w.d.Server.Host()
	if used, inside, waiting := h.BodyPlaces(); used != 0 || inside+waiting != 0 {
		w.t.Errorf("room for bodies: %d bytes used, %d inside, %d wait", used, inside, waiting)
	}
	if n := h.Sums(); n.Connections+n.Producers+n.Workers+n.Waiting != 0 {
		w.t.Errorf("%d connections, %d producers, %d workers, %d waiting are counted", n.Connections, n.Producers, n.Workers, n.Waiting)
	}
	if v := w.l.Loop.View(); v.Holders+v.Queued+v.Corked != 0 || v.Unfinished != 0 {
		w.t.Errorf("the loop keeps %+v", v)
	}
	if w.journal != nil {
		w.settled(w.journal)
	}
}

// settle lets everything continue that can, without further events.
func (w *eventWorld) settle() {
	w.t.Helper()
	for range 6 {
		w.now += core.Second
		w.looksAtCorks()
		w.rest()
		if w.journal == nil {
			continue
		}
		w.tended(w.journal)
		w.committed(w.journal)
	}
}

// over checks the replies of a client after its connection has ended.
func (w *eventWorld) over(c *eventConn) {
	if c.closed && c.unsent > 0 {
		c.unsent = 0
		c.s.Session.UnsentDropped()
	}
	got := c.got.String()
	asked := 0
	for strings.Contains(c.script[:c.sent], c.question(asked+1)) {
		asked++
	}
	answered := 0
	for {
		_, after, ok := strings.Cut(got, c.mark())
		if !ok {
			break
		}
		answered++
		if !strings.HasPrefix(after, fmt.Sprint(answered, ".")) {
			w.t.Errorf("answer %d is %.20q", answered, after)
			return
		}
		got = after
	}
	if answered > asked || answered < asked && !c.dropped && !c.broken {
		w.t.Errorf("%d questions have %d answers; half-closed %v", asked, answered, c.half)
	}
}
