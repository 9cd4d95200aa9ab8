package reactor

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/core"
)

// An echoFront makes sessions that echo their input. On '!' a session refuses its client; on '?' it
// waits for the half-close and then echoes the rest. Fronts are compared by address, so the struct
// is not empty.
type echoFront struct{ _ int }

type echo struct{ session.Session }

func (*echoFront) Name() string     { return "echo" }
func (*echoFront) Kinds() []string  { return nil }
func (*echoFront) Errors() []string { return nil }

func (*echoFront) Open(l *session.Loop, c session.Conn) *session.Session {
	e := new(echo)
	e.Init(l, c, e)
	return &e.Session
}

// refusal is the reply to '!'.
const refusal = "go away\n"

// Input implements session.Protocol.
func (e *echo) Input(b []byte) int {
	if !e.MayParse() {
		return 0
	}
	if b[0] == '!' {
		e.Say(refusal)
		e.Refuse()
		return len(b)
	}
	if b[0] == '?' {
		e.Wait()
		return 1
	}
	e.SetOut(append(e.Out(), b...))
	return len(b)
}

func (e *echo) Replied(*core.Reply) {}
func (e *echo) Next()               {}
func (e *echo) Woken(*core.Message) {}
func (e *echo) GiveUp()             { e.EndWait() }
func (e *echo) Close()              { e.Gone() }

// newHost makes a Host with one unused shard.
func newHost(t *testing.T, k *ops.Clock, log *slog.Logger) *session.Host {
	t.Helper()
	places := ops.NewMap(ops.MapOptions{
		Shards:    1,
		Naming:    ops.Naming{Fold: func(s string) string { return s }, Shown: func(s string) (int, bool) { return len(s), false }},
		BodyFreed: func(core.Large) {},
	})
	places.Add(shard.New(0, core.New(places.Directory()), k.Stamp))
	t.Cleanup(places.Shard(0).Close)
	h := session.NewHost(math.MaxInt64)
	h.Map, h.Clock, h.Log = places, k, log
	h.HeldMost, h.LookMost = session.HeldMax, ops.LookMost
	return h
}

// newReactor makes a Reactor with a new Host. It does not start it.
func newReactor(t *testing.T, o Options) *Reactor {
	t.Helper()
	o.Host = newHost(t, ops.SystemClock(), slog.New(slog.DiscardHandler))
	return New(o)
}

// A running is a started reactor, with one listener of connections that echo.
type running struct {
	*Reactor
	addr   net.Addr
	front  session.Front
	served chan error // the result of Serve
}

// start starts r and serves a listener.
func start(t *testing.T, r *Reactor, network, address string) *running {
	t.Helper()
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	s := &running{Reactor: r, addr: l.Addr(), front: new(echoFront), served: make(chan error, 1)}
	go func() { s.served <- r.Serve(l, s.front) }()
	return s
}

// stop shuts the reactor down, after all replies were sent.
func (s *running) stop(t *testing.T) {
	t.Helper()
	const most = 20 * time.Second
	began := time.Now()
	s.stopWithin(t, most)
	if time.Since(began) >= most {
		t.Error("the end has not come by itself")
	}
}

// stopWithin shuts the reactor down, at the latest after that time.
func (s *running) stopWithin(t *testing.T, most time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-s.served; err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

// dial makes a client, and closes it at the end of the test.
func (s *running) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial(s.addr.Network(), s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// echoes reports whether c receives what it sends.
func echoes(t *testing.T, c net.Conn) bool {
	t.Helper()
	const want = "hear this\n"
	b := make([]byte, len(want))
	if _, err := io.WriteString(c, want); err != nil {
		return false
	}
	_, err := io.ReadFull(c, b)
	if err == nil && string(b) != want {
		t.Fatalf("got %q", b)
	}
	return err == nil
}

// openDescriptors returns the number of open descriptors of this process.
func openDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(all)
}

// eventually waits until ok returns true.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("it does not come about")
}
