package reactor

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// A slowLog blocks the log message about waiting clients until it is released, so that the loop
// which logs it stays in the middle of accepting.
type slowLog struct {
	slog.Handler
	once   sync.Once
	saying chan struct{}
	goOn   chan struct{}
}

func (h *slowLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, complaintFull) {
		h.once.Do(func() {
			close(h.saying)
			<-h.goOn
		})
	}
	return nil
}

func (h *slowLog) Enabled(context.Context, slog.Level) bool { return true }

// TestListenerClosesWhileALoopAccepts: the shutdown waits for the loop, while the loop needs a lock
// that Shutdown has taken.
func TestListenerClosesWhileALoopAccepts(t *testing.T) {
	h := &slowLog{saying: make(chan struct{}), goOn: make(chan struct{})}
	r := New(Options{Loops: 1, Host: newHost(t, ops.SystemClock(), slog.New(h))})
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	r.accepting.Go(func() {
		r.setLimit(connectionLimit{n: 1, from: "this test"})
		served <- r.listen(l, new(echoFront))
	})
	for range 2 { // the second is not accepted
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	wait := func(c <-chan struct{}, what string) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(20 * time.Second):
			t.Fatal(what)
		}
	}
	wait(h.saying, "nobody had to wait")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}()
	closing := func() bool {
		if !r.mu.TryLock() {
			return true
		}
		defer r.mu.Unlock()
		return r.refused.all
	}
	for end := time.Now().Add(20 * time.Second); !closing() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	close(h.goOn)
	wait(ended, "it does not end")
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestAcceptWithoutAClientTakesNoSeat: a loop that finds no client must not keep a seat, or another
// loop would reject a client meanwhile.
func TestAcceptWithoutAClientTakesNoSeat(t *testing.T) {
	r := newReactor(t, Options{Loops: 1, MaxConnections: 1})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	in := &listener{reactor: r, l: l, raw: raw}
	if limit := r.limit.Load(); !limit.asked {
		t.Fatalf("the limit is %+v", limit)
	}
	a := &acceptor{in: in}
	asked := 0
	if err := raw.Control(func(fd uintptr) {
		if a.acceptOne(fd, func() bool { asked++; return true }) {
			t.Error("there is another")
		}
		a.acceptFrom(fd)
	}); err != nil {
		t.Fatal(err)
	}
	if n, _ := r.Connections(); asked != 0 || n != 0 {
		t.Errorf("a place was taken %d times for nobody, %d are", asked, n)
	}
	for i, want := range []bool{true, true, false, false} {
		if got := r.seats.take(2); got != want {
			t.Errorf("place %d of 2: %v", i+1, got)
		}
	}
}

// TestAcceptingIsPaced: a loop accepts only some of the waiting clients before its other connections
// have their turns.
func TestAcceptingIsPaced(t *testing.T) {
	r := newReactor(t, Options{Loops: 1, MaxConnections: 1})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const waiting = acceptMax + 5
	for range waiting {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	a := &acceptor{in: &listener{reactor: r, l: l, raw: raw}}
	r.seats.taken.Add(1) // so that each client is rejected at once
	refused := uint64(0)
	for _, want := range []uint64{acceptMax, waiting} {
		raw.Control(a.acceptFrom)
		if refused = r.host.Sums().Rejected[session.RejectedLimit]; refused != want {
			t.Errorf("%d were accepted, want %d", refused, want)
		}
	}
}

// TestLostConnectionIsLogged: the log shows the listener's address, because the client's is unknown.
func TestLostConnectionIsLogged(t *testing.T) {
	var log bytes.Buffer
	r := New(Options{Loops: 1, Host: newHost(t, ops.SystemClock(), slog.New(slog.NewTextHandler(&log, nil)))})
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	defer r.Shutdown(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var loop *eventLoop
	for _, loop = range r.loops {
		break
	}
	r.seats.taken.Add(1)
	loop.placed.Add(1)
	done := make(chan struct{})
	loop.do(func() {
		defer close(done)
		r.adopt(loop, -1, &socket{reactor: r, front: new(echoFront)}, l)
	})
	<-done
	if want := "addr=" + l.Addr().String(); !strings.Contains(log.String(), want) || r.seats.taken.Load() != 0 {
		t.Errorf("no %s in %s; %d seats are taken", want, &log, r.seats.taken.Load())
	}
}

// TestClientsWaitInTheBacklog: at the limit of descriptors, clients wait until a connection closes.
// Then one is accepted at once, without waiting for the timer.
func TestClientsWaitInTheBacklog(t *testing.T) {
	r := newReactor(t, Options{Loops: 2})
	r.afterFunc = func(time.Duration, func()) *time.Timer { return time.NewTimer(time.Hour) }
	s := start(t, r, "tcp", "127.0.0.1:0")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.setLimit(connectionLimit{n: 2, from: "this test"})
	s.accepting.Go(func() {
		if err := s.listen(l, s.front); err != nil {
			t.Error(err)
		}
	})
	s.addr = l.Addr()
	first, second := s.dial(t), s.dial(t)
	if !echoes(t, first) || !echoes(t, second) {
		t.Fatal("not served within the limit")
	}
	third := s.dial(t)
	third.SetDeadline(time.Now().Add(20 * retryMin))
	if echoes(t, third) {
		t.Error("served beyond the limit")
	}
	third.SetDeadline(time.Now().Add(20 * time.Second))
	first.Close()
	b := make([]byte, 1)
	if _, err := third.Read(b); err != nil {
		t.Errorf("not served once there is room: %v", err)
	}
	s.stop(t)
}

// TestWakeUpThatFails: a failed wake-up is retried, so the loop does not sleep forever.
func TestWakeUpThatFails(t *testing.T) {
	host := newHost(t, ops.SystemClock(), slog.New(slog.DiscardHandler))
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	w := &waker{fd: p[0]} // writes to it fail
	w.loop = &eventLoop{Loop: session.NewLoop(host, w.wake)}
	w.loop.Ask()
	w.mu.Lock()
	w.fd = p[1]
	w.mu.Unlock()
	ready := []unix.PollFd{{Fd: int32(p[0]), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(ready, 20_000)
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			t.Errorf("the loop is not woken: %d, %v", n, err)
		}
		break
	}
	w.mu.Lock()
	w.fd = -1
	w.mu.Unlock()
}

// TestHelpLeavesNoTaskBehind: a task for a loop is done although a helper has taken the loop's
// wake-up: the helper cannot run the task itself.
func TestHelpLeavesNoTaskBehind(t *testing.T) {
	l := new(eventLoop)
	done := false
	helping := false
	wakes := 0
	still := core.Time(time.Hour)
	host := newHost(t, ops.NewClock(func() core.Time {
		if helping { // the helper has taken the wake-up, and checks whether the loop is idle
			helping = false
			l.do(func() { done = true })
			if wakes != 0 {
				t.Error("woken though a call is under way")
			}
		}
		return still
	}, func() (core.Time, core.Time) { return still, still }, func() core.Time { return 0 }), slog.New(slog.DiscardHandler))
	l.Loop = session.NewLoop(host, func() { wakes++ })
	l.BeHelped(l.hasTasks)
	s := l.Open(new(echoFront), new(nowhere))
	ran := false
	helping = true
	l.Signal(s, func(*session.Session) { ran = true })
	if helping || !ran {
		t.Fatal("an idle loop is not helped")
	}
	if wakes != 1 || done {
		t.Fatalf("%d wake-ups, done by the helper: %v", wakes, done)
	}
	l.work()
	if !done {
		t.Error("not done by the loop")
	}
}

// A nowhere is a connection without a client.
type nowhere struct{}

func (nowhere) Write([]byte)         {}
func (nowhere) WriteStable([][]byte) {}
func (nowhere) Unsent() int          { return 0 }
func (nowhere) Close()               {}
func (nowhere) Drop()                {}
func (nowhere) Pause() bool          { return false }
func (nowhere) Resume() bool         { return false }
