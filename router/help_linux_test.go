package router

import (
	"testing"

	"polystalk/router/clock"
	"polystalk/shard/core"
)

// TestHelpLeavesNoTaskBehind: what was handed to a loop while another had taken its
// wake-up, to help it out, is done by the loop: a helper cannot register a connection.
func TestHelpLeavesNoTaskBehind(t *testing.T) {
	now := core.Time(0)
	srv, err := newServer(Config{Loops: 1, Shards: 1}, clock.Given(func() core.Time { return now }))
	if err != nil {
		t.Fatal(err)
	}
	wakes := 0
	l := newLoop(srv, func() { wakes++ })
	l.helped = true
	l.reactor = &reactor{loop: l}
	now = 10 * idleAfter
	l.own.Lock()
	l.woken.Store(true) // somebody is about to help
	l.own.Unlock()
	done := false
	l.reactor.do(func() { done = true })
	if wakes != 0 {
		t.Fatal("woken though a call is under way")
	}
	if !l.help() {
		t.Fatal("an idle loop is not helped")
	}
	if wakes != 1 || done {
		t.Fatalf("%d wake-ups, done by the helper: %v", wakes, done)
	}
	l.reactor.work()
	if !done {
		t.Error("not done by the loop")
	}
}
