package router

import (
	"testing"

	"polystalk/shard"
)

// Only an idle loop is helped, and never one in the middle of a turn: its
// helper may be in its own callback.
func TestHelp(t *testing.T) {
	now := shard.Time(1)
	d, err := NewDriven(Config{Loops: 1, Shards: 1, MaxJobSize: 1 << 16}, func() shard.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ran := 0
	l := newLoop(d.srv, func() {})
	s := &session{loop: l}
	add := func() { l.signal(s, func(*session) { ran++ }) }

	l.enter()
	l.batch.Now = now
	add()
	now += 2 * idleAfter
	if l.help() || ran != 0 {
		t.Error("a loop was helped in the middle of its turn")
	}
	l.batch.Now = now
	l.exit()
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
