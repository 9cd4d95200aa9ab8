package reactor

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// A gnetConn replaces gnet's side of one connection. It closes only in closeIfAsked, as an event
// loop closes in its next pass.
type gnetConn struct {
	gnet.Conn // nil: other methods are not called
	k         *socket
	fd        int // -1: closed
	came      []byte
	asked     bool
}

func (c *gnetConn) Context() any             { return c.k }
func (c *gnetConn) Next(int) ([]byte, error) { return c.came, nil }
func (c *gnetConn) Close() error             { c.asked = true; return nil }

// traffic is bytes from the client.
func (c *gnetConn) traffic(b []byte) {
	c.came = b
	if c.k.reactor.OnTraffic(c) == gnet.Close {
		c.close(nil)
	}
}

func (c *gnetConn) close(err error) {
	if c.fd < 0 {
		return
	}
	c.k.reactor.OnClose(c, err)
	unix.Close(c.fd)
	c.fd = -1
}

func (c *gnetConn) closeIfAsked() {
	if c.asked {
		c.close(nil)
	}
}

// A randomEnd is one connection, which gnet has at first, and to which any event may happen.
type randomEnd struct {
	r      *Reactor
	k      *socket
	c      *gnetConn
	client *os.File
	timers []func()
}

var randomFront = new(echoFront)

func newRandomEnd(t *testing.T, r *Reactor) *randomEnd {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range ends {
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	e := &randomEnd{r: r, client: os.NewFile(uintptr(ends[1]), "client")}
	r.afterFunc = func(_ time.Duration, f func()) *time.Timer {
		e.timers = append(e.timers, f)
		return time.NewTimer(time.Hour)
	}
	l := &eventLoop{Loop: session.NewLoop(r.host, func() {})}
	l.placed.Add(1)
	r.seats.taken.Add(1)
	e.k = &socket{reactor: r, loop: l, fd: ends[0]}
	e.c = &gnetConn{k: e.k, fd: ends[0]}
	e.k.c = e.c
	l.Enter()
	defer l.Exit()
	e.k.inCallback = true
	e.k.s = l.Open(randomFront, e.k)
	e.k.inCallback = false
	return e
}

// event runs an event of the session.
func (e *randomEnd) event(f func(*session.Session)) {
	l := e.k.loop
	l.Enter()
	l.Event(e.k.s, f)
	l.Exit()
}

func (e *randomEnd) turn() {
	l := e.k.loop
	l.Enter()
	l.GoOn(true)
	l.Exit()
}

func (e *randomEnd) fireTimers() {
	timers := e.timers
	e.timers = nil
	for _, f := range timers {
		f()
	}
}

var muchToSay = string(bytes.Repeat([]byte("much to say "), 100_000))

// happen runs one random event.
func (e *randomEnd) happen(rng *rand.Rand) {
	switch rng.IntN(13) {
	case 0, 1:
		if e.c.fd >= 0 {
			e.c.traffic([]byte("says something"))
		}
	case 2:
		if e.c.fd >= 0 && rng.IntN(3) == 0 {
			e.c.traffic([]byte("!"))
		}
	case 3, 4:
		e.event(func(s *session.Session) {
			if !s.Closing() {
				s.Say(muchToSay[:rng.IntN(len(muchToSay))])
			}
		})
	case 5:
		e.client.SetReadDeadline(time.Now().Add(time.Millisecond))
		io.CopyN(io.Discard, e.client, int64(rng.IntN(1<<20)))
	case 6:
		e.c.closeIfAsked()
	case 7:
		e.fireTimers()
	case 8:
		time.Sleep(100 * time.Microsecond) // for the notifier
		e.turn()
	case 9:
		if rng.IntN(4) == 0 {
			unix.Shutdown(int(e.client.Fd()), unix.SHUT_WR)
			e.c.close(io.EOF)
		}
	case 10:
		if rng.IntN(6) == 0 {
			e.event((*session.Session).Abort)
		}
	case 11:
		if rng.IntN(6) == 0 {
			e.event(func(s *session.Session) {
				if s.Closing() { // all connections together use too much memory
					e.k.Drop()
				}
			})
		}
	case 12:
		if rng.IntN(6) == 0 {
			e.client.Close()
			if rng.IntN(2) == 0 {
				e.c.close(unix.ECONNRESET)
			}
		}
	}
}

// TestWhateverHappensASeatIsGivenBackOnce runs events in any order: every change of a stage is
// allowed, and in the end nothing is counted, kept or open.
func TestWhateverHappensASeatIsGivenBackOnce(t *testing.T) {
	r := newReactor(t, Options{Loops: 1})
	if err := r.notifier.start(); err != nil {
		t.Fatal(err)
	}
	defer r.notifier.stop()
	stages := make(map[stage]int)
	files := openDescriptors(t)
	seeds := uint64(300)
	if testing.Short() {
		seeds = 100
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		e := newRandomEnd(t, r)
		for range rng.IntN(40) {
			e.happen(rng)
			stages[e.k.stage]++
		}
		e.client.Close()
		if e.c.close(io.EOF); !e.k.s.IsGone() {
			e.event((*session.Session).Abort)
		}
		for range 100 { // signals arrive one by one if each takes a whole turn
			if e.fireTimers(); e.k.fd >= 0 {
				e.turn()
			}
		}
		open, behind := r.Connections()
		if n := e.k.loop.placed.Load(); open != 0 || behind != 0 || n != 0 || len(r.detached) != 0 || e.k.stage != over || e.k.fd >= 0 {
			t.Fatalf("seed %d: %d seats, %d behind, %d placed, %d without gnet, it is %v", seed, open, behind, n, len(r.detached), e.k.stage)
		}
	}
	if n := openDescriptors(t); n > files {
		t.Errorf("%d descriptors more", n-files)
	}
	if n := r.host.Account.Sum(); n > 64<<10 {
		t.Errorf("%d bytes are still charged", n)
	}
	for s := serving; s <= over; s++ {
		if stages[s] == 0 {
			t.Errorf("none was %v: the test is of no use", s)
		}
	}
}
