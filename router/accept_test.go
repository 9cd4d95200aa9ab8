package router

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/shard/journal"
)

// TestConnectionsLeaveDescriptors: what a limit of descriptors allows leaves some for
// all else, more with a journal and with every loop, and is never none.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	for _, tt := range []struct {
		descriptors, loops, want int
		journal                  *Journal
	}{
		{0, 1, 1, nil}, {31, 1, 1, nil}, {33, 1, 2, nil}, {100, 1, 69, nil}, {1024, 2, 984, nil},
		{1024, 2, 984 - journal.Descriptors - 2, new(Journal)}, {1024, 8, 930, nil}, {1024, 1024, 1, nil}, {1 << 30, 1, 1<<30 - 31, nil},
	} {
		c := Config{Loops: tt.loops, Journal: tt.journal}
		if got := c.connectionsFor(tt.descriptors); got != tt.want {
			t.Errorf("%d descriptors, %d loops: %d connections, want %d", tt.descriptors, tt.loops, got, tt.want)
		}
	}
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		t.Fatal(err)
	}
	if got := descriptors(); uint64(got) != min(uint64(r.Cur), 1<<30) {
		t.Errorf("%d descriptors, the limit is %d", got, r.Cur)
	}
}

// TestTooManyConnectionsAreRefused: those who are in go on, the next is
// closed, and once one leaves another may come.
func TestTooManyConnectionsAreRefused(t *testing.T) {
	s, err := New(Config{Loops: 1, Shards: 1, MaxConnections: 2})
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
	go func() { served <- s.Serve(l) }()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	// answers reports whether the server serves c.
	answers := func(c net.Conn) bool {
		t.Helper()
		const want = "USING default\r\n"
		b := make([]byte, len(want))
		if _, err := c.Write([]byte("list-tube-used\r\n")); err != nil {
			return false
		}
		_, err := io.ReadFull(c, b)
		if err == nil && string(b) != want {
			t.Fatalf("got %q", b)
		}
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			t.Fatal("neither answered nor closed")
		}
		return err == nil
	}
	first, second := dial(), dial()
	if !answers(first) || !answers(second) {
		t.Fatal("refused within the limit")
	}
	if answers(dial()) {
		t.Error("served beyond the limit")
	}
	if !answers(first) || !answers(second) {
		t.Error("those who are in are served no more")
	}
	second.Close()
	for range 1000 {
		if c := dial(); answers(c) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if n := s.net.open.Load(); n != 2 {
		t.Errorf("%d connections are open, want the first and the new one", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

func TestServeTellsThatItsListenerIsClosed(t *testing.T) {
	s, err := New(Config{Loops: 1, Shards: 1, MaxConnections: 2})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := s.Serve(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed listener: %v", err)
	}
}
