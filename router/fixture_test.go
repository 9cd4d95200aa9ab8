package router_test

import (
	"bytes"
	"fmt"
	"polystalk/router"
	"polystalk/router/routertest"
	"polystalk/router/session"
	"strings"
	"testing"

	"polystalk/shard"
	"polystalk/shard/core"
)

// Limits of a session, with short names.
const (
	roundUnits = session.RoundUnits
	debtUnits  = session.DebtUnits
	heldMax    = session.HeldMax
	behindMax  = session.BehindMax
	unsentMax  = session.UnsentMax
	flushAt    = session.FlushAt
	pieceMin   = session.PieceMin
	bodyGrace  = session.BodyGrace
	headMax    = session.HeadMax
	lateMax    = session.CorkMax
)

// A fixture is a server driven by hand, with one loop. Method rest serves the
// loop's wake-ups.
type fixture struct {
	t     testing.TB
	d     *routertest.Driven
	l     *routertest.Loop
	now   core.Time // the time awake
	ahead core.Time // the time of day minus now, without slept
	slept core.Time // time spent in suspends
	asked bool

	// other is another owner of shards, like another loop.
	other shard.Batch
}

// A stranger is the Home of the other owner.
type stranger struct{}

func (stranger) Post(*core.Message) { panic("a message came to a stranger") }

func newFixture(t testing.TB, cfg router.Config) *fixture {
	t.Helper()
	f := &fixture{t: t, now: 1_700_000_000 * core.Second}
	f.other.Home = stranger{}
	slept := func() core.Time { return f.slept }
	d, err := routertest.New(cfg, func() core.Time { return f.now }, func() core.Time { return f.now + f.slept + f.ahead }, slept)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	f.d = d
	f.l = d.NewLoop(func() { f.asked = true })
	return f
}

// round serves one wake-up of the loop.
func (f *fixture) round() bool {
	was := f.asked
	f.asked = false
	if was {
		f.l.GoOn()
	}
	for _, sh := range f.d.Shards() {
		f.d.Stamp(&f.other)
		if sh.Due() <= f.other.Now {
			was = sh.Tick(&f.other) || was
		}
	}
	return was
}

// rest serves wake-ups until nothing is left to do now.
func (f *fixture) rest() {
	f.t.Helper()
	for range 100_000 {
		if !f.round() {
			return
		}
	}
	f.t.Fatal("it is never at rest")
}

// pass lets time pass.
func (f *fixture) pass(d core.Time) {
	f.t.Helper()
	f.now += d
	f.rest()
}

// own owns shard i until the returned function is called.
func (f *fixture) own(i int) (release func()) {
	f.t.Helper()
	sh := f.d.Shards()[i]
	if !sh.Own(&f.other) {
		f.t.Fatalf("shard %d is owned", i)
	}
	return func() {
		f.d.Stamp(&f.other)
		sh.Release(&f.other)
	}
}

// tubeIn returns the name of a tube in shard i.
func (f *fixture) tubeIn(i, nth int) string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("t%d", n)
		if f.d.ShardOf(name) == i {
			if nth == 0 {
				return name
			}
			nth--
		}
	}
}

// A testConn is a client of a fixture.
type testConn struct {
	f      *fixture
	s      *routertest.Session
	got    bytes.Buffer
	stable [][]byte // slices passed to WriteStable
	writes int
	unsent int
	closed bool
	paused bool

	canPause bool
	onWrite  func()
}

func (f *fixture) open() *testConn {
	c := &testConn{f: f}
	c.s = f.l.Open(c)
	return c
}

func (c *testConn) Write(p []byte) {
	if c.got.Write(p); len(p) > 0 {
		c.writes++
		if c.onWrite != nil {
			c.onWrite()
		}
	}
}
func (c *testConn) WriteStable(pieces [][]byte) {
	for _, p := range pieces {
		c.stable = append(c.stable, p)
		c.got.Write(p)
	}
}
func (c *testConn) Unsent() int  { return c.unsent }
func (c *testConn) Close()       { c.closed = true }
func (c *testConn) Drop()        { c.Close() }
func (c *testConn) Pause() bool  { c.paused = c.canPause; return c.canPause }
func (c *testConn) Resume() bool { c.paused = false; return true }

// send passes text to the server, in memory that is overwritten afterwards.
func (c *testConn) send(text string) {
	b := []byte(text)
	c.s.Input(b)
	for i := range b {
		b[i] = '#'
	}
}

// take returns the output since the last call.
func (c *testConn) take() string {
	defer c.got.Reset()
	return c.got.String()
}

// wants fails unless the output is exactly want.
func (c *testConn) wants(want string) {
	c.f.t.Helper()
	want = strings.ReplaceAll(want, "\n", "\r\n")
	if got := c.take(); got != want {
		c.f.t.Fatalf("got  %.300q\nwant %.300q", got, want)
	}
}

// says sends lines, rests, and wants the reply. Both have \n for \r\n.
func (c *testConn) says(text, want string) {
	c.f.t.Helper()
	c.send(strings.ReplaceAll(text, "\n", "\r\n"))
	c.f.rest()
	c.wants(want)
}

// put puts a job into a tube, with the given priority, delay and time to run.
func (f *fixture) put(c *testConn, tube, line, body string) {
	f.t.Helper()
	c.send(fmt.Sprintf("use %s\r\nput %s %d\r\n%s\r\n", tube, line, len(body), body))
	f.rest()
	c.take()
}

// check checks all invariants at rest.
func (f *fixture) check() {
	f.t.Helper()
	f.rest()
	if err := f.d.Check(); err != nil {
		f.t.Fatal(err)
	}
}

// later returns the number of deferred turns.
func (f *fixture) later() int { return int(f.d.Server.Host().Sums().Counters[session.CountDeferred]) }

// stoppedBy reports whether r stops the client's commands.
func (c *testConn) stoppedBy(r session.Stops) bool { return c.s.Snapshot(0).Stops&r != 0 }
