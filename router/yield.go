package router

import (
	"time"

	"polystalk/shard/core"
)

// yieldEvery is how long an event loop that always has something to do keeps its
// processor from the server's other goroutines: shards with timers that are due, the
// account of what connections keep, signals. When there are no more processors than
// loops the runtime would take one away from a loop after ten milliseconds only.
const yieldEvery = core.Time(time.Millisecond)

// mustYield reports whether the event loop is to let others have its processor now, with
// nothing locked. One whose poller has found nothing has done so by itself; that it is
// asked once more then costs little.
func (l *loop) mustYield(now core.Time) bool {
	if now-l.yielded < yieldEvery {
		return false
	}
	l.yielded = now
	return true
}
