package router

import (
	"testing"

	"polystalk/router/session"
)

// TestDrainHasTwoReasons: who ends a drain has no job taken that would be lost with a server
// that is about to end, and a server that goes on does not end a drain that somebody wants.
func TestDrainHasTwoReasons(t *testing.T) {
	d := &drain{host: new(session.Host)}
	for _, step := range []struct {
		do   func(bool)
		on   bool
		want bool
	}{
		{d.want, true, true}, {d.want, false, false}, // by somebody alone
		{d.end, true, true}, {d.want, true, true}, {d.want, false, true}, {d.end, false, false},
		{d.want, true, true}, {d.end, true, true}, {d.end, false, true}, {d.want, false, false},
	} {
		step.do(step.on)
		if got := d.host.Draining.Load(); got != step.want {
			t.Fatalf("after %+v: draining is %t", step, got)
		}
	}
}
