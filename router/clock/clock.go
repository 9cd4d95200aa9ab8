package clock

import (
	"sync"
	"sync/atomic"
	"time"

	"polystalk/shard"
	"polystalk/shard/core"
)

// A Clock is the server's time. All methods but Watch and the two that set something may
// be called by any goroutine at any time, with a shard owned or without; none of them
// waits.
type Clock struct {
	// awake is the time that goes on while the machine is not suspended. both is the same
	// and the time of day at one moment. asleep is the time spent in suspends since some
	// moment, zero at first; awake does not go on in it.
	awake  func() core.Time
	both   func() (awake, day core.Time)
	asleep func() core.Time

	// slept and ahead are what Stamp puts into a Batch, in nanoseconds. They are read by
	// anyone, and change together while mu is held.
	mu    sync.Mutex
	slept atomic.Int64
	ahead atomic.Int64
}

const (
	// dayTolerance is how far the time of day may drift until Ahead follows: so long
	// translated moments keep their order among each other to the nanosecond.
	dayTolerance = core.Time(time.Millisecond)
	// suspendMin is the shortest suspend. Two clocks are read one after the other, and
	// what lies between must not be taken for one.
	suspendMin = core.Time(10 * time.Millisecond)
	// watchEvery is how often an idle server looks for a suspend.
	watchEvery = time.Second
	// readings of several clocks are tried until they lie close together.
	readings = 8
)

// System is the clock of the machine. Its first moment is the time of day.
func System() *Clock {
	started := time.Now()
	base := core.Time(started.UnixNano())
	slept := suspendedAtMost()
	return &Clock{
		awake: func() core.Time { return base + core.Time(time.Since(started)) },
		both: func() (awake, day core.Time) {
			t := time.Now()
			return base + core.Time(t.Sub(started)), core.Time(t.UnixNano())
		},
		asleep: func() core.Time { return suspendedAtLeast() - slept },
	}
}

// Given is a clock whose time is awake, and the time of day as well. awake must not step
// back.
func Given(awake func() core.Time) *Clock {
	return &Clock{
		awake:  awake,
		both:   func() (core.Time, core.Time) { t := awake(); return t, t },
		asleep: func() core.Time { return 0 },
	}
}

// SetDay gives the clock a time of day, which may step, instead of its own. It must be
// called before the clock is used.
func (k *Clock) SetDay(day func() core.Time) {
	k.both = func() (core.Time, core.Time) { return k.awake(), day() }
}

// SetSuspended tells for how long the machine has been suspended in all, which the time of
// a Given clock leaves out. It must be called before the clock is used.
func (k *Clock) SetSuspended(total func() core.Time) { k.asleep = total }

// Now is the server's time. It may not know of a suspend yet.
func (k *Clock) Now() core.Time { return k.awake() + core.Time(k.slept.Load()) }

// Awake is the server's time without what was slept through, for what only counts while
// the server could do something about it.
func (k *Clock) Awake() core.Time { return k.awake() }

// Stamp gives b the present moment. It notices that the machine was suspended, or its
// clock set, by the time of day.
func (k *Clock) Stamp(b *shard.Batch) {
	slept, ahead := core.Time(k.slept.Load()), core.Time(k.ahead.Load())
	awake, day := k.both()
	if d := day - awake - slept - ahead; d < -dayTolerance || d > dayTolerance {
		awake, slept, ahead = k.follow()
	}
	b.Now, b.Slept, b.Ahead = awake+slept, slept, ahead
}

// follow notes what has happened to the clocks.
func (k *Clock) follow() (awake, slept, ahead core.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	slept = core.Time(k.slept.Load())
	var day core.Time
	for range readings {
		before := k.awake()
		if s := k.asleep(); s >= slept+suspendMin {
			slept = s
		}
		awake, day = k.both()
		if k.awake()-before < dayTolerance {
			break
		}
	}
	ahead = day - awake - slept
	k.slept.Store(int64(slept))
	k.ahead.Store(int64(ahead))
	return awake, slept, ahead
}

// Watch has the shards look at their timers after a suspend, in which Go's timers have stood
// still as well. It returns when quit is closed; one goroutine may run it.
func (k *Clock) Watch(quit <-chan struct{}, shards []*shard.Shard) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	known := k.slept.Load()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		var b shard.Batch
		k.Stamp(&b)
		if k.asleep() >= b.Slept+suspendMin {
			k.follow() // the time of day was set back by as much
		}
		if slept := k.slept.Load(); slept != known {
			known = slept
			for _, sh := range shards {
				sh.Nudge()
			}
		}
	}
}
