package session

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"polystalk/router/ops"
	"polystalk/shard/core"
)

// newTestHost returns a host without shards, with the clock now.
func newTestHost(now *core.Time) *Host {
	h := NewHost(math.MaxInt64)
	h.Map = ops.NewMap(ops.MapOptions{Shards: 1, BodyFreed: func(core.Large) {}, Naming: ops.Naming{
		Fold:  func(name string) string { return name },
		Shown: func(name string) (int, bool) { return len(name), false },
	}})
	h.Clock = ops.NewClock(func() core.Time { return *now }, func() (core.Time, core.Time) { return *now, *now }, func() core.Time { return 0 })
	h.Log = slog.New(slog.DiscardHandler)
	h.HeldMost = HeldMax
	return h
}

// TestHelp: a helper enters only an idle loop, and never one in the middle of a turn: the helper
// may be in a callback of the same loop.
func TestHelp(t *testing.T) {
	now := core.Time(1)
	ran := 0
	l := NewLoop(newTestHost(&now), func() {})
	l.BeHelped(func() bool { return false })
	s := &Session{loop: l}
	add := func() { l.Signal(s, func(*Session) { ran++ }) }

	l.Enter()
	l.batch.Now = now
	add()
	now += 2 * idleAfter
	if l.help() || ran != 0 {
		t.Error("a loop was helped in the middle of its turn")
	}
	l.batch.Now = now
	l.Exit()
	if l.help() || ran != 0 {
		t.Error("a loop was helped just after its turn")
	}
	now += idleAfter
	if !l.help() || ran != 1 {
		t.Errorf("an idle loop was not helped: its signal ran %d times", ran)
	}
	add()
	if l.help() {
		t.Error("a loop was helped just after it was helped")
	}
}

// TestALoopYieldsNowAndThen: a loop yields once in yieldEvery, and not more often.
func TestALoopYieldsNowAndThen(t *testing.T) {
	l := new(Loop)
	const step = yieldEvery / 8
	n := 0
	for now := core.Time(time.Hour); now < core.Time(time.Hour)+100*yieldEvery; now += step {
		if l.MustYield(now) {
			n++
		}
	}
	if n != 100 {
		t.Errorf("yielded %d times in 100 times yieldEvery", n)
	}
}
