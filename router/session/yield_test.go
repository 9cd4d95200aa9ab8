package session

import (
	"testing"
	"time"

	"polystalk/shard/core"
)

// TestALoopYieldsNowAndThen: once in each yieldEvery of its time, and not more often.
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
