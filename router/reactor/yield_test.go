package reactor

import (
	"runtime"
	"testing"
)

// TestLoopsYieldWhenThereIsNoProcessorToSpare: only then.
func TestLoopsYieldWhenThereIsNoProcessorToSpare(t *testing.T) {
	was := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(was)
	for _, tt := range []struct {
		procs, loops int
		want         bool
	}{{1, 1, true}, {2, 1, false}, {2, 2, true}, {3, 2, false}} {
		runtime.GOMAXPROCS(tt.procs)
		s := start(t, newReactor(t, Options{Loops: tt.loops}), "tcp", "127.0.0.1:0")
		if s.yields != tt.want {
			t.Errorf("%d processors, %d loops: yields %v", tt.procs, tt.loops, s.yields)
		}
		c := s.dial(t)
		if !echoes(t, c) {
			t.Error("not answered")
		}
		c.Close()
		s.stop(t)
	}
}
