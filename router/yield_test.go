package router

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"polystalk/shard/core"
)

// TestALoopYieldsNowAndThen: once in each yieldEvery of its time, and not more often.
func TestALoopYieldsNowAndThen(t *testing.T) {
	l := new(loop)
	const step = yieldEvery / 8
	n := 0
	for now := core.Time(time.Hour); now < core.Time(time.Hour)+100*yieldEvery; now += step {
		if l.mustYield(now) {
			n++
		}
	}
	if n != 100 {
		t.Errorf("yielded %d times in 100 times yieldEvery", n)
	}
}

// TestLoopsYieldWhenThereIsNoProcessorToSpare: only then.
func TestLoopsYieldWhenThereIsNoProcessorToSpare(t *testing.T) {
	was := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(was)
	for _, tt := range []struct {
		procs, loops int
		want         bool
	}{{1, 1, true}, {2, 1, false}, {2, 2, true}, {3, 2, false}} {
		runtime.GOMAXPROCS(tt.procs)
		s, err := New(Config{Loops: tt.loops, Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if s.net.yields != tt.want {
			t.Errorf("%d processors, %d loops: yields %v", tt.procs, tt.loops, s.net.yields)
		}
		nc, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(nc) }()
		c, err := net.Dial("tcp", nc.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(20 * time.Second))
		answer := make([]byte, len("INSERTED 1\r\n"))
		if _, err := c.Write([]byte("put 0 0 60 1\r\nx\r\n")); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(answer); err != nil || string(answer[:n]) != "INSERTED 1\r\n" {
			t.Errorf("answered %q, %v", answer[:n], err)
		}
		c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
