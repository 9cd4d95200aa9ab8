package gearmand

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A fixture is a server of shards and one loop, driven by hand: rest serves its wake-ups.
// Tests that need beanstalkd or a journal as well are in package router.
type fixture struct {
	t     testing.TB
	host  *session.Host
	front *Front
	l     *session.Loop
	now   core.Time
	asked bool // the loop is to be drained
	log   bytes.Buffer
	conns []*testConn
	ends  []bool // what wantShutdown was called with

	// other owns shards like another loop does.
	other shard.Batch
}

// stranger is the Home of the other owner.
type stranger struct{}

func (stranger) Post(*core.Message) { panic("a message came to a stranger") }

func newFixture(t testing.TB, shards int, cfg Config) *fixture {
	t.Helper()
	f := &fixture{t: t, now: 1_700_000_000 * core.Second}
	f.other.Home = stranger{}
	h := session.NewHost(math.MaxInt64)
	h.Clock = ops.GivenClock(func() core.Time { return f.now })
	h.HeldMost, h.LookMost = session.HeldMax, ops.LookMost
	h.Log = slog.New(slog.NewTextHandler(&f.log, nil))
	h.Map = ops.NewMap(ops.MapOptions{
		Shards: shards,
		Naming: ops.Naming{
			Fold:  gearman.FoldFunction,
			Shown: func(name string) (int, bool) { return len(name), false },
		},
		BodyFreed: func(core.Large) {},
	})
	for i := range shards {
		sh := shard.New(i, core.New(h.Map.Directory()), h.Clock.Stamp)
		t.Cleanup(sh.Close)
		h.Map.Add(sh)
	}
	f.host = h
	cfg.Fill("host")
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	f.front = New(h, cfg, func(graceful bool) { f.ends = append(f.ends, graceful) })
	f.l = session.NewLoop(h, func() { f.asked = true })
	f.l.RunAfter(nil)
	return f
}

// newGearFixture has four shards, and handles that begin with H:x.
func newGearFixture(t testing.TB) *fixture { return newFixture(t, 4, Config{Prefix: "H:x"}) }

// round serves one wake-up of the loop.
func (f *fixture) round() bool {
	was := f.asked
	f.asked = false
	if was {
		f.l.GoOn(true)
	}
	for _, sh := range f.host.Map.Shards() {
		f.host.Clock.Stamp(&f.other)
		if sh.Due() <= f.other.Now {
			was = sh.Tick(&f.other) || was
		}
	}
	return was
}

// rest runs until nothing is left to do now.
func (f *fixture) rest() {
	f.t.Helper()
	for range 100_000 {
		if !f.round() {
			return
		}
	}
	f.t.Fatal("it does not come to rest")
}

// own keeps shard i from everybody until the returned function is called.
func (f *fixture) own(i int) (release func()) {
	f.t.Helper()
	sh := f.host.Map.Shard(i)
	if !sh.Own(&f.other) {
		f.t.Fatalf("shard %d is owned", i)
	}
	return func() {
		f.host.Clock.Stamp(&f.other)
		sh.Release(&f.other)
	}
}

// check looks for contradictions at rest. Package routertest compares more.
func (f *fixture) check() {
	f.t.Helper()
	f.rest()
	var open []*session.Session
	for _, c := range f.conns {
		if !c.s.IsGone() {
			open = append(open, c.s)
			if err := errors.Join(c.s.CheckAtRest(), c.p.CheckAtRest()); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	if err := f.l.CheckAtRest(open); err != nil {
		f.t.Fatal(err)
	}
}

// A testConn is a client of a fixture.
type testConn struct {
	f      *fixture
	s      *session.Session
	p      *conn // what s is embedded in
	got    bytes.Buffer
	closed bool
}

// connect opens a connection.
func (f *fixture) connect() *testConn {
	c := new(testConn)
	return f.connectAs(c, c)
}

// connectAs opens c, which the loop sees as nc.
func (f *fixture) connectAs(c *testConn, nc session.Conn) *testConn {
	c.f = f
	c.s = f.l.Open(f.front, nc)
	c.p = c.s.Protocol().(*conn)
	f.conns = append(f.conns, c)
	return c
}

func (c *testConn) Write(p []byte) { c.got.Write(p) }
func (c *testConn) WriteStable(pieces [][]byte) {
	for _, p := range pieces {
		c.got.Write(p)
	}
}
func (c *testConn) Unsent() int  { return 0 }
func (c *testConn) Close()       { c.closed = true }
func (c *testConn) Drop()        { c.closed = true }
func (c *testConn) Pause() bool  { return false }
func (c *testConn) Resume() bool { return true }

// send gives the server text, in memory that is spoilt afterwards.
func (c *testConn) send(text string) {
	b := []byte(text)
	c.f.l.Input(c.s, b)
	for i := range b {
		b[i] = '#'
	}
}

func (c *testConn) halfClose() { c.f.l.Event(c.s, (*session.Session).HalfClose) }

// take returns what has come.
func (c *testConn) take() string {
	defer c.got.Reset()
	return c.got.String()
}

// asks sends a packet, rests, and wants the answers as they are.
func (c *testConn) asks(text string, want ...string) {
	c.f.t.Helper()
	c.send(text)
	c.f.rest()
	c.hears(want...)
}

func (c *testConn) hears(want ...string) {
	c.f.t.Helper()
	all := strings.Join(want, "")
	if got := c.take(); got != all {
		c.f.t.Fatalf("got  %.300q\nwant %.300q", got, all)
	}
}

func packet(t gearman.Type, args ...string) string {
	return string(gearman.AppendRequest(nil, t, split(args)...))
}

func answer(t gearman.Type, args ...string) string {
	return string(gearman.AppendReply(nil, t, split(args)...))
}

func split(args []string) (list [][]byte) {
	for _, a := range args {
		list = append(list, []byte(a))
	}
	return list
}
