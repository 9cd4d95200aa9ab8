package router

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/router/clock"
)

// A slowLog is in the middle of saying that clients wait to be accepted until it is let
// go on: the loop that says so is accepting.
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

// TestListenerClosesWhileALoopAccepts: the end of the server waits for the loop, and the
// loop needs what whoever ends the server has locked.
func TestListenerClosesWhileALoopAccepts(t *testing.T) {
	h := &slowLog{saying: make(chan struct{}), goOn: make(chan struct{})}
	s, err := New(Config{Loops: 1, Shards: 1, Log: slog.New(h)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	s.net.accepting.Add(1)
	go func() {
		defer s.net.accepting.Done()
		served <- s.net.listen(l, false, connectionLimit{n: 1, from: "this test"})
	}()
	for range 2 { // the second does not come in
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
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}()
	n := s.net
	closing := func() bool {
		if !n.mu.TryLock() {
			return true
		}
		defer n.mu.Unlock()
		return n.stopping
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

// TestNobodyTakesAPlace but who is accepted: a loop that looks and finds nobody must not
// have another turn a client away meanwhile.
func TestNobodyTakesAPlace(t *testing.T) {
	s, err := New(Config{Loops: 1, Shards: 1, MaxConnections: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	in := &listening{net: s.net, l: l, raw: raw, from: s.cfg.limitOf(1000)}
	if !in.from.asked {
		t.Fatalf("the limit is %+v", in.from)
	}
	d := &door{in: in}
	asked := 0
	if err := raw.Control(func(fd uintptr) {
		if d.acceptOne(fd, func() bool { asked++; return true }) {
			t.Error("there is another")
		}
		d.acceptFrom(fd)
	}); err != nil {
		t.Fatal(err)
	}
	if asked != 0 || s.net.open.Load() != 0 {
		t.Errorf("a place was taken %d times for nobody, %d are", asked, s.net.open.Load())
	}
	for i, want := range []bool{true, true, false, false} {
		if got := s.net.reserve(2); got != want {
			t.Errorf("place %d of 2: %v", i+1, got)
		}
	}
}

// TestWakeUpThatFails is tried again: a loop that is not woken once is not for ever.
func TestWakeUpThatFails(t *testing.T) {
	srv, err := newServer(Config{Loops: 1, Shards: 1}, clock.System())
	if err != nil {
		t.Fatal(err)
	}
	defer srv.places.Shard(0).Close()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	w := &waker{net: newNetwork(srv), fd: p[0]} // which nobody can write to
	w.loop = newLoop(srv, w.wake)
	w.loop.run()
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
