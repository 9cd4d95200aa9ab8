package core

import "testing"

// What never comes does not come because the machine was suspended meanwhile: the moment of
// a length of time awake that goes beyond the end of time is Never, and not before all
// others.
func TestNeverAwakeIsNever(t *testing.T) {
	const slept = 5 * Second
	c := New(nil)
	defer c.Close()
	c.Slept(slept)
	for _, tt := range []struct{ awake, want Time }{
		{0, slept}, {Second, 6 * Second},
		{Never - slept - 1, Never - 1}, {Never - slept, Never}, {Never - slept + 1, Never}, {Never - 1, Never}, {Never, Never},
	} {
		if got := c.whenAwake(tt.awake); got != tt.want {
			t.Errorf("%d awake is at %d, want %d", tt.awake, got, tt.want)
		}
	}
}

// A reservation that has ended leaves its timer behind. When that fires after the machine
// was suspended, nothing is due any more.
func TestTimerOfNothingAfterSleep(t *testing.T) {
	p := newWorld(t).join("default")
	id := p.put(5, 0, 10)
	p.reserve(id)
	p.on(OpDelete, id, StatusOK)
	p.core.Slept(5 * Second)
	p.pass(20 * Second)
	if next := p.core.Next(); next != Never {
		t.Errorf("the next timer is at %d, and nothing waits", next)
	}
	p.wait(Never - Second) // ends so late that it does not
	p.pass(20 * Second)
	p.wakes()
	if next := p.core.Next(); next != Never {
		t.Errorf("the next timer is at %d, for a wait without an end", next)
	}
}
