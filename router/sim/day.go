package sim

import (
	"time"

	"polystalk/shard/core"
)

// Day is the world's time of day. Nothing but dates depends on it.
func (w *World) Day() core.Time { return w.now + w.ahead }

// setClock sets the clock of the world's machine, now and then, to anything.
func (w *World) setClock() {
	if !w.steady && w.clock.IntN(16) == 0 {
		w.ahead = core.Time(w.clock.Int64N(int64(48*time.Hour))) - core.Time(24*time.Hour)
	}
}
