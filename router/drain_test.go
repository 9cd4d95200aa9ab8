package router

import (
	"testing"

	"polystalk/router/session"
)

// TestDrainHasTwoReasons: an operator cannot end a drain of a server that is about to exit, and a
// server that does not exit keeps an operator's drain.
func TestDrainHasTwoReasons(t *testing.T) {
	d := &drain{host: new(session.Host)}
	end := func(on bool) { d.set(&d.ending, on) }
	for _, step := range []struct {
		do   func(bool)
		on   bool
		want bool
	}{
		{d.want, true, true}, {d.want, false, false}, // only by an operator
		{end, true, true}, {d.want, true, true}, {d.want, false, true}, {end, false, false},
		{d.want, true, true}, {end, true, true}, {end, false, true}, {d.want, false, false},
	} {
		step.do(step.on)
		if got := d.host.Draining.Load(); got != step.want {
			t.Fatalf("after %+v: draining is %t", step, got)
		}
	}
}
